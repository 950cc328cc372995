"""The paper's figures from a results root: python -m analysis.figures DIR [--out DIR]

Writes each as PNG and PDF, one a model and a kind of data. Equal records give equal files.
"""

import argparse
import sys
from pathlib import Path

from analysis.figures import KINDS, missing, parts, write


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m analysis.figures", description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, help="a results root, as given to run.py with out=")
    parser.add_argument("--out", type=Path, help="where the figures go; default: figures/ below the results root")
    asked = parser.parse_args(arguments)
    try:
        found = parts(asked.results)
    except ValueError as error:
        sys.exit(f"error: {error}")
    for part in found:
        for name in KINDS:
            if command := missing(part, name):
                print(f"{name}, {part.title}: left out; `python {command} {asked.results}` makes what it shows")
                continue
            for file in write(part, name, asked.out or asked.results / "figures"):
                print(file)


if __name__ == "__main__":
    main()
