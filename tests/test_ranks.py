"""One model split over several processes: all decode alike, one writes, and none outlives another."""

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from runners import placing, ranks, stream
from runners.cell import Cell, run
from runners.measure import WARM_UP_ROWS
from runners.models import Model
from runners.placing import check_gathered, check_slices, devices_of, sliced
from tests.models import model_of
from tests.scripted import VOCAB, hashed
from tests.scripted_cell import Forgiving, ended, forked, scripted, stored
from tests.test_cell import cell, lines, summary

ROOT = Path(__file__).parent.parent
OPTIONS = ("dtype=float64", "max_new_tokens=24", "generate_check=1")  # float64: sums in another order flip no tie
TWO = ("+model.tensor_parallel=2",)


@pytest.fixture(autouse=True)
def one_process(monkeypatch):
    """No test depends on how the suite was started."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)


# the bundled model


@pytest.fixture(scope="module")
def single(tmp_path_factory) -> Cell:
    it = cell(tmp_path_factory.mktemp("single"), *OPTIONS, "limit=2")
    assert run(it) == 0
    return it


@pytest.fixture(scope="module")
def split(tmp_path_factory) -> tuple[Cell, subprocess.CompletedProcess]:
    """The same on two processes: one input first, then continued."""
    out = tmp_path_factory.mktemp("split")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "run.py", "-m"]
    command += [*OPTIONS, *TWO, "limit=1,2", f"out={out}"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    return cell(out, *OPTIONS, *TWO, "limit=2"), ended


def test_two_processes_decode_as_one(single, split):
    it, ended = split
    assert ended.returncode == 0, ended.stderr
    alone, together = stored(single), stored(it)
    contracts = {record.pop("contract") for record in alone}, {record.pop("contract") for record in together}
    assert len(alone) == 2 and together == alone  # ids, steps, drafts, verdicts; every request once
    assert not contracts[0] & contracts[1]
    assert summary(it)["generate"]["verdict"]["equal"] == 1


def test_the_contract_says_that_the_model_is_split(single, split):
    assert summary(single)["contract"]["device"] == "cpu"
    assert summary(split[0])["contract"]["device"] == "cpu tp=2"
    assert summary(split[0])["parameters"] == summary(single)["parameters"]


def test_one_process_writes_and_prints(single, split):
    it, ended = split
    folder = it.folder("recap")
    assert sorted(f.name for f in folder.iterdir()) == sorted(f.name for f in single.folder("recap").iterdir())
    assert [entry["index"] for entry in lines(folder / "inputs.jsonl")] == [0, 1]
    assert len(re.findall("1 inputs to measure", ended.stderr)) == 1
    assert len(re.findall("1/2 inputs are there", ended.stderr)) == 1
    assert ended.stdout.count(f"{folder}\n") == 2  # two cells of the sweep
    status = json.loads((folder / "status.json").read_text())
    assert status["state"] == "ok" and status["restarts"] == 1
    assert status["command"].startswith("torchrun --standalone --nproc-per-node 2 run.py ")


# two processes on a scripted model, each with all of it


@pytest.fixture
def two(tmp_path, monkeypatch):
    """Runs `work(cell, rank)` on both ranks of a cell; returns it and their exit codes."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "copies"))
    (tmp_path / "copies").mkdir()

    def both(work, *overrides: str, out: str = "out") -> tuple[Cell, list[int]]:
        it = scripted(tmp_path / out, *overrides)
        it.config["model"]["tensor_parallel"] = 2
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])

        def start(rank: int) -> int:
            place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
            os.environ.update(place, MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
            return work(it, rank)

        pids = [forked(lambda rank=rank: start(rank)) for rank in (0, 1)]
        return it, [ended(pid) for pid in pids]

    return both


def state(it: Cell) -> dict:
    return json.loads((it.folder("recap") / "status.json").read_text())


def test_a_continued_run_equals_an_unbroken_one_and_leaves_no_copy(two, tmp_path):
    whole = scripted(tmp_path / "whole")
    assert run(whole) == 0
    two(lambda it, rank: run(it), "limit=2")
    it, codes = two(lambda it, rank: run(it))
    assert codes == [0, 0] and stored(it) == stored(whole)
    assert not list((tmp_path / "copies").iterdir())


def test_a_rerun_sets_the_files_aside_once(two):
    two(lambda it, rank: run(it))
    it, codes = two(lambda it, rank: run(it), "rerun=true")
    assert codes == [0, 0]
    names = {file.name for file in it.folder("recap").iterdir()}
    assert "records.jsonl.1" in names and "records.jsonl.2" not in names


def test_a_finished_cell_returns_at_once_on_all(two):
    two(lambda it, rank: run(it))
    it, codes = two(lambda it, rank: run(it))
    assert codes == [0, 0] and state(it)["restarts"] == 0


def differing(it: Cell, rank: int) -> int:
    """Rank 1's model is another one after the warm-up and two inputs."""
    prefill = Forgiving.prefill

    def other(self, *arguments):
        self.begun = getattr(self, "begun", 0) + 1
        if self.begun > 2 * WARM_UP_ROWS + 4:
            self.predict = hashed(VOCAB, drift=7)
        return prefill(self, *arguments)

    if rank == 1:
        Forgiving.prefill = other
    return run(it)


def test_an_input_that_the_ranks_decode_differently_is_not_kept(two):
    it, codes = two(differing)
    assert 0 not in codes
    assert state(it)["state"] == "failed"
    assert "the ranks decoded an input differently" in state(it)["error"]
    assert len(lines(it.folder("recap") / "inputs.jsonl")) == state(it)["inputs"] < 6


def dying(gone: int):
    """Rank `gone` is gone after the warm-up and two inputs."""
    prefill = Forgiving.prefill

    def last(self, *arguments):
        self.begun = getattr(self, "begun", 0) + 1
        if self.begun > 2 * WARM_UP_ROWS + 4:
            os._exit(9)
        return prefill(self, *arguments)

    def work(it: Cell, rank: int) -> int:
        if rank == gone:
            Forgiving.prefill = last
        return run(it)

    return work


@pytest.mark.parametrize("gone", [0, 1])
def test_the_end_of_one_rank_ends_the_other(two, gone):
    started = time.monotonic()
    it, codes = two(dying(gone))
    assert codes[gone] == 9 and codes[1 - gone] != 0
    assert time.monotonic() - started < 60
    assert state(it)["state"] == ("running" if gone == 0 else "failed")  # its lock is free: a dead run


def test_out_of_memory_ends_the_run_for_a_rank_cannot_leave_a_pass_alone(tmp_path, monkeypatch):
    def failing(self, root, draft, top_k):
        raise torch.OutOfMemoryError("CUDA out of memory")

    it = scripted(tmp_path)
    monkeypatch.setattr(stream.Stream, "_rebuild", lambda self, names: setattr(Forgiving, "verify", failing))
    monkeypatch.setattr(Forgiving, "verify", Forgiving.verify)  # put back at the end
    monkeypatch.setattr(stream, "ranks", lambda: 2)
    with pytest.raises(torch.OutOfMemoryError):
        run(it)
    assert state(it)["state"] == "failed"


# what is refused


def launched(monkeypatch, count: int, rank: int = 0) -> None:
    monkeypatch.setenv("WORLD_SIZE", str(count))
    monkeypatch.setenv("RANK", str(rank))


@pytest.mark.parametrize(
    "there,wanted,message",
    [
        (1, 2, r"tensor_parallel=2: .*`torchrun --standalone --nproc-per-node 2 run\.py \.\.\.`, or leave it null"),
        (2, None, r"tensor_parallel=null: torchrun started 2 processes.*give model\.tensor_parallel=2"),
        (4, 2, r"tensor_parallel=2: torchrun started 4 processes.*give model\.tensor_parallel=4"),
    ],
)
def test_another_number_of_processes_is_refused_before_anything_is_written(
    tmp_path, monkeypatch, there, wanted, message
):
    launched(monkeypatch, there)
    it = cell(tmp_path / "out", f"+model.tensor_parallel={'null' if wanted is None else wanted}")
    with pytest.raises(ValueError, match=rf"^model\.{message}"):
        run(it)
    assert not (tmp_path / "out").exists()
    with pytest.raises(ValueError, match=message):
        Model("assets/tiny_qwen", tensor_parallel=wanted)


def test_what_is_no_number_of_processes_is_refused_by_key(tmp_path):
    with pytest.raises(ValueError, match=r"model\.tensor_parallel='two': expected int"):
        run(cell(tmp_path, "+model.tensor_parallel=two"))


def test_heads_that_cannot_be_shared_out_are_refused_naming_what_fits(monkeypatch):
    heads = SimpleNamespace(num_attention_heads=28, num_key_value_heads=4)
    check_slices(heads, 2)
    check_slices(heads, 4)
    with pytest.raises(ValueError, match=r"model\.tensor_parallel=8: .* 4 key/value heads .*; choose 2 or 4"):
        check_slices(heads, 8)
    launched(monkeypatch, 3)
    with pytest.raises(ValueError, match=r"model\.tensor_parallel=3: .* 2 key/value heads .*; choose 2"):
        Model("assets/tiny_qwen", tensor_parallel=3)


def test_a_split_model_has_no_device_map_and_no_device_of_its_own(monkeypatch):
    launched(monkeypatch, 2)
    with pytest.raises(ValueError, match=r"model\.device_map=cpu: not with model\.tensor_parallel"):
        Model("assets/tiny_qwen", device_map="cpu", tensor_parallel=2)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for device in ("cpu", "cuda:1"):
        with pytest.raises(ValueError, match=rf"device={device}: .* every rank has its own; use device=cuda"):
            sliced(device, 2)


def test_a_split_needs_accelerate_and_says_so(monkeypatch):
    monkeypatch.setattr(placing, "is_accelerate_available", lambda: False)
    with pytest.raises(ValueError, match=r"model\.tensor_parallel=2: transformers needs accelerate"):
        sliced("cpu", 2)


def test_every_family_gathers_its_logits_and_one_that_did_not_is_refused():
    for family in ("qwen2_5_vl", "llava_next", "llama", "qwen2"):
        check_gathered(model_of(family))
    other = SimpleNamespace(tp_plan={}, named_modules=lambda: [("head", 1)], get_output_embeddings=lambda: 1)
    with pytest.raises(ValueError, match=r"model\.tensor_parallel: .*does not gather logits"):
        check_gathered(other)


def test_the_contract_names_the_kind_of_device_and_the_ranks():
    assert devices_of(SimpleNamespace(_tp_size=4, device=torch.device("cuda:0"))) == "cuda tp=4"


# who speaks


def test_another_rank_than_the_first_prints_nothing(monkeypatch, capfd):
    for rank in (0, 1):
        launched(monkeypatch, 2, rank)
        with ranks.silent_unless_first():
            print(f"rank {rank}")
            print(f"rank {rank}", file=sys.stderr)
    assert capfd.readouterr() == ("rank 0\n", "rank 0\n")


def test_it_speaks_up_when_it_alone_fails_after_the_first_had_its_say(monkeypatch, capfd):
    waits = []
    monkeypatch.setattr(ranks.time, "sleep", waits.append)
    launched(monkeypatch, 2, 1)
    with pytest.raises(RuntimeError), ranks.silent_unless_first():
        raise RuntimeError
    with ranks.silent_unless_first():
        ranks.tell(f"error{ranks.whose()}: what")
    assert waits == [ranks.HEAD_START] and capfd.readouterr().err == "error on rank 1: what\n"
    launched(monkeypatch, 2, 0)
    ranks.yield_the_floor()
    assert len(waits) == 1 and ranks.whose() == ""
