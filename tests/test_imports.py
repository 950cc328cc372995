"""Imports point one way: a folder imports only what its arrow allows."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OURS = {"recap", "baselines", "runners", "analysis"}
MAY_IMPORT = {
    "recap": {"recap"},
    "baselines": {"baselines", "recap"},
    "runners": {"runners", "recap", "baselines", "analysis"},
    "analysis": {"analysis"},
}
BARRED = {
    "recap": {"datasets", "hydra", "omegaconf", "pandas", "PIL"},
    "baselines": {"datasets", "hydra", "omegaconf", "pandas", "PIL", "transformers"},
    "runners": set(),
    "analysis": {"torch", "transformers"},
}


def imported(source: str, module: str = "") -> set[str]:
    """Every module that a source names in an import, wherever in it; `module` resolves relative ones."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module.split(".")[: -node.level]
                base = ".".join([*package, *([base] if base else [])])
            names |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return names


def sources():
    for folder in sorted(OURS):
        yield from sorted((ROOT / folder).rglob("*.py"))


def modules_of(path: Path) -> set[str]:
    return imported(path.read_text(), ".".join(path.relative_to(ROOT).with_suffix("").parts))


def roots_of(path: Path) -> set[str]:
    return {name.split(".")[0] for name in modules_of(path)}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", list(sources()), ids=name_of)
def test_a_file_imports_only_what_its_folder_may(path):
    folder = path.relative_to(ROOT).parts[0]
    assert roots_of(path) & OURS <= MAY_IMPORT[folder], "back edge"
    assert not roots_of(path) & BARRED[folder]


def test_only_the_targets_know_transformers():
    knowing = {path for path in (ROOT / "recap").rglob("*.py") if "transformers" in roots_of(path)}
    assert knowing
    assert {path.parent.name for path in knowing} == {"targets"}


def test_only_the_library_calls_know_the_targets():
    outside = {path for path in (ROOT / "recap").glob("*.py") if any("recap.targets" in n for n in modules_of(path))}
    assert {path.name for path in outside} == {"__init__.py", "api.py"}


def test_the_loop_knows_neither_torch_nor_a_method():
    loop = modules_of(ROOT / "recap" / "decode.py")
    assert not {name for name in loop if name.split(".")[0] in ("torch", "baselines")}
    assert {name for name in loop if name.startswith("recap.drafter.")} == {"recap.drafter.Drafter"}


def test_imports_are_seen_wherever_they_stand():
    source = (
        "def f():\n    import runners.cell\n    from ..other import thing\nif False:\n    from analysis import load"
    )
    names = imported(source, "recap.targets.base")
    assert names == {"runners.cell", "recap.other", "recap.other.thing", "analysis", "analysis.load"}
