"""Config files and constructors agree, and a wrong key or value is named."""

import inspect
from pathlib import Path

import hydra
import pytest
from hydra.utils import get_class
from omegaconf import OmegaConf

from recap import Recap
from runners.config import build, content_hash, explain
from runners.peer import TransformersGenerate

CONF = Path(__file__).parent.parent / "conf"


def compose(*overrides: str):
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        return hydra.compose("config", overrides=list(overrides))


def choices(group: str) -> list[str]:
    return sorted(file.stem for file in (CONF / group).glob("*.yaml"))


PEERS = ("hf_generate", "hf_prompt_lookup")
TEMPLATE = "custom"  # names no class of its own


@pytest.mark.parametrize("name", [n for n in choices("method") if n not in (*PEERS, TEMPLATE)])
def test_every_method_file_builds_its_drafter(name):
    section = OmegaConf.to_container(compose(f"method={name}").method)
    drafter = build(section, "method")
    assert all(callable(getattr(drafter, verb)) for verb in ("wants", "begin", "propose", "observe", "end", "reset"))


@pytest.mark.parametrize("group,name", [(g, n) for g in ("model", "bench") for n in choices(g)])
def test_every_model_and_benchmark_file_names_only_arguments_of_its_constructor(group, name):
    section = OmegaConf.to_container(compose(f"{group}={name}")[group])
    parameters = inspect.signature(get_class(section.pop("_target_"))).parameters
    assert set(section) <= set(parameters)


@pytest.mark.parametrize("name", PEERS)
def test_every_peer_file_builds_a_peer(name):
    section = OmegaConf.to_container(compose(f"method={name}").method)
    assert isinstance(build(section, "method"), TransformersGenerate)


@pytest.mark.parametrize("name", choices("experiment"))
def test_every_experiment_composes_and_names_methods_and_rungs_that_exist(name):
    config = compose(f"experiment={name}")
    named = [entry.split("/") for entry in config.versus]
    assert named or config.record
    assert {method for method, *_ in named} <= set(choices("method"))
    assert {rung for _, *rungs in named for rung in rungs} <= set(choices("ablation"))


def test_the_recap_file_states_the_constructors_own_defaults():
    section = OmegaConf.to_container(compose("method=recap").method)
    section.pop("_target_")
    defaults = {name: p.default for name, p in inspect.signature(Recap).parameters.items()}
    assert section == defaults


@pytest.mark.parametrize("name", [n for n in choices("method") if n not in ("recap", TEMPLATE)])
def test_a_rivals_file_states_every_argument_of_its_constructor(name):
    section = OmegaConf.to_container(compose(f"method={name}").method)
    parameters = inspect.signature(get_class(section.pop("_target_"))).parameters
    assert set(section) == set(parameters)
    plain = name in ("prompt_lookup", "sam_decoding", "suffix_decoding", "lookahead", "racer")
    assert not plain or section == {key: p.default for key, p in parameters.items()}


def test_an_unknown_key_is_named_with_the_nearest_and_all_legal_ones():
    with pytest.raises(
        ValueError, match=r"method\.bugdet: no such key; did you mean budget\? legal: budget, confidence"
    ):
        build({"_target_": "recap.Recap", "bugdet": 3}, "method")


@pytest.mark.parametrize(
    "entry,message",
    [
        ({"learn": "comitted"}, r"method\.learn=comitted: choose one of evaluated, committed"),
        ({"budget": -1}, r"method\.budget=-1: must not be negative"),
        ({"budget": "many"}, r"method\.budget='many': expected int"),
        ({"confidence": "yes"}, r"method\.confidence='yes': expected bool"),
        ({"depth": 40}, r"method\.depth=40 with method\.width=8"),
        ({"depth": 0}, r"method\.depth=0"),
        ({"top_k": 0}, r"method\.top_k=0"),
    ],
)
def test_an_illegal_value_is_named(entry, message):
    with pytest.raises(ValueError, match=message):
        build({"_target_": "recap.Recap"} | entry, "method")


def test_library_users_get_the_same_errors():
    with pytest.raises(ValueError, match=r"method\.fusion=blend: choose one of mixture, backoff, unigram"):
        Recap(fusion="blend")


def test_a_target_that_cannot_be_imported_is_named():
    with pytest.raises(ValueError, match=r"method\._target_=recap\.Nothing: cannot be imported"):
        build({"_target_": "recap.Nothing"}, "method")


def test_hydras_unknown_key_is_explained_with_the_legal_ones():
    overrides = ["method.bugdet=3", "limit=2"]
    with pytest.raises(hydra.errors.HydraException) as caught:
        compose(*overrides)
    assert explain(caught.value, overrides).startswith("method.bugdet: no such key; did you mean budget?")


def test_an_unknown_method_lists_the_known_ones():
    with pytest.raises(hydra.errors.HydraException) as caught:
        compose("method=recapp")
    assert "token_recycling" in explain(caught.value, ["method=recapp"])


def test_the_hash_follows_content_not_order():
    assert content_hash({"a": 1, "b": 2}) == content_hash({"b": 2, "a": 1})
    assert content_hash({"a": 1}) != content_hash({"a": 2})


def test_an_optional_value_is_checked_too():
    with pytest.raises(ValueError, match=r"method\.alpha='big': expected float"):
        build({"_target_": "baselines.sam_decoding.SamDecoding", "alpha": "big"}, "method")


def test_a_corpus_that_is_not_there_is_named():
    with pytest.raises(ValueError, match=r"method\.static=nowhere\.txt: no such file"):
        build({"_target_": "baselines.sam_decoding.SamDecoding", "static": "nowhere.txt"}, "method")
