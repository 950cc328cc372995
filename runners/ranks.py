"""One run by several processes, which torchrun starts: each rank holds a slice of the model and runs the whole program.

The first rank writes, prints and holds the locks; the others are silent. Free of torch, as all that comes before a
finished cell is found; how ranks talk is in `together`.
"""

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any

HEAD_START = 5.0  # seconds that the first rank has to tell what all ranks meet; torchrun then ends the others


def rank() -> int:
    """Which of the processes this is."""
    return int(os.environ.get("RANK") or 0)


def ranks() -> int:
    """How many processes torchrun started; 1 without it."""
    return int(os.environ.get("WORLD_SIZE") or 1)


def leads() -> bool:
    """Whether this process speaks and writes for all."""
    return rank() == 0


def launcher() -> list[str]:
    """The words that start run.py as this process was started."""
    return (
        ["torchrun", "--standalone", "--nproc-per-node", str(ranks()), "run.py"]
        if ranks() > 1
        else ["python", "run.py"]
    )


def check_ranks(model: Mapping[str, Any]) -> None:
    """Refuse a model section whose `tensor_parallel` is not the number of processes. Raises ValueError."""
    wanted, there = model.get("tensor_parallel"), ranks()
    if type(wanted or 1) is not int or (wanted or 1) == there:  # what is no number is refused with the other options
        return
    if there == 1:
        raise ValueError(
            f"model.tensor_parallel={wanted}: so many processes are needed; start them with "
            f"`torchrun --standalone --nproc-per-node {wanted} run.py ...`, or leave it null for one device"
        )
    raise ValueError(
        f"model.tensor_parallel={'null' if wanted is None else wanted}: torchrun started {there} processes, which must "
        f"share one model; give model.tensor_parallel={there}"
    )


def whose() -> str:
    """Names the rank in a message of any but the first."""
    return "" if leads() else f" on rank {rank()}"


def yield_the_floor() -> None:
    """What ends one rank mostly ends all, and the first one tells; another speaks up only if it is still there then."""
    if not leads():
        time.sleep(HEAD_START)


@contextmanager
def silent_unless_first() -> Iterator[None]:
    """All ranks but the first print nothing; an error that leaves this block is told on any."""
    if leads():
        yield
        return
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        try:
            yield
        except Exception:
            yield_the_floor()
            raise


def tell(message: str) -> None:
    """Print to standard error, even from a silent rank."""
    print(message, file=sys.stderr if leads() else sys.__stderr__)
