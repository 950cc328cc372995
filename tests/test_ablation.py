"""The ablation ladder as it is configured, composed by name, and run."""

import json
import subprocess
import sys
from pathlib import Path

import hydra
import pytest
from hydra.errors import HydraException
from omegaconf import OmegaConf

from runners.choice import Rung, chosen
from tests.test_config import choices, compose

ROOT = Path(__file__).parent.parent
LADDER = {
    "fixed_unigram": None,
    "best_first_unigram": {"expansion": "best_first"},
    "backoff": {"fusion": "backoff"},
    "uniform": {"fusion": "mixture"},
    "priors": {"priors": "specificity"},
    "confidence": {"confidence": True},
    "persistent_m1": {"m1": "stream"},
    "suffix": {"suffix": 4},
}
NO_CONFIDENCE = {"persistent_m1_no_confidence": {"m1": "stream"}, "suffix_no_confidence": {"suffix": 4}}


def method(*overrides: str) -> dict:
    return OmegaConf.to_container(compose("method=recap", *overrides).method)


def changed(name: str) -> dict:
    """The options that a rung has otherwise than its predecessor."""
    before, after = method(f"ablation={Rung.of(name).predecessor}"), method(f"ablation={name}")
    return {key: after[key] for key in after if after[key] != before[key]}


def test_every_rung_is_known_here():
    assert set(choices("ablation")) == {*LADDER, *NO_CONFIDENCE}


def test_the_rungs_are_climbed_in_the_papers_order():
    names = list(LADDER)
    assert [Rung.of(name).predecessor for name in names] == [None, *names[:-1]]
    assert Rung.of("persistent_m1_no_confidence").predecessor == "priors"
    assert Rung.of("suffix_no_confidence").predecessor == "persistent_m1_no_confidence"


@pytest.mark.parametrize("name,change", [*list(LADDER.items())[1:], *NO_CONFIDENCE.items()])
def test_a_rung_differs_from_its_predecessor_in_one_option(name, change):
    assert changed(name) == change


def test_the_first_rung_is_the_paper_preset_without_any_of_the_six():
    preset, first = method(), method("ablation=fixed_unigram")
    differing = {key for key in preset if preset[key] != first[key]}
    assert differing == {"expansion", "fusion", "priors", "confidence", "m1", "suffix"}


def test_the_last_rung_is_the_paper_preset():
    assert method("ablation=suffix") == method()


def test_the_last_rung_without_confidence_lacks_nothing_else():
    assert method("ablation=suffix_no_confidence") == method() | {"confidence": False}


def test_the_ladders_of_the_experiments_are_whole_and_in_order():
    for experiment, rungs in (
        ("ablations", list(LADDER)),
        ("ablations_no_confidence", [*list(LADDER)[:5], *NO_CONFIDENCE]),
    ):
        config = compose(f"experiment={experiment}")
        assert OmegaConf.to_container(config.method) == method(f"ablation={rungs[0]}")
        assert list(config.versus) == [f"recap/{rung}" for rung in rungs[1:]]


def asked(config, name: str = "recap", rung: str | None = None, overrides: tuple[str, ...] = ()):
    with hydra.initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        return chosen(config, {"method": name, "ablation": rung}, overrides)


def test_methods_and_rungs_are_composed_by_name():
    found = asked(compose("versus=[token_recycling,recap/backoff]"))
    assert [one.name for one in found] == ["recap", "token_recycling", "recap-backoff"]
    assert found[2].section == method("ablation=backoff")
    assert found[2].rung == Rung("backoff", "best_first_unigram")


def test_a_name_given_twice_runs_once():
    assert [one.name for one in asked(compose("versus=[recap,recap/backoff,recap/backoff]"))] == [
        "recap",
        "recap-backoff",
    ]


def test_options_of_the_method_hold_for_its_rungs_and_for_no_other_method():
    typed = ("method.budget=31",)
    found = asked(
        compose("ablation=uniform", *typed, "versus=[recap/priors,token_recycling]"), "recap", "uniform", typed
    )
    assert [one.section.get("budget") for one in found] == [31, 31, 80]


def test_a_rung_of_another_method_is_refused():
    with pytest.raises(ValueError, match=r"ablation=backoff: the rungs are forms of RECAP; choose method=recap"):
        asked(compose("versus=[token_recycling/backoff]"))


def test_an_unknown_rung_lists_the_known_ones():
    with pytest.raises(HydraException, match="best_first_unigram"):
        asked(compose("versus=[recap/backof]"))


def test_a_real_ladder_names_its_rungs_and_pairs_them(tmp_path):
    command = [sys.executable, "run.py", "experiment=ablations", "model=tiny_qwen", "bench=synthetic", "limit=2"]
    command += ["generate_check=0", "max_new_tokens=24", f"out={tmp_path}"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    folders = {path.name.rsplit("-", 1)[0]: path for path in (tmp_path / "tiny_qwen" / "synthetic").iterdir()}
    assert set(folders) == {f"recap-{rung}" for rung in LADDER}
    for rung in LADDER:
        summary = json.loads((folders[f"recap-{rung}"] / "summary.json").read_text())
        assert (summary["method"], summary["ablation"]) == ("recap", rung)
        assert summary["predecessor"] == Rung.of(rung).predecessor
        assert summary["verdict"]["equal"] == summary["turns"]
    heading = next(i for i, line in enumerate(ran.stdout.splitlines()) if line.startswith("rung "))
    lines = ran.stdout.splitlines()[heading + 2 :][: len(LADDER)]
    assert [line.split()[0] for line in lines] == list(LADDER)
    assert "expansion=best_first" in lines[1] and lines[1].endswith("+4.90")
