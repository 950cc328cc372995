"""One real cell on the bundled model: files, counts, verdicts, errors."""

import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from omegaconf import OmegaConf
from PIL import UnidentifiedImageError

from analysis.lines import committed
from analysis.load import load
from runners.benches.synthetic import Synthetic
from runners.cell import Cell, run
from tests.faults import NotFinite, RowNotDropped, planted
from tests.scripted_cell import stored
from tests.test_config import compose

ROOT = Path(__file__).parent.parent
ROWS = 3


def cell(out: Path, *overrides: str, versus: tuple[str, ...] = ()) -> Cell:
    """A cell as run.py composes it."""
    config = compose(f"out={out}", f"limit={ROWS}", "generate_check=1", *overrides)
    methods = {"recap": config.method} | {name: compose(f"method={name}").method for name in versus}
    plain = {name: OmegaConf.to_container(section) for name, section in methods.items()}
    return Cell(OmegaConf.to_container(config), {"model": "tiny_qwen", "bench": "synthetic"}, plain)


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> tuple[Cell, int]:
    """A run of RECAP against Token Recycling, traced."""
    it = cell(tmp_path_factory.mktemp("out"), "trace=true", versus=("token_recycling",))
    return it, run(it)


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def summary(it: Cell, method: str = "recap") -> dict:
    return json.loads((it.folder(method) / "summary.json").read_text())


def test_every_output_equals_ars_and_the_exit_code_says_so(finished):
    it, code = finished
    assert code == 0
    for method in ("recap", "token_recycling"):
        assert summary(it, method)["verdict"]["equal"] == summary(it, method)["turns"] > 0


def test_each_method_writes_its_own_whole_folder(finished):
    it, _ = finished
    for method in ("recap", "token_recycling"):
        names = sorted(file.name for file in it.folder(method).iterdir())
        assert names == [
            "config.yaml", "inputs.jsonl", "inspect.jsonl", "lock", "memory.ckpt", "records.jsonl", "status.json",
            "steps.jsonl", "summary.json",
        ]  # fmt: skip
        assert json.loads((it.folder(method) / "status.json").read_text())["state"] == "ok"


def test_all_methods_share_one_ar_run(finished):
    it, _ = finished
    ours, theirs = (lines(it.folder(method) / "records.jsonl") for method in ("recap", "token_recycling"))
    assert [r["ar"] for r in ours] == [r["ar"] for r in theirs]


def test_new_tokens_are_one_from_prefill_and_the_committed(finished):
    it, _ = finished
    for record in lines(it.folder("recap") / "records.jsonl"):
        for side in ("ar", "method"):
            assert len(record[side]["tokens"]) == 1 + sum(record[side]["committed"])


def test_the_order_rotates_with_the_input(finished):
    it, _ = finished
    first_places = {r["index"]: r["ar"]["place"] for r in lines(it.folder("recap") / "records.jsonl")}
    assert [first_places[i] for i in range(ROWS)] == [0, 2, 1]


def test_a_step_line_tells_what_was_drafted_accepted_and_committed(finished):
    it, _ = finished
    records = lines(it.folder("recap") / "records.jsonl")
    steps = lines(it.folder("recap") / "steps.jsonl")
    assert len(steps) == sum(len(r["method"]["committed"]) for r in records)
    for step in steps:
        accepted = [step["tokens"][node] for node in step["path"]]
        assert step["committed"][: len(accepted)] == accepted
        assert all(parent < node for node, parent in enumerate(step["parents"]))


def test_the_table_and_the_folders_are_printed_last(tmp_path, capsys):
    it = cell(tmp_path, "limit=1")
    run(it)
    printed = capsys.readouterr().out.strip().splitlines()
    assert printed[-1] == str(it.folder("recap"))
    assert any(line.startswith("recap ") for line in printed)
    assert any("transformers' own generate" in line for line in printed)


def test_a_summary_holds_what_the_readme_promises(finished):
    it, _ = finished
    promised = {
        "n", "method", "model", "bench", "ablation", "turns", "contract", "verdict", "tau", "tau_pooled", "speedup",
        "efficiency", "steps", "new_tokens", "phases_ms", "ledger", "memory", "traced", "alarms",
    }  # fmt: skip
    assert promised <= set(summary(it))
    assert summary(it)["generate"]["verdict"]["equal"] == summary(it)["generate"]["requests"]


