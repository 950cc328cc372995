"""Manifests: byte-equal for equal data, refused for other data under the same name; images are opened when needed."""

import json
import os
import shutil
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image, PngImagePlugin

from runners.benches.images import to_rgb
from runners.benches.tables import PROVENANCE
from runners.visual import visual_load
from tests import published
from tests.golden import bench_at
from tests.test_benches import chart, jsonl

ROWS, CHOSEN, SIDE = 2500, 1000, 300


@pytest.fixture
def copy(tmp_path) -> Path:
    """A local copy with a picture."""
    rows = [chart(question=f"How high is {k}?", image="a.jpg") for k in range(9)]
    shutil.copy(Path(__file__).parent / "data/textvqa/images/003a8ae2ef43b901.jpg", tmp_path / "a.jpg")
    return jsonl(tmp_path, "chartqa", rows)


def change(copy: Path, position: int, **cells) -> None:
    path = copy / "chartqa.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[position] |= cells
    jsonl(copy, "chartqa", rows)


def manifest(copy: Path, **options):
    return bench_at("chartqa", copy, **options).manifest()


def test_two_runs_write_the_same_bytes_under_a_name_of_benchmark_split_source_and_choice(copy, tmp_path):
    first, second = (manifest(copy).keep(tmp_path / name) for name in ("one", "two"))
    assert first.read_bytes() == second.read_bytes()
    assert first.name.startswith("chartqa-test-local-") and first.name.endswith("-seed42-n1000.json")
    assert manifest(copy).keep(tmp_path / "one") == first


def test_the_form_of_a_copy_does_not_matter(copy, tmp_path):
    from datasets import Dataset, Features, Value
    from datasets import Image as Picture

    rows = [json.loads(line) for line in (copy / "chartqa.jsonl").read_text().splitlines()]
    blob = (copy / "a.jpg").read_bytes()
    kinds = Features(dict.fromkeys(("type", "question", "answer"), Value("string")) | {"image": Picture()})
    rows = [row | {"image": {"bytes": blob, "path": None}} for row in rows]
    Dataset.from_list(rows, features=kinds).save_to_disk(str(tmp_path / "saved"))
    assert manifest(copy).text() == manifest(tmp_path / "saved").text()


@pytest.mark.parametrize("cells", [{"question": "How low?"}, {"answer": "5"}, {"image": ""}, {"type": "other"}])
def test_a_changed_row_is_refused_by_its_id(copy, tmp_path, cells):
    manifest(copy).keep(tmp_path / "m")
    change(copy, 4, **cells)
    with pytest.raises(ValueError, match=r"bench chartqa, row chartqa-000004: its data differs .* delete the manifest"):
        manifest(copy).keep(tmp_path / "m")


def test_changed_pixels_are_refused_too(copy, tmp_path):
    kept = manifest(copy, n=3)
    kept.keep(tmp_path / "m")
    Image.new("RGB", (3, 3)).save(copy / "a.jpg")
    with pytest.raises(ValueError, match=f"row {next(iter(kept.rows))}: its data differs"):
        manifest(copy, n=3).keep(tmp_path / "m")


def test_another_seed_or_number_is_another_manifest(copy):
    assert len({manifest(copy, **o).file for o in ({}, {"n": 5}, {"subset_seed": 1})}) == 3


def test_a_downloaded_copy_goes_by_the_hubs_name_and_is_held_to_it(copy, tmp_path):
    (copy / PROVENANCE).write_text(json.dumps({"hub": "lmms-lab/ChartQA", "revision": "0123456789abcdef"}))
    assert manifest(copy).shared
    assert manifest(copy).file == "chartqa-test-lmms-lab--ChartQA@0123456789ab-seed42-n1000.json"
    manifest(copy).keep(tmp_path / "m")
    jsonl(copy, "chartqa", [chart(image="a.jpg")])  # fewer rows: under a hub's name this is refused as well
    with pytest.raises(ValueError, match=r"row chartqa-000000 \(was chartqa-"):
        manifest(copy).keep(tmp_path / "m")


def test_a_damaged_manifest_is_named(copy, tmp_path):
    path = manifest(copy).keep(tmp_path / "m")
    path.write_text(path.read_text()[:50])
    with pytest.raises(ValueError, match="is not a whole manifest; delete it"):
        manifest(copy).keep(tmp_path / "m")


def test_an_id_that_occurs_twice_still_names_one_row(tmp_path):
    rows = [{"question_id": 3, "question": "Q", "answers": ["a"], "image_id": "", "image": ""}] * 2
    names = [row.id for row in bench_at("textvqa", jsonl(tmp_path, "textvqa", rows)).rows()]
    assert sorted(names) == ["3-at-0", "3-at-1"]


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> Path:
    """2,500 rows in ChartQA's schema, 270 kB of pixels each."""
    published.folder()  # puts the cache of `datasets` where it belongs
    from datasets import Dataset, Features, Value
    from datasets import Image as Picture

    def png(shade: int) -> bytes:
        file = BytesIO()
        Image.new("RGB", (SIDE, SIDE), (shade, 2 * shade, 90)).save(file, "PNG")
        return file.getvalue()

    blobs = [png(shade) for shade in range(100)]
    rows = [chart(question=f"{k}?", image={"bytes": blobs[k % 100], "path": None}) for k in range(ROWS)]
    kinds = Features(dict.fromkeys(("type", "question", "answer"), Value("string")) | {"image": Picture()})
    path = tmp_path_factory.mktemp("large") / "test-00000-of-00001.parquet"
    Dataset.from_list(rows, features=kinds).to_parquet(str(path))
    return path.parent


@pytest.fixture
def decoded(monkeypatch) -> list[int]:
    """Grows by one for every PNG that is decoded."""
    found, original = [], PngImagePlugin.PngImageFile.load_end

    def load_end(self):
        found.append(1)
        return original(self)

    monkeypatch.setattr(PngImagePlugin.PngImageFile, "load_end", load_end)
    return found


class Counter:
    """A model to which every image is worth seven tokens."""

    def visual_tokens(self, sizes):
        assert set(sizes) == {(SIDE, SIDE)}
        return [7] * len(sizes)


def test_only_the_chosen_images_are_decoded_and_only_at_use(large, decoded):
    bench = bench_at("chartqa", large)
    bench.manifest()
    assert len(visual_load(Counter(), bench.rows()).tokens) == CHOSEN
    assert not decoded
    before = most = resident()
    for row in bench.rows():
        assert to_rgb(row.open_images()[0]).size == (SIDE, SIDE)
        most = max(most, resident())
    assert len(decoded) == CHOSEN
    assert most - before < 40e6  # all of them would be 270 MB


def resident() -> int:
    """Bytes of this process in memory; 0 where the system does not tell."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.exists() else 0
