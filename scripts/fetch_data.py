"""Downloads the data sets of the paper into one folder, for machines without network; a second call goes on or returns.

    python scripts/fetch_data.py DIR                         # all eight; --dry-run only says what it would do
    python scripts/fetch_data.py DIR --only chartqa textvqa
    python scripts/fetch_data.py DIR --only mmspec --mmspec CLONE/dataset/MMSpec/test
    python run.py model=qwen method=recap bench=chartqa bench.path=DIR/chartqa

A set is saved beside its name and renamed when it is whole; files that the hub's own cache already holds are not
downloaded again. Each folder gets SHA256SUMS and source.json, which ties it to the hub's id and revision. MMSpec is on
no hub: clone its repository and name the folder.
"""

import argparse
import hashlib
import json
import shutil
import sys
from pathlib import Path

from omegaconf import OmegaConf

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from runners.benches.mmspec import MMSpec  # noqa: E402
from runners.benches.tables import PROVENANCE, load_hub  # noqa: E402
from runners.config import class_of  # noqa: E402

SUMS = "SHA256SUMS"
NAMES = ("mmt_bench", "seed_bench", "scienceqa", "ocrbench", "chartqa", "mathvista", "textvqa", "mmspec")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=Path, help="one folder a benchmark is made there")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES, help="benchmarks (default: all)")
    parser.add_argument("--mmspec", type=Path, help="folder of mmspec.jsonl and images/, to check and copy")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, without network")
    args = parser.parse_args()
    failed = 0
    for name in args.only:
        try:
            print(plan(name, args.dir, args.mmspec) if args.dry_run else fetch(name, args.dir, args.mmspec), flush=True)
        except ValueError as error:
            print(f"error: {error}", file=sys.stderr)
            failed += 1
    sys.exit(2 if failed else 0)


def plan(name: str, folder: Path, mmspec: Path | None) -> str:
    """What `fetch` would do."""
    config = section(name)
    if (folder / name).is_dir():
        return f"{name}: is in {folder / name}; its checksums would be verified"
    if name == "mmspec":
        what = f"would be checked and copied from {mmspec}" if mmspec else "needs --mmspec FOLDER: it is on no hub"
    else:
        subset = f", configuration {config.subset}" if config.subset else ""
        revision = config.revision or "newest revision"
        what = f"would be saved from {' or '.join(config.hub)}{subset}, split {config.split}, {revision}"
    return f"{name}: {what}; licence: {class_of(config, 'bench').licence}"


def fetch(name: str, folder: Path, mmspec: Path | None) -> str:
    """Make or verify one folder; what there is to say about it. Raises ValueError where it cannot."""
    place, config = folder / name, section(name)
    licence = class_of(config, "bench").licence
    if place.is_dir():
        verify(place)
        return f"{name}: complete, {_size(place)}, checksums right; licence: {licence}"
    part = folder / f"{name}.part"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    rows = copy_mmspec(mmspec, part) if name == "mmspec" else save_hub(name, config, part)
    (part / SUMS).write_text("".join(f"{digest}  {file}\n" for file, digest in sums(part).items()))
    part.rename(place)
    return f"{name}: {rows} rows, {_size(place)} in {place}; licence: {licence}"


def section(name: str):
    """The benchmark's own yaml."""
    return OmegaConf.load(ROOT / "conf/bench" / f"{name}.yaml")


def save_hub(name: str, config, part: Path) -> int:
    """Save the split, pictures as they are encoded on the hub."""
    data, hub, revision = load_hub(name, config.hub, config.subset, config.split, config.revision)
    data.save_to_disk(str(part))
    (part / PROVENANCE).write_text(json.dumps({"hub": hub, "revision": revision, "split": config.split}) + "\n")
    return len(data)


def copy_mmspec(source: Path | None, part: Path) -> int:
    """Copy the jsonl and the pictures that its rows name, each of which must be there."""
    if source is None:
        raise ValueError("mmspec: on no hub; clone its repository and give --mmspec CLONE/dataset/MMSpec/test")
    bench = MMSpec(path=str(source))
    for row in bench.rows():
        try:
            row.open_images()
        except OSError as error:
            raise ValueError(f"mmspec, row {row.id}: its image cannot be read ({error}); check the clone") from None
    shutil.copytree(source / "images", part / "images")
    for file in source.glob("*.jsonl"):
        shutil.copy2(file, part)
    return len(bench)


def sums(folder: Path) -> dict[str, str]:
    """SHA-256 of every file, by path relative to the folder."""
    found = {}
    for file in sorted(f for f in folder.rglob("*") if f.is_file() and f.name != SUMS):
        with file.open("rb") as data:
            found[str(file.relative_to(folder))] = hashlib.file_digest(data, "sha256").hexdigest()
    return found


def verify(folder: Path) -> None:
    """Hold a folder against its checksums. Raises ValueError naming the first file that differs."""
    path = folder / SUMS
    if not path.is_file():
        raise ValueError(f"{folder}: there without {SUMS}, so not made by this script; move it away to fetch it")
    known = {file: digest for digest, file in (line.split("  ", 1) for line in path.read_text().splitlines())}
    found = sums(folder)
    wrong = [file for file in sorted({*known, *found}) if known.get(file) != found.get(file)]
    if wrong:
        raise ValueError(f"{folder / wrong[0]}: differs from {SUMS}; delete {folder} to fetch it again")


def _size(folder: Path) -> str:
    return f"{sum(f.stat().st_size for f in folder.rglob('*') if f.is_file()) / 2**20:.1f} MiB"


if __name__ == "__main__":
    main()
