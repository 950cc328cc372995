"""The eight benchmarks on generated data in their own schemas: prompts, filters, references, bad rows, bad folders."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from baselines.autoregressive import Autoregressive
from recap import Recap
from recap.types import Limits
from runners.benches.base import Row
from runners.measure import bench_of
from runners.models import Model
from runners.pair import AR, Pairing, RowError
from scripts.make_fixtures import WRITERS, make
from tests import golden, published
from tests.golden import bench_at
from tests.test_config import compose

DATA = Path(__file__).parent / "data"
COLUMNS = ["question", "choice_a", "choice_b", "choice_c", "choice_d", "answer", "question_id", "image"]
VIDEO = dict.fromkeys(COLUMNS, "") | {"data_type": "video"}


@pytest.fixture(scope="module")
def data() -> Path:
    return published.folder()


@pytest.fixture(scope="module", params=["tiny_qwen", "tiny_llava"])
def model(request) -> Model:
    return Model(f"assets/{request.param}")


def jsonl(folder: Path, bench: str, rows: list[dict]) -> Path:
    """A local copy of such rows."""
    folder.mkdir(exist_ok=True)
    (folder / f"{bench}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def chart(**changes) -> dict:
    return {"type": "human_test", "question": "How high?", "answer": "4", "image": ""} | changes


def only(bench) -> Row:
    (row,) = bench.rows()
    return row


def test_every_prompt_is_the_golden_one(data):
    assert golden.prompts(data) == json.loads(golden.FILE.read_text())


@pytest.mark.parametrize("name", WRITERS)
def test_every_benchmark_reads_its_rows_with_pictures_and_references(data, name):
    bench = bench_at(name, data / name)
    rows = list(bench.rows())
    assert len(rows) == len(bench) == {"mmspec": 24, "seed_bench": 11, "scienceqa": 11}.get(name, 12)
    assert not any(row.fault for row in rows)
    assert len({row.id for row in rows}) == len(rows)
    assert all(len(row.open_images()) == (2 if row.id == "7003" else 1) for row in rows)
    assert all((row.references[0] is None) == (name == "mmspec") for row in rows)


@pytest.mark.parametrize(
    "name,right,wrong",
    [
        ("mmt_bench", lambda gold: f"It is ({gold[0]}).", "I cannot tell."),
        ("seed_bench", lambda gold: f"{gold}. the sign", "The answer is E"),
        ("scienceqa", lambda gold: f"{gold}. the word", "(F)"),
        ("ocrbench", lambda gold: f"The sign says {gold[1][0]}.", "The sign says nothing."),
        ("chartqa", lambda gold: gold, "about that"),
        ("mathvista", lambda gold: gold[0], "77"),
        ("textvqa", lambda gold: gold[0], "nothing"),
    ],
)
def test_a_right_answer_scores_one_and_a_wrong_one_zero(data, name, right, wrong):
    bench = bench_at(name, data / name)
    for row in bench.rows():
        assert bench.score(row, 0, right(row.references[0])) == pytest.approx(1), row
        assert bench.score(row, 0, wrong) == 0, row


def test_mmspec_has_no_score(data):
    bench = bench_at("mmspec", data / "mmspec")
    assert bench.score(next(bench.rows()), 0, "anything") is None


def test_the_accuracy_prompt_keeps_an_answer_letters_set_and_the_picture_at_its_mark(data):
    bench = bench_at("mmt_bench", data / "mmt_bench", prompt="accuracy")
    row = next(bench.rows())
    kinds = [part["type"] for part in bench.messages(row, 0, [], images=2)[0]["content"]]
    assert kinds == ["text", "image", "image", "text"]


def test_videos_and_rows_without_a_picture_are_filtered_and_the_subset_is_drawn_from_the_rest(data):
    bench = bench_at("seed_bench", data / "seed_bench", n=4)
    stills = [f"{7000 + k}" for k in range(12) if k != 5]
    order = np.random.default_rng(42).permutation(11)[:4]
    assert [row.id for row in bench.rows()] == [stills[k] for k in order]
    assert "scienceqa-000004" not in {row.id for row in bench_at("scienceqa", data / "scienceqa").rows()}


def test_an_order_shuffles_the_stream_and_keeps_the_rows_and_their_manifest(data):
    plain, shuffled = (bench_at("chartqa", data / "chartqa", n=8, order=order) for order in (None, 1))
    first, second = ([row.id for row in bench.rows()] for bench in (plain, shuffled))
    assert first != second and sorted(first) == sorted(second)
    assert plain.manifest() == shuffled.manifest()


def test_mmspec_runs_in_file_order_or_the_first_rows_of_each_topic(data):
    every = [row.id for row in bench_at("mmspec", data / "mmspec").rows()]
    assert every == [f"mmspec_{k:03d}" for k in range(1, 25)]
    some = list(bench_at("mmspec", data / "mmspec", per_topic=2).rows())
    assert [row.id for row in some] == [every[k] for k in range(24) if k % 4 < 2]
    assert len({row.category for row in some}) == 6


def test_a_real_row_of_each_of_three_sets_is_read():
    text, maths, spec = (bench_at(name, DATA / name) for name in ("textvqa", "mathvista", "mmspec"))
    assert {image.mode for row in text.rows() for image in row.open_images()} == {"RGB", "L"}
    assert only(maths).open_images()[0].mode == "RGBA" and only(maths).references[0][0] == "40"
    assert all("<image 1>" in row.turns[0] for row in spec.rows())


@pytest.mark.parametrize("name", WRITERS)
def test_both_models_equal_plain_decoding_on_it(data, model, name):
    assert_equal(model, bench_at(name, data / name), rows=2)


@pytest.mark.parametrize("name", ["textvqa", "mathvista", "mmspec"])
def test_both_models_equal_plain_decoding_on_real_rows(model, name):
    assert_equal(model, bench_at(name, DATA / name), rows=1)


def assert_equal(model: Model, bench, rows: int) -> None:
    limits = Limits(16, model.stop_ids)
    methods = {AR: Autoregressive(), "recap": Recap()}
    pairing = Pairing(model, bench, methods, limits, model.contract(limits, "last"))
    for index, row in enumerate(bench.rows(rows)):
        for turn in pairing.row(index, row, checked=False):
            record = turn.records["recap"]
            assert record.verdict.kind == "equal" and record.visual_tokens
            assert (record.ar.score == record.method.score) and (record.ar.score is None) == (bench.name == "mmspec")


def test_a_row_may_have_no_picture_and_another_two(tmp_path, model):
    for name in ("a", "b"):
        shutil.copy(DATA / "textvqa/images/003a8ae2ef43b901.jpg", tmp_path / f"{name}.jpg")
    rows = [chart(), chart(image=None), chart(image=["a.jpg", "b.jpg"]), chart(image="a.jpg")]
    bench = bench_at("chartqa", jsonl(tmp_path, "chartqa", rows))
    found = {row.id[-1]: len(row.open_images()) for row in bench.rows()}
    assert found == {"0": 0, "1": 0, "2": 2, "3": 1}
    pairing = Pairing(model, bench, {AR: Autoregressive()}, Limits(1), model.contract(Limits(1), "last"))
    for index, row in enumerate(bench.rows()):
        assert len(list(pairing.row(index, row, checked=False))) == 1


@pytest.mark.parametrize(
    "change,message",
    [
        ({"answer": None}, "row chartqa-000000: it has no answer; .*bench.split=test"),
        ({"answer": "  "}, "row chartqa-000000: it has no answer"),
        ({"question": None}, "row chartqa-000000: its columns cannot be read"),
        ({"image": "absent.png"}, "row chartqa-000000: its image cannot be read"),
        ({"image": "chartqa.jsonl"}, "row chartqa-000000: its image cannot be read"),
    ],
)
def test_a_bad_row_is_left_out_by_name(tmp_path, change, message):
    bench = bench_at("chartqa", jsonl(tmp_path, "chartqa", [chart(**change)]))
    bench.manifest()  # a bad row does not stop it
    model = SimpleNamespace(model=SimpleNamespace(device=torch.device("cpu")))  # never asked: the row does not reach it
    pairing = Pairing(model, bench, {AR: Autoregressive()}, Limits(1), None)
    with pytest.raises(RowError, match=message):
        list(pairing.row(0, only(bench), checked=False))


@pytest.mark.parametrize(
    "name,cells,message",
    [
        ("chartqa", [], "is empty"),
        ("chartqa", [{"type": "", "question": "", "image": ""}], "lacks the column answer; it has type, question"),
        ("mmspec", [{"id": "1", "image": ""}], "lacks the column turns, category, topic"),
        ("seed_bench", [VIDEO], "no row of .* passes its filter"),
    ],
)
def test_an_unfit_set_is_refused_by_name(tmp_path, name, cells, message):
    with pytest.raises(ValueError, match=f"bench {name}: .*{message}"):
        bench_at(name, jsonl(tmp_path, name, cells))


def test_a_path_without_data_is_refused_with_what_it_should_hold(tmp_path, data):
    with pytest.raises(ValueError, match=r"bench\.path=.*nowhere: no such folder or file for bench chartqa"):
        bench_at("chartqa", tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"bench chartqa finds no data there; expected a save_to_disk folder"):
        bench_at("chartqa", tmp_path)
    (tmp_path / "chartqa.jsonl").write_text("{}\n{")
    with pytest.raises(ValueError, match=r"chartqa\.jsonl:2: not a line of JSON"):
        bench_at("chartqa", tmp_path)
    (tmp_path / "bad.parquet").write_text("no parquet")
    with pytest.raises(ValueError, match="the parquet files cannot be read"):
        bench_at("chartqa", tmp_path / "bad.parquet")


def test_mmspec_without_a_path_and_a_hub_without_network_say_the_way_out(monkeypatch):
    with pytest.raises(ValueError, match=r"bench\.path: MMSpec is on no hub; give the folder"):
        bench_of(cell_config("mmspec"))

    def offline(*_, **__):
        raise ConnectionError("Name or service not known")

    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", offline)
    with pytest.raises(ValueError, match=r"bench chartqa: .*lmms-lab/ChartQA: Name or service not known.*bench\.path="):
        bench_of(cell_config("chartqa"))


def cell_config(name: str, *overrides: str) -> dict:
    return OmegaConf.to_container(compose(f"bench={name}", *overrides))


def test_the_runs_prompt_reaches_the_sets_that_have_two_and_is_refused_by_others(tmp_path, data):
    place = f"bench.path={data}"
    bench = bench_of(cell_config("textvqa", f"{place}/textvqa", "prompt=accuracy", f"out={tmp_path}"))
    assert next(bench.rows()).turns[0].endswith("Answer the question using a single word or phrase.")
    with pytest.raises(ValueError, match="prompt=accuracy: this benchmark has no such choice"):
        bench_of(cell_config("mmspec", f"{place}/mmspec", "prompt=accuracy"))
    with pytest.raises(ValueError, match="seed=7: this benchmark has no such choice"):
        bench_of(cell_config("textvqa", f"{place}/textvqa", "seed=7"))


def test_fixtures_are_the_same_rows_every_time(data, tmp_path):
    make(tmp_path)
    for name in WRITERS:
        first, second = (bench_at(name, folder / name).manifest() for folder in (data, tmp_path))
        assert first.text() == second.text()
