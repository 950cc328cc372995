"""The two bundled models: they load as anyone would load them, look at the image and read it."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForImageTextToText, AutoProcessor, Qwen2_5_VLProcessor
from transformers.utils import is_torchvision_available

from runners.benches.generated.pictures import draw_picture, render
from runners.benches.synthetic import Synthetic

ASSETS = Path(__file__).resolve().parent.parent / "assets"
CLASSES = {"tiny_qwen": "Qwen2_5_VLForConditionalGeneration", "tiny_llava": "LlavaNextForConditionalGeneration"}
ROWS = 10


class Model:
    """A bundled model in fp32 with its greedy answers to ten held-out first turns, seen and with a swapped image."""

    def __init__(self, name: str) -> None:
        if not is_torchvision_available():  # the processor would look for a video processor, which needs torchvision
            Qwen2_5_VLProcessor.get_attributes = classmethod(lambda cls: ["image_processor", "tokenizer"])
        self.folder = ASSETS / name
        self.processor = AutoProcessor.from_pretrained(self.folder, local_files_only=True)
        self.model = AutoModelForImageTextToText.from_pretrained(
            self.folder, local_files_only=True, dtype=torch.float32
        )
        self.bench = Synthetic(seed=2, n=ROWS)
        self.rows = list(self.bench.rows())
        rng = np.random.default_rng(0)
        self.answers = [self.ask(row, row.open_images()[0]) for row in self.rows]
        self.swapped = [self.ask(row, render(draw_picture(rng, "scored", row.category), 0)) for row in self.rows]

    @torch.no_grad()
    def ask(self, row, image) -> str:
        messages = self.bench.messages(row, 0, [], images=1)
        text = self.processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        inputs = self.processor(text=[text], images=[image], return_tensors="pt")
        ids = self.model.generate(**inputs, max_new_tokens=200, do_sample=False)
        return self.processor.decode(ids[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)


@pytest.fixture(scope="module", params=CLASSES)
def bundled(request) -> Model:
    torch.set_num_threads(1)
    return Model(request.param)


def test_it_is_the_genuine_class_in_fp32(bundled):
    assert type(bundled.model).__name__ == CLASSES[bundled.folder.name]
    assert bundled.model.dtype == torch.float32


def test_the_folder_is_small(bundled):
    assert sum(f.stat().st_size for f in bundled.folder.iterdir()) < 16e6


def test_generation_stops_at_one_id_and_has_no_penalties(bundled):
    config = bundled.model.generation_config
    assert bundled.processor.tokenizer.convert_ids_to_tokens(config.eos_token_id) == "<|im_end|>"
    assert config.repetition_penalty in (None, 1.0)
    assert bundled.model.config.get_text_config().max_position_embeddings >= 2048


def test_a_system_message_and_history_fit_the_chat_template(bundled):
    text = lambda role, words: {"role": role, "content": [{"type": "text", "text": words}]}  # noqa: E731
    chat = [text("system", "Be kind."), text("user", "One?"), text("assistant", "Yes."), text("user", "Two?")]
    rendered = bundled.processor.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    assert rendered == (
        "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nOne?<|im_end|>\n"
        "<|im_start|>assistant\nYes.<|im_end|>\n<|im_start|>user\nTwo?<|im_end|>\n<|im_start|>assistant\n"
    )


def test_answers_end_by_themselves_and_state_the_facts(bundled):
    scores = [bundled.bench.score(row, 0, answer) for row, answer in zip(bundled.rows, bundled.answers, strict=True)]
    assert np.mean(scores) > 0.85


def test_answers_change_when_the_image_is_swapped(bundled):
    changed = sum(a != b for a, b in zip(bundled.answers, bundled.swapped, strict=True))
    assert changed >= 8


def test_the_card_states_measured_numbers_and_the_licence(bundled):
    card = (bundled.folder / "README.md").read_text()
    assert "license: apache-2.0" in card
    for measure in ("fact score", "all facts right", "swapped", "mean answer length", "Training", "Versions"):
        assert measure in card
    assert f"train_tiny.py {bundled.folder.name.removeprefix('tiny_')} --evaluate" in card
