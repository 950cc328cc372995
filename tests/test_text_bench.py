"""Text-only models and `bench=text`: a random Llama, the bundled models without images, SmolLM where it lies ready."""

import json
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from runners.benches.synthetic import Synthetic
from runners.benches.text import CATEGORIES, Text
from runners.cell import Cell, run
from runners.models import Model
from tests.models import TEXT
from tests.test_config import compose

ROOT = Path(__file__).parent.parent
SMOLLM = ROOT / ".cache/smollm"
END = "<|im_end|>"
CHAT = (
    "{% for message in messages %}<|im_start|>{{ message['role'] + '\n' + message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture(scope="module")
def llama(tmp_path_factory) -> Path:
    """A checkpoint of a random Llama whose tokens are bytes."""
    special = [END, "<|im_start|>"]
    words = special + sorted(pre_tokenizers.ByteLevel.alphabet())
    bpe = Tokenizer(models.BPE(vocab={word: i for i, word in enumerate(words)}, merges=[]))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token=END, chat_template=CHAT)
    tokenizer.add_special_tokens({"additional_special_tokens": special})
    torch.manual_seed(0)
    config = TEXT | {"vocab_size": len(words), "max_position_embeddings": 2048, "initializer_range": 0.15}
    model = LlamaForCausalLM(LlamaConfig(**config))
    model.generation_config = GenerationConfig(eos_token_id=0)
    folder = tmp_path_factory.mktemp("llama")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def cell(out: Path, model: str, *overrides: str) -> Cell:
    config = compose(f"out={out}", f"model={model}", "bench=text", "generate_check=1", *overrides)
    methods = {name: compose(f"method={name}").method for name in ("recap", "token_recycling")}
    plain = {name: OmegaConf.to_container(section) for name, section in methods.items()}
    return Cell(OmegaConf.to_container(config), {"model": model, "bench": config.bench._target_}, plain)


def summaries(it: Cell) -> list[dict]:
    return [json.loads((it.folder(name) / "summary.json").read_text()) for name in it.methods]


def all_equal(it: Cell, requests: int) -> bool:
    return all(
        s["verdict"]["equal"] == s["turns"] == requests and s["generate"]["verdict"]["equal"] == 1
        for s in summaries(it)
    )


def test_there_are_ten_prompts_of_each_category_and_any_limit_mixes_them():
    rows = list(Text().rows())
    assert len(rows) == len(Text()) == 40
    assert [row.category for row in rows] == [*CATEGORIES] * 10
    assert len({row.id for row in rows}) == len({row.turns for row in rows}) == 40
    assert not any(row.open_images() for row in rows)


def test_the_seed_orders_the_prompts_and_a_name_stays_with_its_prompt():
    first, second = ({row.id: row.turns for row in Text(seed).rows()} for seed in (0, 1))
    assert first == second
    assert list(first) != list(second)


def test_only_copies_are_scored_by_the_share_of_words_repeated_in_order():
    for row in Text().rows():
        text = row.references[0]
        if row.category != "copy":
            assert text is None and Text().score(row, 0, row.turns[0]) is None
            continue
        assert row.turns[0].endswith(f"\n\n{text}")
        words = text.split()
        half = " ".join(words[: len(words) // 2])
        assert Text().score(row, 0, f"Here it is: {text}") == 1
        assert Text().score(row, 0, half) == pytest.approx(0.5, abs=1 / len(words))
        assert Text().score(row, 0, "") == 0


def test_the_warm_up_of_a_text_only_model_asks_the_generated_questions_without_pictures():
    shown, blind = (list(Synthetic(part="warmup", pictures=pictures).rows(3)) for pictures in (True, False))
    assert [row.turns for row in shown] == [row.turns for row in blind]
    assert all(row.open_images() for row in shown) and not any(row.open_images() for row in blind)


def test_a_text_only_model_runs_and_equals_ar(llama, tmp_path):
    it = cell(tmp_path, "smollm", f"model.path={llama}", "limit=4", "max_new_tokens=24")
    assert run(it) == 0
    assert all_equal(it, requests=4)


def test_a_chat_reaches_the_template_as_plain_strings(llama):
    model = Model(str(llama))
    row = next(Text().rows())
    ids = model.inputs(Text().messages(row, 0, [], images=0), [])["input_ids"]
    assert model.tokenizer.decode(ids[0]) == f"<|im_start|>user\n{row.turns[0]}{END}\n<|im_start|>assistant\n"
    assert model.stop_ids == (0,)


def test_images_are_refused_by_a_text_only_model(llama, tmp_path):
    it = cell(tmp_path, "smollm", f"model.path={llama}", "bench=synthetic", "limit=1")
    with pytest.raises(ValueError, match=r"model\.path=.*: LlamaForCausalLM reads no images; try bench=text"):
        run(it)


@pytest.mark.parametrize("name", ["tiny_qwen", "tiny_llava"])
def test_a_model_that_reads_images_runs_without_any(name, tmp_path):
    it = cell(tmp_path, name, "limit=4", "max_new_tokens=16")
    assert run(it) == 0
    assert all_equal(it, requests=4)


def test_an_absent_checkpoint_is_named_with_the_command_that_makes_it(tmp_path):
    it = cell(tmp_path, "smollm", "model.path=.cache/nothing")
    with pytest.raises(ValueError, match=r"model\.path=\.cache/nothing: .* run `python scripts/get_smollm\.py`"):
        run(it)


@pytest.mark.skipif(not SMOLLM.is_dir(), reason="no .cache/smollm; python scripts/get_smollm.py makes it")
def test_smollm_equals_ar(tmp_path):
    it = cell(tmp_path, "smollm", "limit=3", "max_new_tokens=48")
    assert run(it) == 0
    assert all_equal(it, requests=3)
