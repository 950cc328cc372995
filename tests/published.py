"""The eight data sets as scripts/make_fixtures.py writes them, once for all tests."""

import os
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

CACHE = Path(mkdtemp(prefix="recap-tests-"))


@cache
def folder() -> Path:
    """One folder a benchmark. What `datasets` caches on the way stays beside it."""
    os.environ.setdefault("HF_DATASETS_CACHE", str(CACHE / "cache"))
    from scripts.make_fixtures import make

    make(CACHE / "data")
    return CACHE / "data"
