"""Print the cells of a sweep, the command of one a line: what scripts/sweep.sbatch runs, without any plugin.

python scripts/cells.py model=tiny_qwen,tiny_llava method=recap,racer limit=100 > cells.txt
python scripts/cells.py --queue model=... > cells.txt    leaves word in their folders too: scripts/collect.py then
                                                         names those that never started
"""

import argparse
import sys
from pathlib import Path

import hydra
from hydra.errors import HydraException

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from runners.config import ROOT, refuse
from runners.sweep import cells_of


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("overrides", nargs="*", help="as after `python run.py -m`")
    parser.add_argument("--queue", action="store_true", help="write the status `queued` into the cells' folders")
    options = parser.parse_intermixed_args()
    try:
        with hydra.initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
            cells = cells_of(options.overrides)
        for cell in cells:
            if options.queue:
                cell.queue()
            print(cell.command)
    except (ValueError, HydraException) as error:
        return refuse(error, options.overrides)
    return 0


if __name__ == "__main__":
    sys.exit(main())
