"""What a method remembers, on disk, so that a continued stream need not be decoded again from its start.

A checkpoint only saves time: where it is missing, damaged or of an unknown kind, the recorded inputs are decoded again.
"""

import io
import pickle
import zlib
from pathlib import Path

from runners.pair import Method
from runners.status import write_whole

NAME = "memory.ckpt"
NUMPY = ("_reconstruct", "_frombuffer", "scalar", "ndarray", "dtype")  # the names by which numpy pickles its arrays
CONTAINERS = (("collections", "deque"), ("collections", "OrderedDict"))


class Foreign(Exception):
    """A name in a checkpoint that is neither an array, a container nor a class of a method."""


def save(folder: Path, method: Method, inputs: int) -> bool:
    """Store what `method` remembers after the first `inputs` inputs; False where it cannot be stored."""
    state = method.__getstate__()
    if not isinstance(state, dict | None):  # a class with slots
        return False
    try:
        body = pickle.dumps((inputs, state), pickle.HIGHEST_PROTOCOL)
        _load(body, method)
    except (pickle.PicklingError, TypeError, AttributeError, Foreign):
        return False
    write_whole(folder / NAME, zlib.crc32(body).to_bytes(4, "big") + body)
    return True


def restore(folder: Path, method: Method, most: int) -> int:
    """Give `method` back what it remembered; returns after how many inputs. 0: nothing usable, `method` is reset.

    A checkpoint of more than `most` inputs stands for records that are not there, and is not usable.
    """
    method.reset()
    path = folder / NAME
    if not path.is_file():
        return 0
    crc, body = path.read_bytes()[:4], path.read_bytes()[4:]
    if zlib.crc32(body).to_bytes(4, "big") != crc:
        return 0
    try:
        inputs, state = _load(body, method)
    except (pickle.UnpicklingError, Foreign, AttributeError, ImportError, EOFError, TypeError):
        return 0
    if inputs > most:
        return 0
    vars(method).update(state or {})
    return inputs


def _load(body: bytes, method: Method):
    return _Arrays(io.BytesIO(body), type(method).__module__).load()


class _Arrays(pickle.Unpickler):
    """Folders are passed on, and a pickle can run anything: arrays, containers and the methods' own classes only."""

    def __init__(self, file: io.BytesIO, module: str) -> None:
        super().__init__(file)
        self._own = module

    def find_class(self, module: str, name: str) -> object:
        package = module.split(".")[0]
        if (package == "numpy" and name in NUMPY) or (module, name) in CONTAINERS:
            return super().find_class(module, name)
        if package in ("recap", "baselines") or module == self._own:
            found = super().find_class(module, name)
            if isinstance(found, type) and found.__module__ == module:
                return found
        raise Foreign(f"{module}.{name}")
