"""Measure a decoding method against plain decoding: python run.py model=tiny_qwen bench=synthetic method=recap"""

import os
import shlex
import sys

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from runners.choice import chosen
from runners.config import explain


@hydra.main(config_path="conf", config_name="config", version_base="1.3")
def main(config: DictConfig) -> None:
    """Compose the cell and run it."""
    from runners.cell import Cell, run  # after the config is known to be sound: loading pandas takes a second

    try:
        choices = HydraConfig.get().runtime.choices
        methods = chosen(config, choices, HydraConfig.get().overrides.task)
        names = {group: choices[group] for group in ("model", "bench")}
        overrides = [o for o in HydraConfig.get().overrides.task if not o.startswith("rerun=")]  # it is to continue
        command = shlex.join(["python", "run.py", *overrides])
        plain = OmegaConf.to_container(config, resolve=True)
        sections = {choice.name: choice.section for choice in methods}
        rungs = {choice.name: choice.rung for choice in methods if choice.rung is not None}
        code = run(Cell(plain, names, sections, command, rungs))
    except (ValueError, FloatingPointError, HydraException) as error:
        refuse(error)
    if code:  # in a sweep, the next cells run after a sound one only
        sys.exit(code)


def refuse(error: Exception) -> None:
    """Bad input ends in one line, not in a trace."""
    print(f"error: {explain(error, sys.argv[1:])}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # composition errors are raised to us, not printed
    try:
        main()
    except HydraException as error:
        refuse(error)
