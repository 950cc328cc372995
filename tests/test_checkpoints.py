"""The 7B checkpoints' layout: it loads, decodes exactly, keeps its stop ids and limits, and damage is named."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from huggingface_hub import HfApi
from PIL import Image

from baselines.autoregressive import Autoregressive
from recap import Limits, Recap
from recap.decode import generate
from runners import checkpoint, placing, status
from runners.benches.synthetic import Synthetic
from runners.cell import run
from runners.clock import HostClock
from runners.models import Model
from runners.peer import TransformersGenerate
from tests.checkpoints import PENALTY, VICUNA, save_llava, save_qwen, write
from tests.test_cell import cell, summary
from tests.test_config import compose

ROOT = Path(__file__).parent.parent
SHARD = "model-00002-of-00004.safetensors"
SMALL_IMAGES = ("model.min_pixels=784", "model.max_pixels=50176")  # what the bundled model was trained on
SIZES = [(60, 60), (140, 112), (300, 100), (84, 168), (640, 480)]  # width, height


@pytest.fixture(scope="module")
def qwen(tmp_path_factory) -> Path:
    return save_qwen(tmp_path_factory.mktemp("qwen"))


@pytest.fixture(scope="module")
def llava(tmp_path_factory) -> Path:
    return save_llava(tmp_path_factory.mktemp("llava"))


@pytest.fixture
def folders(qwen, llava) -> dict[str, Path]:
    return {"qwen": qwen, "llava": llava}


@pytest.fixture
def copy(folders, tmp_path):
    """Copies of a checkpoint that a test may damage."""
    return lambda name="qwen": Path(shutil.copytree(folders[name], tmp_path / f"copy-{name}"))


def edit(path: Path, **changes) -> None:
    write(path, json.loads(path.read_text()) | changes)


def messages(images: int = 1) -> list[dict]:
    row = next(Synthetic().rows(1))
    return Synthetic().messages(row, 0, [], images)


def test_the_small_qwen_is_laid_out_as_the_hubs(qwen):
    config = json.loads((qwen / "config.json").read_text())
    assert "text_config" not in config and config["rope_scaling"]["type"] == "mrope"
    assert not config["use_sliding_window"] and config["sliding_window"] == 32768
    weights = json.loads((qwen / "model.safetensors.index.json").read_text())["weight_map"]
    assert len(set(weights.values())) > 2 and not (qwen / "model.safetensors").exists()
    assert {"lm_head.weight", "model.embed_tokens.weight", "visual.patch_embed.proj.weight"} <= set(weights)
    assert not (qwen / "chat_template.jinja").exists() and not (qwen / "processor_config.json").exists()


@pytest.mark.parametrize(
    "name,dtype", [("qwen", "float32"), ("qwen", "bfloat16"), ("llava", "float32"), ("llava", "float16")]
)
def test_it_decodes_exactly_from_the_command_line(folders, tmp_path, name, dtype):
    limits = SMALL_IMAGES if name == "qwen" else ()
    it = cell(
        tmp_path,
        f"model={name}",
        f"model.path={folders[name]}",
        f"dtype={dtype}",
        "limit=2",
        "max_new_tokens=32",
        *limits,
    )
    assert run(it) == 0
    found = summary(it)
    assert found["verdict"]["equal"] == found["turns"] > 0
    assert found["generate"]["verdict"]["equal"] == found["generate"]["requests"] > 0
    assert found["ignored_processors"] == ({"repetition_penalty": PENALTY} if name == "qwen" else {})
    used = {key: found["contract"][key] for key in ("dtype", "revision", "stop_ids", "attention")}
    stops = [2, 0] if name == "qwen" else [2]
    assert used == {"dtype": dtype, "revision": "", "stop_ids": stops, "attention": "sdpa"}


@pytest.mark.parametrize("name", ["qwen", "llava"])
def test_it_is_loaded_in_the_dtype_asked_for(folders, name):
    model = Model(str(folders[name]), dtype="bfloat16").model
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}


def three_ways(folder: Path) -> list[list[int]]:
    """The ids of AR, of RECAP and of transformers' generate on one question."""
    model = Model(str(folder))
    inputs = model.inputs(messages(), next(Synthetic().rows(1)).open_images())
    limits = Limits(150, model.stop_ids)
    ours = [generate(model.target, drafter, model.request(inputs, limits), limits).tokens.tolist()
            for drafter in (Autoregressive(), Recap())]  # fmt: skip
    clock = HostClock()
    clock.start()
    return [*ours, TransformersGenerate().decode(model.model, inputs, limits, clock)[0].tolist()]


