"""scripts/fetch_data.py with a hub that is a fake: what it makes, verifies, refuses and announces."""

import json
import shutil

import pytest

from scripts import fetch_data
from tests import published
from tests.golden import bench_at


@pytest.fixture
def hub(monkeypatch) -> list[str]:
    """The benchmarks asked for; each is what make_fixtures writes for OCRBench."""
    published.folder()
    from datasets import load_from_disk

    asked = []

    def load(bench, ids, subset, split, revision):
        asked.append(bench)
        return load_from_disk(str(published.folder() / "ocrbench")), ids[0], "0123456789abcdef"

    monkeypatch.setattr(fetch_data, "load_hub", load)
    return asked


def test_a_set_is_saved_with_checksums_and_its_origin_and_reads_as_the_hubs(hub, tmp_path):
    said = fetch_data.fetch("ocrbench", tmp_path, None)
    assert "12 rows" in said and "MiB" in said and "licence: MIT" in said
    place = tmp_path / "ocrbench"
    assert json.loads((place / "source.json").read_text())["revision"] == "0123456789abcdef"
    assert "source.json" in (place / fetch_data.SUMS).read_text()
    kept = bench_at("ocrbench", place).manifest()
    assert kept.shared and kept.file.startswith("ocrbench-test-echo840--OCRBench@0123456789ab-")
    assert not list(tmp_path.glob("*.part"))


def test_a_second_call_verifies_and_downloads_nothing(hub, tmp_path):
    for expected in ("12 rows", "complete"):
        assert expected in fetch_data.fetch("ocrbench", tmp_path, None)
    assert hub == ["ocrbench"]


def test_what_an_interrupted_call_left_is_made_anew(hub, tmp_path):
    (tmp_path / "ocrbench.part").mkdir()
    (tmp_path / "ocrbench.part" / "rest").write_text("half")
    fetch_data.fetch("ocrbench", tmp_path, None)
    assert not (tmp_path / "ocrbench" / "rest").exists()


@pytest.mark.parametrize("harm", [lambda p: p.write_text("x"), lambda p: p.unlink()])
def test_a_damaged_folder_is_named_by_file(hub, tmp_path, harm):
    fetch_data.fetch("ocrbench", tmp_path, None)
    harm(tmp_path / "ocrbench" / "dataset_info.json")
    with pytest.raises(ValueError, match=r"dataset_info\.json: differs from SHA256SUMS; delete"):
        fetch_data.fetch("ocrbench", tmp_path, None)


def test_a_folder_of_someone_else_is_left_alone(hub, tmp_path):
    (tmp_path / "ocrbench").mkdir()
    with pytest.raises(ValueError, match="not made by this script; move it away"):
        fetch_data.fetch("ocrbench", tmp_path, None)


def test_mmspec_is_checked_and_copied_from_a_clone(tmp_path):
    clone = tmp_path / "clone"
    shutil.copytree(published.folder() / "mmspec", clone)
    assert "24 rows" in fetch_data.fetch("mmspec", tmp_path / "a", clone)
    assert len(bench_at("mmspec", tmp_path / "a" / "mmspec")) == 24
    (clone / "images" / "mmspec_007.jpg").unlink()
    with pytest.raises(ValueError, match="mmspec, row mmspec_007: its image cannot be read"):
        fetch_data.fetch("mmspec", tmp_path / "b", clone)
    with pytest.raises(ValueError, match="mmspec: on no hub; clone its repository"):
        fetch_data.fetch("mmspec", tmp_path / "c", None)


def test_a_dry_run_names_source_and_licence_of_all_eight_and_touches_nothing(hub, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["fetch_data.py", str(tmp_path / "data"), "--dry-run"])
    with pytest.raises(SystemExit) as end:
        fetch_data.main()
    lines = capsys.readouterr().out.splitlines()
    assert end.value.code == 0 and not hub and not (tmp_path / "data").exists()
    assert [line.split(":")[0] for line in lines] == list(fetch_data.NAMES)
    assert all("licence: " in line for line in lines)
    assert "lmms-lab-encoder/ScienceQA or lmms-lab/ScienceQA, configuration ScienceQA-IMG, split test" in lines[2]
