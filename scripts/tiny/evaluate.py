"""Held-out evaluation of an exported model: greedy answers in fp32, through the Auto classes, offline."""

from collections import defaultdict
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm
from transformers import AutoModelForImageTextToText, AutoProcessor

from runners.benches.generated.pictures import draw_picture, render
from runners.benches.generated.talk import fact_score
from runners.benches.synthetic import Synthetic

from .models import patch_processor

SEED = 1  # of the evaluation's rows; the benchmark's default is 0, and no seed draws scored pictures for training
MAX_NEW_TOKENS = 256


class Reader:
    """A loaded model that answers chats about one image."""

    def __init__(self, folder: Path) -> None:
        patch_processor()
        self.processor = AutoProcessor.from_pretrained(folder, local_files_only=True)
        self.model = AutoModelForImageTextToText.from_pretrained(folder, local_files_only=True, dtype=torch.float32)
        self.model.eval()

    def inputs(self, messages: list[dict], image):
        text = self.processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        return self.processor(text=[text], images=[image], return_tensors="pt")

    @torch.no_grad()
    def answer(self, inputs) -> torch.Tensor:
        """Greedy answer (T,), without the end-of-turn token."""
        ids = self.model.generate(**inputs, max_new_tokens=MAX_NEW_TOKENS, do_sample=False)
        new = ids[0, inputs["input_ids"].shape[1] :]
        return new[:-1] if new[-1] == self.model.generation_config.eos_token_id else new

    @torch.no_grad()
    def choices(self, inputs, answer: torch.Tensor) -> torch.Tensor:
        """Greedy choice at each position of a given answer (T,)."""
        extended = dict(inputs)
        for key in ("input_ids", "attention_mask", "mm_token_type_ids"):
            if key in extended:
                fill = answer if key == "input_ids" else torch.full_like(answer, key == "attention_mask")
                extended[key] = torch.cat([extended[key], fill[None]], dim=1)
        return self.model(**extended).logits[0, -len(answer) - 1 : -1].argmax(-1)


def evaluate(folder: Path, rows: int) -> dict:
    """Numbers of the card, by measurement; every turn is asked after the reference answers of the turns before."""
    reader, bench = Reader(folder), Synthetic(seed=SEED, n=rows)
    scores, lengths, changed, sensitive = defaultdict(list), [], [], []
    samples = bench.samples(rows)
    for i, (row, (picture, _, dialog)) in enumerate(tqdm(zip(bench.rows(), samples, strict=True), total=rows)):
        image = row.open_images()[0]
        other = _other_image(picture, i)
        for k, turn in enumerate(dialog):
            messages = bench.messages(row, k, row.references[:k], 1)
            inputs = reader.inputs(messages, image)
            answer = reader.answer(inputs)
            lengths.append(len(answer))
            score = fact_score(turn.answer, reader.processor.decode(answer))
            for group in ("all", "later turns" if k else "first turns", turn.kind.rsplit("/", 1)[0]):
                scores[group].append(score)
            if k == 0:
                swapped = reader.inputs(messages, other)
                wrong = reader.answer(swapped)
                changed.append(float(wrong.tolist() != answer.tolist()))
                sensitive.append((reader.choices(swapped, answer) != answer).float().mean().item())
    return {
        "rows": rows,
        "answers": len(lengths),
        "scores": {g: (_mean(v), _mean([float(s == 1) for s in v]), len(v)) for g, v in scores.items()},
        "changed": _mean(changed),
        "sensitive": _mean(sensitive),
        "tokens": _mean([float(n) for n in lengths]),
        "parameters": sum(p.numel() for p in reader.model.parameters()),
        "bytes": (folder / "model.safetensors").stat().st_size,
        "class": type(reader.model).__name__,
    }


def _other_image(picture, i: int):
    """Another held-out picture of the same kind, so that all that changes is what it shows."""
    rng = np.random.default_rng([SEED, i, 1])
    while (other := draw_picture(rng, "scored", picture.kind)).facts() == picture.facts():
        pass
    return render(other, i)


def _mean(values: list[float]) -> float:
    return sum(values) / max(len(values), 1)
