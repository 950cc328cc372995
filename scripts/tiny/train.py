"""The training loop: step-based schedules, resumable checkpoints, loss and fact accuracy in the progress bar."""

import json
import math
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from tqdm import tqdm

from runners.benches.generated.glyphs import GLYPHS
from runners.benches.generated.pictures import KINDS

from .card import TRAINING
from .data import COLOUR_CLASSES, Batch, Batches
from .models import VisionTap, build_model, build_processor, speed_up
from .optim import optimisers
from .tokens import fact_ids, train_tokenizer

MATRIX_LR, OTHER_LR, WARMUP = 0.006, 3e-3, 40  # learning rates of Muon and AdamW; steps
FACT_WEIGHT, AUX_WEIGHT = 2.0, 0.5  # of fact tokens against phrasing; of the auxiliary loss
AUX_END = 0.65  # progress at which the auxiliary loss has faded out
SAVE_EVERY = 100  # steps


def dense_share(t: float) -> float:
    """Share of dense micro-batches at progress t in [0, 1]: reading first, then sentences, without a hard switch."""
    return 0.9 if t < 0.12 else max(0.05, 0.9 - (t - 0.12) / 0.28 * 0.85)


def learning_rate(step: int, steps: int) -> float:
    """Factor on the learning rates: linear warm-up, then cosine to 2 %."""
    return min(1.0, (step + 1) / WARMUP) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / steps)))


def aux_weight(t: float) -> float:
    return AUX_WEIGHT * min(1.0, max(0.0, (AUX_END - t) / 0.15))


class Trainer:
    def __init__(self, name: str, seed: int, steps: int, scratch: Path) -> None:
        torch.manual_seed(seed)
        torch.set_flush_denormal(True)
        self.name, self.seed, self.steps, self.file = name, seed, steps, scratch / f"{name}-{seed}-{steps}.pt"
        tokenizer = train_tokenizer(name)
        self.processor = build_processor(name, tokenizer)
        self.model = build_model(name, tokenizer)
        self.tap = VisionTap(name, self.model)
        self.heads = nn.Linear(self.model.config.text_config.hidden_size, len(GLYPHS) + len(COLOUR_CLASSES))
        speed_up(name, self.model)
        self.optimisers = optimisers(self.model, self.heads, MATRIX_LR, OTHER_LR)
        self.rates = [o.param_groups[0]["lr"] for o in self.optimisers]
        self.batches = Batches(name, self.processor, seed)
        self.facts = torch.zeros(len(tokenizer), dtype=torch.bool)
        self.facts[fact_ids(tokenizer)] = True
        self.meters: dict[str, float] = {}
        self.step, self.seconds, self.pictures = 0, 0.0, 0
        if self.file.exists():
            self._load()

    def train(self) -> None:
        self.model.train()
        bar = tqdm(total=self.steps, initial=self.step, desc=self.name, mininterval=5, dynamic_ncols=False, ncols=110)
        while self.step < self.steps:
            start = time.perf_counter()
            self._step()
            self.step += 1
            self.seconds += time.perf_counter() - start
            bar.set_postfix({k: f"{v:.2f}" for k, v in self.meters.items() if "/" not in k}, refresh=False)
            bar.update()
            if self.step % SAVE_EVERY == 0 or self.step == self.steps:
                self._save()
                line = {"step": self.step, "seconds": round(self.seconds)} | _rounded(self.meters)
                tqdm.write(json.dumps(line), file=sys.stderr)
        bar.close()

    def _step(self) -> None:
        t = self.step / self.steps
        for optimiser, rate in zip(self.optimisers, self.rates, strict=True):
            optimiser.param_groups[0]["lr"] = rate * learning_rate(self.step, self.steps)
        for kind in KINDS:
            batch = self.batches(self.step, kind, dense_share(t))
            (self._loss(batch, kind, aux_weight(t)) / len(KINDS)).backward()
            self.pictures += len(batch.answers)
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimiser in self.optimisers:
            optimiser.step()
            optimiser.zero_grad()

    def _loss(self, batch: Batch, kind: str, weight: float) -> torch.Tensor:
        hidden = self.model.model(**batch.inputs, use_cache=False).last_hidden_state
        said = batch.answers[:, 1:]
        logits, target = self.model.lm_head(hidden[:, :-1][said]), batch.inputs["input_ids"][:, 1:][said]
        fact = self.facts[target]
        loss = cross_entropy(logits, target, reduction="none")
        right = (logits.argmax(-1) == target)[fact].float().mean()
        self._meter("loss", loss.mean())
        self._meter("facts", right)
        self._meter(f"{kind}/{'dense' if batch.dense else 'said'}", right)
        loss = (loss * (1 + (FACT_WEIGHT - 1) * fact)).sum() / (1 + (FACT_WEIGHT - 1) * fact).sum()
        if weight:
            glyphs, colours = self.heads(self.tap.features).split([len(GLYPHS), len(COLOUR_CLASSES)], -1)
            aux = cross_entropy(glyphs, batch.glyphs, ignore_index=-1)
            aux = aux + cross_entropy(colours, batch.colours, ignore_index=-1)
            self._meter("aux", aux)
            loss = loss + weight * aux
        return loss

    def _meter(self, name: str, value: torch.Tensor) -> None:
        self.meters[name] = 0.9 * self.meters.get(name, value.item()) + 0.1 * value.item()

    def _save(self) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        state = {k: getattr(self, k) for k in ("step", "seconds", "pictures", "meters")}
        state |= {"model": self.model.state_dict(), "heads": self.heads.state_dict()}
        state["optimisers"] = [o.state_dict() for o in self.optimisers]
        part = self.file.with_suffix(".part")
        torch.save(state, part)
        part.replace(self.file)  # a kill in the middle of writing leaves the last checkpoint whole

    def _load(self) -> None:
        state = torch.load(self.file, weights_only=True)
        self.model.load_state_dict(state["model"])
        self.heads.load_state_dict(state["heads"])
        for optimiser, saved in zip(self.optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(saved)
        for key in ("step", "seconds", "pictures", "meters"):
            setattr(self, key, state[key])

    def export(self, out: Path) -> None:
        """Write the fp16 weights, the tokeniser, the processor and the generation config."""
        self.model.to(torch.float16).save_pretrained(out)
        self.processor.save_pretrained(out)
        facts = {k: getattr(self, k) for k in ("seed", "steps", "seconds", "pictures")}
        facts |= dict(matrix_lr=MATRIX_LR, other_lr=OTHER_LR, fact_weight=FACT_WEIGHT, aux_end=AUX_END)
        (out / TRAINING).write_text(json.dumps(facts, indent=1) + "\n")


def _rounded(values: dict[str, float]) -> dict[str, float]:
    return {k: round(v, 3) for k, v in values.items()}
