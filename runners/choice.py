"""Methods by name: `token_recycling` is a method's yaml, `recap/backoff` one with a rung of conf/ablation on top."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import hydra
from omegaconf import DictConfig, OmegaConf

from runners.config import ROOT

RECAP = "recap.Recap"
RUNGS = ROOT / "conf" / "ablation"


@dataclass(frozen=True, slots=True)
class Rung:
    """A step of the ablation ladder: what changed since its predecessor is what its yaml says; the first has none."""

    name: str
    predecessor: str | None

    @staticmethod
    def of(name: str) -> "Rung":
        """The rung that conf/ablation/NAME.yaml describes."""
        defaults = OmegaConf.load(RUNGS / f"{name}.yaml").get("defaults", [None])
        return Rung(name, defaults[0])


@dataclass(frozen=True, slots=True)
class Choice:
    """A method as asked for: its yaml's name, its options, and the rung where it is one."""

    method: str
    section: dict[str, Any]
    rung: Rung | None = None

    @property
    def name(self) -> str:
        """Stands in folder names."""
        return self.method if self.rung is None else f"{self.method}-{self.rung.name}"


def chosen(config: DictConfig, choices: Mapping[str, str | None], overrides: Sequence[str]) -> list[Choice]:
    """What `method`, `ablation` and `versus` ask for, without repeats, the asked-for one first.

    overrides   as typed; those of `method.` hold for every rung of the asked-for method, which are forms of it

    Raises ValueError naming the key for a `versus` that is no list and for a rung of another method, HydraException
    for an unknown name.
    """
    if not OmegaConf.is_list(config.versus):
        raise ValueError(f"versus={config.versus}: expected a list of methods, as in 'versus=[{config.versus}]'")
    asked = _choice(choices["method"], choices["ablation"], config.method)
    found = {asked.name: asked}
    for entry in config.versus:
        method, _, rung = entry.partition("/")
        own = [f"ablation={rung}"] if rung else []
        if rung and method == asked.method:
            own += [o for o in overrides if o.startswith("method.")]
        composed = hydra.compose("config", overrides=[f"method={method}", *own])
        choice = _choice(method, rung, composed.method)
        found.setdefault(choice.name, choice)
    return list(found.values())


def _choice(method: str, rung: str | None, section: DictConfig) -> Choice:
    if rung and section._target_ != RECAP:
        raise ValueError(f"ablation={rung}: the rungs are forms of RECAP; choose method=recap, not {method}")
    return Choice(method, OmegaConf.to_container(section, resolve=True), Rung.of(rung) if rung else None)
