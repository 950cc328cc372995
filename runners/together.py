"""How the ranks of a run keep together.

They need no talk to decode alike: every slice of the vocabulary's logits is computed by one rank and gathered by all,
so all see the same rows, draft the same and commit the same. What could part them is ruled out here: they begin with
the same files, and no input is kept unless all decoded it alike.
"""

import os
import platform
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import torch.distributed as dist

from runners.ranks import leads, rank, ranks

PATIENCE = timedelta(minutes=10)  # that a rank waits for the others before the run fails


def join() -> None:
    """Meet the other ranks, once a process; nothing where there is but one. Raises RuntimeError if one is missing."""
    if ranks() == 1 or dist.is_initialized():
        return
    if not torch.cuda.is_available():
        dist.init_process_group("gloo", timeout=PATIENCE)
        return
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", timeout=PATIENCE, device_id=device)


def wait() -> None:
    """Until every rank is here."""
    if ranks() > 1:
        dist.barrier(_talk())


def agree(found: str) -> None:
    """Every rank found this same thing. Raises RuntimeError where one did not: what was decoded cannot be trusted."""
    if ranks() == 1:
        return
    all_found = [None] * ranks()
    dist.all_gather_object(all_found, found, _talk())
    if len(set(all_found)) > 1:
        raise RuntimeError(f"the ranks decoded an input differently ({', '.join(all_found)}); it is not kept")


def on_this_host(amount: float) -> float:
    """The sum of an amount over the ranks of this host."""
    if ranks() == 1:
        return amount
    amounts = [("", 0.0)] * ranks()
    dist.all_gather_object(amounts, (platform.node(), amount), _talk())
    return sum(amount for host, amount in amounts if host == platform.node())


def from_first(thing: object) -> object:
    """The first rank's `thing`, on every rank."""
    if ranks() == 1:
        return thing
    things = [thing]
    dist.broadcast_object_list(things, 0, _talk())
    return things[0]


@contextmanager
def own_folders(paths: Mapping[str, Path]) -> Iterator[dict[str, Path]]:
    """The cells' folders, which the first rank holds; another rank gets copies as they are now, for its eyes only.

    Left without an error, every rank waits for all: then the first has written all that it has to write.
    """
    if leads():
        wait()  # the folders are locked and whole
        wait()  # the copies are made
        yield dict(paths)
    else:
        with TemporaryDirectory(prefix=f"rank{rank()}-") as above:
            copies = {name: Path(above) / str(number) for number, name in enumerate(paths)}
            wait()
            for name, path in paths.items():
                shutil.copytree(path, copies[name])
            wait()
            yield copies
    wait()


@cache
def _talk() -> "dist.ProcessGroup":
    """The group for words between hosts, whatever the devices speak."""
    return dist.new_group(backend="gloo", timeout=PATIENCE)
