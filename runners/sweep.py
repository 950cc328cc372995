"""A sweep: its cells are queued before the first one starts, and named where they are not complete at its end.

Hydra calls `Sweep` (conf/config.yaml) in the process that launches `python run.py -m ...`, whatever the launcher is.
"""

import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import hydra
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

from runners import status
from runners.cell import Cell, finished, verdict
from runners.choice import chosen
from runners.config import refuse
from runners.ranks import launcher

INCOMPLETE = 1  # exit code of a sweep, as of scripts/collect.py
LAUNCHERS = ("launch=", "hydra")  # overrides of no meaning to a cell
PASSING = ("rerun=", "launch=")  # of how it is run this time, not of the cell


def cell_of(config: DictConfig, own: DictConfig) -> Cell:
    """The cell that a composed config asks for; `own` is its `hydra` part.

    Raises ValueError naming the key and HydraException as `chosen` does.
    """
    choices, overrides = own.runtime.choices, own.overrides.task
    methods = chosen(config, choices, overrides)
    return Cell(
        config=OmegaConf.to_container(config, resolve=True),
        names={group: choices[group] for group in ("model", "bench")},
        methods={choice.name: choice.section for choice in methods},
        command=shlex.join([*launcher(), *(o for o in overrides if not o.startswith(PASSING))]),
        rungs={choice.name: choice.rung for choice in methods if choice.rung is not None},
    )


def cells_of(overrides: Sequence[str]) -> list[Cell]:
    """The cells of a sweep over 'model=a,b' and the like, in its order; Hydra is initialized.

    Raises ValueError naming the key and HydraException as `chosen` does.
    """
    (jobs,) = BasicSweeper.split_arguments(OverridesParser.create().parse_overrides(list(overrides)), None)
    return [_composed([o for o in job if not o.startswith(LAUNCHERS)]) for job in jobs]


def _composed(overrides: list[str]) -> Cell:
    config = hydra.compose("config", overrides=overrides, return_hydra_config=True)
    own = config.hydra
    return cell_of(OmegaConf.masked_copy(config, [key for key in config if key != "hydra"]), own)


class Sweep(Callback):
    """One a launching process."""

    def __init__(self) -> None:
        self.cells: list[Cell] = []

    def on_multirun_start(self, config: DictConfig, **_: object) -> None:
        """Queue every cell. What cannot be composed or launched ends the sweep here, with exit code 2."""
        overrides = list(config.hydra.overrides.task)
        try:
            if config.hydra.runtime.choices["launch"] == "slurm" and shutil.which("sbatch") is None:
                raise ValueError(
                    "launch=slurm: there is no sbatch here; run this on a cluster's login node, or choose launch=local"
                )
            self.cells = cells_of(overrides)
            for cell in self.cells:
                cell.queue()
        except (ValueError, HydraException) as error:
            sys.exit(refuse(error, overrides))
        print(f"{len(self.cells)} cells queued below {config.out}", flush=True)

    def on_multirun_end(self, config: DictConfig, **_: object) -> None:
        """Say what the cells' own statuses say, and exit with a code that tells whether all is well."""
        ended = [finished(cell) for cell in self.cells]
        print(f"\n{len(ended) - ended.count(None)} of {len(ended)} cells complete")
        for cell, summaries in zip(self.cells, ended, strict=True):
            for path in [] if summaries else map(cell.folder, cell.methods):
                print(_line(path))
        if None in ended:
            print(f"what completes them: python scripts/collect.py {config.out} --rerun")
            sys.exit(INCOMPLETE)
        codes = [verdict(s, cell) for cell, s in zip(self.cells, ended, strict=True)]
        if any(codes):
            sys.exit(max(codes))


def _line(path: Path) -> str:
    found = status.read(path)
    assert found is not None, f"{path} was queued"
    return ", ".join([f"{path}: {found.state}", *found.error.splitlines()[:1]])