def test_later_turns_ask_after_ars_own_answers(tmp_path):
    rows = [row for row in Synthetic(n=30).rows() if len(row.turns) > 1]
    assert rows
    chat = Synthetic().messages(rows[0], 1, ["an answer"], images=1)
    assert [message["role"] for message in chat] == ["user", "assistant", "user"]
    assert chat[1]["content"][0]["text"] == "an answer"


@pytest.mark.parametrize("cap", [1, 2])
def test_tiny_caps_are_legal(tmp_path, cap):
    it = cell(tmp_path, f"max_new_tokens={cap}", "limit=2")
    assert run(it) == 0
    assert all(len(r["method"]["tokens"]) == cap for r in lines(it.folder("recap") / "records.jsonl"))


def test_a_checkpoints_penalty_is_applied_to_neither_side_and_recorded(tmp_path):
    folder = tmp_path / "penalised"
    shutil.copytree(ROOT / "assets/tiny_qwen", folder)
    path = folder / "generation_config.json"
    own = json.loads(path.read_text())
    own |= {"repetition_penalty": 1.05, "eos_token_id": [own["eos_token_id"], 0]}
    path.write_text(json.dumps(own))
    it = cell(tmp_path / "out", f"model.path={folder}", "limit=2")
    assert run(it) == 0
    assert summary(it)["ignored_processors"] == {"repetition_penalty": 1.05}
    assert summary(it)["contract"]["processors"] == "none"
    assert len(summary(it)["contract"]["stop_ids"]) == 2
    assert summary(it)["generate"]["verdict"]["equal"] == summary(it)["generate"]["requests"]


def broken(error: Exception, at: int):
    """Synthetic rows of which one has an unreadable image."""
    original = Synthetic.rows

    def rows(self, limit=None):
        from dataclasses import replace

        def fail():
            raise error

        for i, row in enumerate(original(self, limit)):
            yield replace(row, open_images=fail) if i == at and self.part == "scored" else row

    return rows


def test_a_corrupt_image_is_left_out_on_both_sides_and_named(tmp_path, monkeypatch):
    monkeypatch.setattr(Synthetic, "rows", broken(UnidentifiedImageError("cannot identify image file"), 1))
    it = cell(tmp_path)
    assert run(it) == 0
    assert {r["index"] for r in lines(it.folder("recap") / "records.jsonl")} == {0, 2}
    assert summary(it)["excluded"][0].startswith("bench synthetic, row synthetic-000001: its image cannot be read")
    assert "1 inputs left out on both sides" in summary(it)["alarms"]


def test_a_run_that_dies_leaves_nothing_that_could_be_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(Synthetic, "score", lambda *_: 1 / 0)
    it = cell(tmp_path)
    with pytest.raises(ZeroDivisionError):
        run(it)
    status = json.loads((it.folder("recap") / "status.json").read_text())
    assert status["state"] == "failed" and "ZeroDivisionError" in status["error"]
    assert not (it.folder("recap") / "summary.json").exists()
    with pytest.raises(ValueError, match=r"the run is not complete \(its status is failed\)"):
        load(it.folder("recap"))
    with pytest.raises(ValueError, match=r"records\.jsonl: no records"):
        load(it.folder("recap"), partial=True)


def test_a_damaged_record_is_named_by_file_and_line(finished, tmp_path):
    it, _ = finished
    whole = (it.folder("recap") / "records.jsonl").read_text().splitlines()
    (tmp_path / "records.jsonl").write_text("\n".join([whole[0], whole[1][:50], whole[2], ""]))
    with pytest.raises(ValueError, match=r"records\.jsonl:2: not a whole record"):
        load(tmp_path)


@pytest.mark.parametrize(
    "override,message",
    [
        ("temperature=0.7", r"temperature=0\.7: decoding is greedy"),
        ("batch_size=2", r"batch_size=2: one request at a time"),
        ("max_new_tokens=0", "max_new_tokens: at least 1"),
        ("limit=0", "limit=0: expected a number of inputs"),
        ("track=yes", "track=yes: choose one of none, offline, online"),
        ("sweep=7", "sweep=7: expected a name"),
        ("engine=warp", "engine=warp: choose"),
        ("dtype=int8", "dtype=int8: choose one of"),
        ("device=tpu9", "device=tpu9: not a torch device"),
        ("model.path=assets/nothing", r"model\.path=assets/nothing: no such folder"),
        ("max_new_tokens=5000", r"max_new_tokens=5000: the model has 2048 positions"),
    ],
)
def test_bad_input_is_refused_by_key(tmp_path, override, message):
    with pytest.raises(ValueError, match=message):
        run(cell(tmp_path, override))


