"""The README.md of a bundled model; every number in it is measured."""

import json
import platform
from importlib.metadata import version
from pathlib import Path

TRAINING = "training.json"  # what Trainer.export leaves beside the weights

_CARD = """\
---
license: apache-2.0
library_name: transformers
pipeline_tag: image-text-to-text
---
# tiny_{name}

A `{class}` of {millions:.2f} million parameters ({megabytes:.1f} MB in fp16), trained from scratch by this
project on pictures that the project generates itself (charts, signs, grids; `runners/benches/synthetic.py`). It reads
such pictures and answers in sentences; it knows nothing else. It is there so that decoders can be tried and tested on
a CPU, with a model whose answers really depend on the image. Use it in fp32 (`dtype=torch.float32`).

## Held-out results

Pictures of the `scored` part, which training never draws (a sign's number alone decides its part), greedy decoding in
fp32, {rows} rows with {answers} answers, later turns asked after reference answers. Measured by

    python scripts/train_tiny.py {name} --evaluate --rows {rows}

| measure | value |
|---|---|
| fact score (share of image facts stated right and in order) | {score:.3f} |
| answers with all facts right | {exact:.3f} |
| answers that change when the image is swapped and the question stays | {changed:.3f} |
| answer tokens whose greedy choice changes under a swapped image (teacher-forced) | {sensitive:.3f} |
| mean answer length, tokens | {tokens:.1f} |

| questions | fact score | all facts right | answers |
|---|---|---|---|
{table}

What it reads is nearly always right. Its weak side is to choose among what it has listed (`look_up`, `top`, `count`)
and to copy a number that differs from the picture's in one digit (`check`).

## Training

    python scripts/train_tiny.py {name} --seed {seed} --steps {steps}

{steps} steps, {pictures:,} dialogs about as many pictures, {minutes:.0f} minutes of wall clock on one CPU thread
(one of two cores, and the machine was busy with other work as well).
Muon (lr {matrix_lr}) for matrices and AdamW (lr {other_lr}) for the rest, cosine by step. First mostly bare lists of
facts, then a gradual change to dialogs of one to three turns; auxiliary heads on the visual tokens name the glyph and
colour under each until {aux_end:.0%} of the steps, and are not kept. Loss on answers only, fact tokens weighted
{fact_weight:g} times. Seed {seed}. Runs of six steps with one thread, run again or resumed in the middle,
gave bit-identical weights.

Versions: {versions}.

## Licence

Apache-2.0. The weights were trained by this project on generated data alone; no outside model, data set or font is
in them.
"""


def write_card(folder: Path, name: str, result: dict) -> None:
    training = json.loads((folder / TRAINING).read_text())
    groups = result["scores"]
    lines = [f"| {g} | {groups[g][0]:.3f} | {groups[g][1]:.3f} | {groups[g][2]} |" for g in sorted(groups)]
    versions = [f"{p} {version(p)}" for p in ("torch", "transformers", "tokenizers", "numpy", "pillow")]
    card = _CARD.format(
        name=name, millions=result["parameters"] / 1e6, megabytes=result["bytes"] / 1e6, table="\n".join(lines),
        score=groups["all"][0], exact=groups["all"][1], minutes=training["seconds"] / 60,
        versions=", ".join([f"Python {platform.python_version()}", *versions]), **training,
        **{k: v for k, v in result.items() if k not in ("scores", "parameters", "bytes")},
    )  # fmt: skip
    (folder / "README.md").write_text(card)
