"""Lines of JSON that carry their own checksum: a changed byte is found, a torn line is never taken for a whole one.

`crc` is the last entry of a line: CRC-32 over all that stands before it. `inputs.jsonl` commits the other files of a
cell: its every line says how long they are once that input is done, and what lies beyond the last line does not count.
"""

import json
import zlib
from collections.abc import Iterator
from pathlib import Path

COMMITS = "inputs.jsonl"
_OPEN, _CLOSE = b', "crc": "', b'"}'
_TAIL = len(_OPEN) + 8 + len(_CLOSE)


def encode(content: dict) -> bytes:
    """One line, its end included."""
    assert content and "crc" not in content
    body = json.dumps(content).encode()[:-1]
    return body + _OPEN + b"%08x" % zlib.crc32(body) + _CLOSE + b"\n"


def decode(line: bytes) -> dict:
    """The content of one line without its end. Raises ValueError where the line is not what was written."""
    body, tail = line[:-_TAIL], line[-_TAIL:]
    if not (tail.startswith(_OPEN) and tail.endswith(_CLOSE)):
        raise ValueError("no checksum at its end")
    if tail[len(_OPEN) : -len(_CLOSE)] != b"%08x" % zlib.crc32(body):
        raise ValueError("its checksum is another")
    return json.loads(body + b"}")


def read(path: Path, size: int | None = None) -> Iterator[dict]:
    """The lines within the first `size` bytes, or all that are whole. Raises ValueError naming file and line.

    Without a size an unfinished last line is left out: its writer was stopped. With one, every byte must be there.
    """
    left = size
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if left is not None and left <= 0:
                return
            if not line.endswith(b"\n") and size is None:
                return
            try:
                content = decode(line.rstrip(b"\n"))
            except ValueError as error:
                raise ValueError(f"{path}:{number}: not a whole record ({error})") from None
            if left is not None:
                left -= len(line)
            yield content
    if left:
        raise ValueError(f"{path}: {abs(left)} bytes {'are missing' if left > 0 else 'too many'} by {COMMITS}")


def committed(folder: Path) -> list[dict]:
    """The lines of a cell's inputs.jsonl, one an input; none where the file is not there yet."""
    path = folder / COMMITS
    return list(read(path)) if path.is_file() else []
