"""The logits of an image prompt are those that were written down: text may stay equal while they drift.

After an intended change of a bundled model, `python -m tests.test_golden_logits` writes them down anew.
"""

import functools
import json
from pathlib import Path

import numpy as np
import pytest

from baselines.autoregressive import Autoregressive
from recap import Limits
from recap.decode import generate
from runners.benches.synthetic import Synthetic
from runners.models import Model
from runners.passes import Evidence, again

GOLDEN = Path(__file__).parent / "golden_logits.json"
NAMES = ("tiny_qwen", "tiny_llava")
TOKENS, TOP = 3, 8
TOLERANCE = 1e-3  # another machine's rounding, and its decoder of pictures


@functools.lru_cache
def first_tokens(name: str) -> Evidence:
    """The first tokens of the first generated question about a picture, with the logits behind them."""
    model, bench, limits = Model(f"assets/{name}"), Synthetic(n=1), Limits(TOKENS)
    row = next(iter(bench.rows()))
    images = row.open_images()
    request = model.request(model.inputs(bench.messages(row, 0, [], len(images)), images), limits)
    assert (request.masked() < 0).any()
    ar = Autoregressive()
    return again(model.target, ar, generate(model.target, ar, request, limits), request, limits)


def written(name: str) -> dict:
    """ids and logits [tokens, 8], best first."""
    best = first_tokens(name).logits.topk(TOP)
    return {"ids": best.indices.tolist(), "logits": [[round(x, 4) for x in row] for row in best.values.tolist()]}


@pytest.mark.parametrize("name", NAMES)
def test_the_logits_of_an_image_prompt_are_those_written_down(name):
    golden = json.loads(GOLDEN.read_text())[name]
    logits = first_tokens(name).logits.numpy()
    found = np.take_along_axis(logits, np.array(golden["ids"]), axis=1)
    assert np.abs(found - golden["logits"]).max() < TOLERANCE
    assert first_tokens(name).tokens.tolist() == [row[0] for row in golden["ids"]]


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps({name: written(name) for name in NAMES}) + "\n")
