"""Measure a decoding method against plain decoding: python run.py model=tiny_qwen bench=synthetic method=recap"""

import os
import sys
import traceback

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig

from runners.config import refuse
from runners.ranks import leads, silent_unless_first

STOPPED = 128  # and the signal's number: the sweep ends too, and a launcher sees that the job has no result yet


@hydra.main(config_path="conf", config_name="config", version_base="1.3")
def main(config: DictConfig) -> None:
    """Compose the cell and run it. In a sweep its failure is its own: the status tells, and the next cells run."""
    from runners.cell import run  # after the config is known to be sound: loading pandas takes a second
    from runners.sweep import cell_of

    swept = HydraConfig.get().mode == RunMode.MULTIRUN
    try:
        code = run(cell_of(config, HydraConfig.get()))
    except (ValueError, FloatingPointError, HydraException) as error:
        code = refuse(error, sys.argv[1:])
    except Exception:
        if not swept:
            raise
        traceback.print_exc()
        return
    if leads() and (code >= STOPPED or (code and not swept)):
        sys.exit(code)


def lost(error: Exception) -> bool:
    """Whether a launcher says of a job that it could not be submitted or left no result: it was killed."""
    return type(error).__module__.startswith("submitit.")


if __name__ == "__main__":
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # composition errors are raised to us, not printed
    with silent_unless_first():
        try:
            main()
        except HydraException as error:
            sys.exit(refuse(error, sys.argv[1:]))
        except Exception as error:
            if not lost(error):
                raise
            print(f"error: {error}\nother jobs go on; scripts/collect.py names the cells to complete", file=sys.stderr)
            sys.exit(1)