def test_both_stop_ids_end_every_side_and_the_penalty_touches_none(copy):
    folder = copy()
    free = three_ways(folder)
    assert free[0] == free[1] == free[2] and free[0][-1] == 2 and len(set(free[0])) < len(free[0])
    second = next(token for token in free[0][5:] if token != 2)
    edit(folder / "generation_config.json", eos_token_id=[2, second], repetition_penalty=5.0)
    stopped = free[0][: free[0].index(second) + 1]
    assert three_ways(folder) == [stopped] * 3


def placeholders(model: Model, size: tuple[int, int]) -> int:
    ids = model.inputs(messages(), [Image.new("RGB", size, "red")])["input_ids"][0].tolist()
    return ids.count(model.target.placeholders[0])


@pytest.mark.parametrize(
    "pixels",
    [
        {"min_pixels": 3136, "max_pixels": 12544},
        {"size": {"shortest_edge": 3136, "longest_edge": 12544}},
        {"min_pixels": 3136, "max_pixels": 12544, "size": {"shortest_edge": 3136, "longest_edge": 12544}},
    ],
    ids=["old keys", "new keys", "both"],
)
def test_a_checkpoints_own_pixel_limits_hold_in_either_form(tmp_path, pixels):
    model = Model(str(save_qwen(tmp_path, pixels)))
    assert placeholders(model, (640, 640)) == 16  # 112 x 112
    assert placeholders(model, (28, 28)) == 4


def test_pixel_limits_of_the_run_replace_the_checkpoints(qwen):
    model = Model(str(qwen), min_pixels=50176, max_pixels=100352)
    assert placeholders(model, (28, 28)) == 64
    assert placeholders(model, (1000, 500)) <= 128 < placeholders(Model(str(qwen), max_pixels=1003520), (1000, 500))


@pytest.mark.parametrize("name", ["qwen", "llava"])
def test_visual_tokens_are_known_from_sizes_alone(folders, name):
    model = Model(str(folders[name]))
    assert model.visual_tokens(SIZES) == [placeholders(model, size) for size in SIZES]


@pytest.mark.parametrize(
    "name,limits,message",
    [
        ("qwen", {"min_pixels": 2000, "max_pixels": 1000}, r"model\.min_pixels=2000: above model\.max_pixels=1000"),
        ("qwen", {"max_pixels": 700}, r"model\.min_pixels=784: above model\.max_pixels=700"),
        ("llava", {"min_pixels": 784}, r"model\.min_pixels=784: this model's image processor has no such limit"),
        ("llava", {"max_pixels": 784}, r"model\.max_pixels=784: this model's image processor has no such limit"),
        ("llava", {"min_pixels": 1, "max_pixels": 9}, r"model\.max_pixels=9: this model's image processor has no"),
    ],
)
def test_pixel_limits_that_cannot_hold_are_refused(folders, name, limits, message):
    with pytest.raises(ValueError, match=message):
        Model(str(folders[name]), **limits)


def halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