def test_a_checkpoint_without_weights_is_refused(tmp_path):
    folder = tmp_path / "bare"
    shutil.copytree(ROOT / "assets/tiny_qwen", folder, ignore=shutil.ignore_patterns("*.safetensors"))
    with pytest.raises(ValueError, match=r"model\.path=.*bare: model\.safetensors is missing"):
        run(cell(tmp_path / "out", f"model.path={folder}"))


def test_a_checkpoint_of_another_class_is_refused_before_weights_load(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}))
    with pytest.raises(ValueError, match="model class GPT2LMHeadModel is not supported; supported: LlamaForCausalLM"):
        run(cell(tmp_path / "out", f"model.path={tmp_path}"))


def test_a_rerun_that_dies_keeps_the_finished_run(tmp_path, monkeypatch):
    it = cell(tmp_path, "limit=1", "generate_check=0")
    run(it)
    before = (it.folder("recap") / "records.jsonl").read_text()
    monkeypatch.setattr(Synthetic, "score", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(cell(tmp_path, "limit=1", "generate_check=0", "rerun=true"))
    assert (it.folder("recap") / "records.jsonl.1").read_text() == before
    assert json.loads((it.folder("recap") / "summary.json.1").read_text())["turns"] > 0


def test_a_cell_killed_on_a_real_model_is_continued_as_if_it_never_was(tmp_path):
    overrides = ("limit=4", "max_new_tokens=16", "generate_check=0")
    unbroken, killed = cell(tmp_path / "unbroken", *overrides), cell(tmp_path / "killed", *overrides)
    process = subprocess.Popen(
        [sys.executable, "run.py", *overrides, f"out={tmp_path / 'killed'}"], cwd=ROOT, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 180
    while len(committed(killed.folder("recap"))) < 2 and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.02)
    process.kill()
    process.wait()
    assert json.loads((killed.folder("recap") / "status.json").read_text())["state"] == "running"
    assert 2 <= len(committed(killed.folder("recap"))) < 4
    run(killed)
    run(unbroken)
    assert stored(killed) == stored(unbroken)
    assert summary(killed)["tau"] == summary(unbroken)["tau"]


def with_a_fault(monkeypatch, fault, **options):
    """Every model loads with this fault planted in its target."""
    monkeypatch.setattr("runners.models.target_for", lambda model, engine: planted(fault, model, **options))


def test_a_difference_is_recorded_with_its_cause_printed_and_fails_the_run(tmp_path, monkeypatch, capsys):
    with_a_fault(monkeypatch, RowNotDropped, since=1)
    it = cell(tmp_path, "generate_check=0", "limit=2", "max_new_tokens=24", "allow_ties=true")
    assert run(it) == 3
    verdicts = [record["verdict"] for record in lines(it.folder("recap") / "records.jsonl")]
    wrong = [verdict for verdict in verdicts if verdict["kind"] != "equal"]
    assert wrong and {verdict["kind"] for verdict in wrong} == {"position_or_cache"}
    assert all(verdict["gap"] > 0 and verdict["repeatable"] for verdict in wrong)
    assert summary(it)["verdict"]["position_or_cache"] == len(wrong)
    one = (
        r"^recap: synthetic-00000\d, turn \d: token \d+ is \d+ '.*', AR has \d+ '.*'; gap [\d.e-]+; position_or_cache; "
    )
    assert len(re.findall(one + "repeats itself$", capsys.readouterr().out, re.MULTILINE)) == len(wrong)


def test_logits_that_are_not_finite_leave_an_input_out_with_advice_on_dtype(tmp_path, monkeypatch):
    with_a_fault(monkeypatch, NotFinite, since=2, prompt_tokens=32)  # the third row's prompt, and none of the warm-up's
    it = cell(tmp_path, "generate_check=0", "max_new_tokens=12")
    assert run(it) == 0
    assert summary(it)["excluded"] == [
        "bench synthetic, row synthetic-000002, turn 0: "
        "the model's logits are not finite; try dtype=bfloat16 or dtype=float32"
    ]
    assert summary(it)["n"] == ROWS - 1
