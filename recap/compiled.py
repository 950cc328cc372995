"""Keeps numba's on-disk cache honest.

numba recompiles a function when its own file changes, not when a file that it calls into does, so compiled code could
outlive an edit. Here every cached function of a package is dropped as soon as one source file is newer.
"""

from pathlib import Path


def drop_stale(*packages: str) -> None:
    """Remove the cache indices in the folders of the given `__file__`s that are older than the newest source."""
    folders = [Path(file).parent for file in packages]
    newest = max(source.stat().st_mtime for folder in folders for source in folder.rglob("*.py"))
    for index in (index for folder in folders for index in folder.rglob("*.nbi")):
        try:
            if index.stat().st_mtime < newest:
                index.unlink(missing_ok=True)
        except OSError:
            continue  # not ours to write: an installed copy, whose files all change together