DAMAGE = {
    "config": (lambda f: halve(f / "config.json"), "no model config could be read: .*not a valid JSON"),
    "no config": (lambda f: (f / "config.json").unlink(), "no model config could be read"),
    "class": (
        lambda f: edit(f / "config.json", architectures=["Qwen2VLForConditionalGeneration"]),
        "model class Qwen2VLForConditionalGeneration is not supported; supported: ",
    ),
    "missing shard": (lambda f: (f / SHARD).unlink(), f"{SHARD} is missing; copy or download the whole"),
    "half a shard": (lambda f: halve(f / SHARD), f"{SHARD} is damaged .*; copy or download it again"),
    "another file": (lambda f: (f / SHARD).write_text("<html>" * 99), f"{SHARD} is damaged .*; copy or download it"),
    "no weights": (lambda f: (f / "model.safetensors.index.json").unlink(), r"model\.safetensors is missing"),
    "index": (lambda f: halve(f / "model.safetensors.index.json"), r"model\.safetensors\.index\.json is damaged"),
    "layers": (lambda f: edit(f / "config.json", num_hidden_layers=7), "12 weights are missing .*layers.6"),
    "width": (lambda f: edit(f / "config.json", intermediate_size=300), "18 weights are missing or of another size"),
    "images": (lambda f: (f / "preprocessor_config.json").unlink(), r"its processor.*preprocessor_config\.json"),
    "half the images": (lambda f: halve(f / "preprocessor_config.json"), r"preprocessor_config\.json is damaged"),
    "no tokenizer": (lambda f: (f / "tokenizer.json").unlink(), "it has no tokenizer"),
    "half a tokenizer": (lambda f: halve(f / "tokenizer.json"), r"tokenizer\.json is damaged"),
    "other tokenizer": (
        lambda f: edit(f / "config.json", image_token_id=7, video_token_id=8),
        "its tokenizer has id 5 for images, its model 7",
    ),
    "limits": (lambda f: edit(f / "preprocessor_config.json", min_pixels=99999), r"model\.min_pixels=99999: above"),
}  # fmt: skip


@pytest.mark.parametrize("damage,message", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_checkpoint_is_refused_in_one_line(copy, damage, message):
    folder = copy()
    damage(folder)
    with pytest.raises(ValueError, match=message) as error:
        Model(str(folder))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "file,message", [("processor_config.json", "no patch_size"), ("chat_template.json", "no chat template")]
)
def test_a_missing_file_that_transformers_would_fill_with_defaults_is_named(copy, file, message):
    folder = copy("llava")
    (folder / file).unlink()
    with pytest.raises(ValueError, match=message):
        Model(str(folder))


def test_the_llava_template_is_vicunas(llava):
    text = Model(str(llava)).processor.apply_chat_template(messages(), add_generation_prompt=True, tokenize=False)
    assert text.startswith("USER: <image>\n") and text.endswith(" ASSISTANT:") and VICUNA


# the files and the run's own settings


@pytest.mark.parametrize(
    "name,dtype,device",
    [
        ("qwen", "bfloat16", "auto"),
        ("llava", "float16", "auto"),
        ("tiny_qwen", "float32", "cpu"),
        ("smollm", "float32", "cpu"),
    ],
)
def test_a_model_file_sets_dtype_and_device_and_the_command_line_has_the_last_word(name, dtype, device):
    config = compose(f"model={name}")
    assert (config.dtype, config.device) == (dtype, device)
    config = compose(f"model={name}", "dtype=float64", "device=cuda:1")
    assert (config.dtype, config.device) == ("float64", "cuda:1")


@pytest.mark.parametrize("name", ["qwen", "llava"])
def test_the_7b_models_are_pinned_to_a_commit(name):
    assert re.fullmatch("[0-9a-f]{40}", compose(f"model={name}").model.revision)


def test_auto_is_cuda_where_torch_sees_one(monkeypatch):
    for seen in (False, True):
        monkeypatch.setattr(torch.cuda, "is_available", lambda seen=seen: seen)
        assert placing.device_of("auto").type == ("cuda" if seen else "cpu")


def test_a_cell_is_named_by_the_device_asked_for_so_that_a_login_node_and_a_gpu_node_agree(tmp_path, monkeypatch):
    folders = []
    for seen in (False, True):
        monkeypatch.setattr(torch.cuda, "is_available", lambda seen=seen: seen)
        folders.append(cell(tmp_path, "device=auto").folder("recap"))
    assert folders[0] == folders[1] != cell(tmp_path, "device=cpu").folder("recap")


def test_a_device_map_needs_accelerate_and_says_so(qwen, monkeypatch):
    monkeypatch.setattr(placing, "is_accelerate_available", lambda: False)
    with pytest.raises(ValueError, match=r"model\.device_map=auto: transformers needs accelerate .*pip install accel"):
        Model(str(qwen), device_map="auto")


