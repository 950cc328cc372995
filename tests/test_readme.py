"""The README's commands and code work as typed."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_config import compose

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)
COMMANDS = [line for kind, text in BLOCKS if kind == "bash" for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize("command", sorted({c for c in COMMANDS if "run.py" in c and "--help" not in c}))
def test_every_run_command_composes(command):
    words = shlex.split(command.split("  #")[0])
    overrides = [o for o in words[words.index("run.py") + 1 :] if o != "-m" and not o.startswith("launch=")]
    config = compose(*(o if "[" in o else o.split(",")[0] for o in overrides))  # of a sweep, its first cell
    assert {o.split("=")[0] for o in overrides} and config.limit


@pytest.mark.parametrize("target", sorted({c.split()[1] for c in COMMANDS if c.startswith("make ")}))
def test_every_make_target_exists(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("number", range(sum(kind == "python" for kind, _ in BLOCKS)))
def test_every_python_example_runs(number, monkeypatch):
    monkeypatch.chdir(ROOT)
    code = [text for kind, text in BLOCKS if kind == "python"][number]
    exec(compile(code, f"README.md, example {number}", "exec"), {})


def test_the_worked_example_is_short_and_runs_without_touching_our_code(tmp_path):
    example = next(text for kind, text in BLOCKS if kind == "python" and "class Bigram" in text)
    assert len(example.splitlines()) < 40
    (tmp_path / "bigram.py").write_text(example)
    overrides = ["method=custom", "method._target_=bigram.Bigram", "limit=2", "generate_check=0", f"out={tmp_path}/out"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "run.py", *overrides], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "custom" in done.stdout


def test_every_file_of_the_tree_exists():
    tree = next(text for kind, text in BLOCKS if kind == "text" and "run.py" in text)
    folder = ROOT
    for line in tree.splitlines():
        indent, name = len(line) - len(line.lstrip()), line.split()[0] if line.split() else ""
        if not name:
            continue
        path = (ROOT if indent == 0 else folder) / name
        assert path.exists(), f"{path.relative_to(ROOT)} stands in the README's tree only"
        if indent == 0 and path.is_dir():
            folder = path