@pytest.mark.parametrize(
    "device_map,message", [("everywhere", "not a torch device"), ("cuda:7", "no CUDA device here")]
)
def test_a_device_map_that_names_no_device_is_refused(qwen, monkeypatch, device_map, message):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match=rf"model\.device_map={device_map}: .*{message}"):
        Model(str(qwen), device_map=device_map)


def test_a_device_map_places_the_model(qwen):
    pytest.importorskip("accelerate")
    model = Model(str(qwen), device="auto", device_map="cpu")
    assert model.contract(Limits(8, model.stop_ids), "last").device == "cpu"


def test_the_contract_names_every_device_of_a_spread_model():
    spread = SimpleNamespace(hf_device_map={"a": 1, "b": torch.device("cuda:0"), "c": "cpu", "d": "disk", "e": 1})
    assert placing.devices_of(spread) == "cpu,cuda:0,cuda:1,disk"


# the hub

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def unreachable(*_, **__):
    raise ConnectionError("no route to the hub")


def cached(root: Path, source: Path) -> None:
    """`source` as the hub's cache keeps owner/name at COMMIT."""
    repository = root / "models--owner--name"
    shutil.copytree(source, repository / "snapshots" / COMMIT)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT)


@pytest.mark.parametrize("revision", [COMMIT, None])
def test_what_was_fetched_before_loads_without_network_and_its_commit_is_in_the_contract(
    qwen, tmp_path, monkeypatch, revision
):
    cached(tmp_path, qwen)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(HfApi, "model_info", unreachable)
    model = Model("owner/name", revision=revision)
    contract = model.contract(Limits(8, model.stop_ids), "last")
    assert (contract.model, contract.revision) == ("owner/name", COMMIT)


def test_another_revision_than_the_fetched_one_is_not_taken_for_it(qwen, tmp_path, monkeypatch):
    cached(tmp_path, qwen)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(HfApi, "model_info", unreachable)
    other = COMMIT[::-1]
    with pytest.raises(ValueError, match=rf"not to be had from the Hugging Face hub at revision {other} \(no route"):
        Model("owner/name", revision=other)


def test_a_hub_models_weights_are_fetched_only_once_its_class_is_known(copy, monkeypatch):
    folder, asked = copy(), []
    edit(folder / "config.json", architectures=["GPT2LMHeadModel"])

    def fetch(path, revision, allow_patterns, local_files_only):
        asked.append((path, revision, tuple(allow_patterns), local_files_only))
        return str(folder)

    monkeypatch.setattr(HfApi, "model_info", lambda *_, **__: SimpleNamespace(sha=COMMIT))
    monkeypatch.setattr(checkpoint, "snapshot_download", fetch)
    with pytest.raises(ValueError, match="model class GPT2LMHeadModel is not supported"):
        Model("owner/name")
    edit(folder / "config.json", architectures=["Qwen2_5_VLForConditionalGeneration"])
    Model("owner/name")
    assert [(at, any("safetensors" in pattern for pattern in files)) for _, at, files, _ in asked] == [
        (COMMIT, False), (COMMIT, False), (COMMIT, True)
    ]  # fmt: skip
    assert not any(offline for *_, offline in asked)


@pytest.mark.parametrize("name", ["qwen", "llava"])
def test_without_network_or_a_copy_the_error_names_the_way_out(name, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(HfApi, "model_info", unreachable)
    path = compose(f"model={name}").model.path
    with pytest.raises(ValueError, match=rf"model\.path={path}: .*no route.*point model\.path at a local copy"):
        run(it := cell(tmp_path, f"model={name}"))
    assert status.read(it.folder("recap")).state == "failed"


def test_a_hub_that_refuses_connections_is_asked_once_and_the_run_ends_in_one_line(tmp_path):
    closed = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "0"}
    done = subprocess.run(
        [sys.executable, "run.py", "model=qwen", "limit=1", f"out={tmp_path}/out"],
        cwd=ROOT, env=os.environ | closed, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1, "retries would be told"
    assert done.stderr.startswith("error: model.path=Qwen/Qwen2.5-VL-7B-Instruct: ") and "refused" in done.stderr
