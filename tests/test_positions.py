"""What a step feeds the model, against a recomputation of it all: ids, positions, images, stored logits."""

import json
from pathlib import Path

import pytest
import torch

import recap
from baselines.autoregressive import Autoregressive
from recap.decode import generate
from recap.drafter import Recap
from recap.types import Limits
from runners.benches.base import Bench, Row
from runners.benches.synthetic import Synthetic
from runners.models import Model
from runners.pair import AR, Pairing
from tests.models import (
    PLACEHOLDER,
    SETTINGS,
    VISION_FAMILIES,
    Watch,
    inputs_of,
    model_of,
)

ROOT = Path(__file__).parent.parent
GOLDEN = Path(__file__).parent / "golden_logits.json"
NEW = 24


def watched(family: str, images: int, drafter, new: int = NEW):
    """(request, output, what the model saw) of one decoding."""
    model = model_of(family)
    target = recap.target_for(model)
    limits = Limits(new)
    request = target.request(inputs_of(family, images, 1), limits)
    with Watch(model) as watch:
        output = generate(target, drafter, request, limits)
    return request, output, watch


# Ids


@pytest.mark.parametrize("family,images", SETTINGS)
def test_the_ids_that_are_looked_up_are_the_very_ids_that_the_model_was_fed(family, images):
    class Reader(Recap):
        """Notes the history that lookups see."""

        def begin(self, request, limits, rows):
            self.history = [*request.prompt.tolist(), int(rows.ids[-1, 0])]
            super().begin(request, limits, rows)

        def observe(self, rows, step):
            self.history += step.committed.tolist()
            super().observe(rows, step)

    drafter = Reader()
    _, output, watch = watched(family, images, drafter)
    fed = list(watch.ids[0])
    assert fed.count(PLACEHOLDER) == inputs_of(family, images, 1)["input_ids"][0].tolist().count(PLACEHOLDER)
    for ids, step in zip(watch.ids[1:], output.steps, strict=True):
        assert ids[1:] == step.draft.tokens.tolist()
        fed += [ids[0], *(ids[node + 1] for node in step.path)]
    assert drafter.history[: len(fed)] == fed
    assert len(drafter.history) - len(fed) <= 1, "the last token is emitted and not fed"


@pytest.mark.parametrize("family,images", SETTINGS)
@pytest.mark.parametrize("method", (Autoregressive, Recap))
def test_ar_and_a_method_take_the_whole_prompt_in_one_pass(family, images, method):
    request, output, watch = watched(family, images, method(), new=4)
    assert watch.ids[0] == request.prompt.tolist()
    assert len(watch.ids) == 1 + len(output.steps), "no other pass"


# Positions


def recomputed(model, inputs: dict, tokens: list[int]) -> torch.Tensor:
    """Rotary positions [3, n] of prompt and tokens, from the ids and the image grids alone."""
    ids = torch.cat([inputs["input_ids"], torch.tensor([tokens], dtype=torch.long)], dim=1)
    kinds = (ids == PLACEHOLDER).int()
    positions, _ = model.model.get_rope_index(ids, mm_token_type_ids=kinds, image_grid_thw=inputs["image_grid_thw"])
    return positions[:, 0]


@pytest.mark.parametrize("images", (1, 2))
def test_the_positions_of_every_step_equal_a_full_recompute(images):
    model, inputs = model_of("qwen2_5_vl"), inputs_of("qwen2_5_vl", images, 1)
    _, output, watch = watched("qwen2_5_vl", images, Recap())
    emitted = [int(output.tokens[0])]
    assert any(len(step.draft) for step in output.steps)
    for positions, step in zip(watch.positions[1:], output.steps, strict=True):
        tokens, parents = step.draft.tokens.tolist(), step.draft.parents.tolist()
        for node in range(-1, len(tokens)):
            path, above = [], node
            while above >= 0:
                path.insert(0, tokens[above])
                above = parents[above]
            expected = recomputed(model, inputs, [*emitted, *path])[:, -1]
            assert positions[:, 0, node + 1].tolist() == expected.tolist()
        emitted += step.committed.tolist()


# Images


class Pictures(Bench):
    """Rows without a picture, with one, and with two, by turns."""

    name = "pictures"

    def rows(self, limit=None):
        pictures = [row.open_images()[0] for row in Synthetic().rows(4)]
        for index, count in enumerate((0, 1, 2, 0, 2, 1)):
            images = pictures[index % 2 : index % 2 + count]
            yield Row(f"row-{index}", "any", ("What is there?",), (None,), lambda images=images: images)

    def __len__(self) -> int:
        return 6

    def score(self, row, turn, answer):
        return None


@pytest.fixture(scope="module", params=["tiny_qwen", "tiny_llava"])
def pairing(request) -> Pairing:
    model = Model(str(ROOT / "assets" / request.param))
    limits = Limits(12, model.stop_ids)
    contract = model.contract(limits, "last")
    return Pairing(model, Pictures(), {AR: Autoregressive(), "recap": Recap()}, limits, contract)


def test_inputs_with_no_one_and_two_images_share_a_stream(pairing):
    records = [turn.records["recap"] for i, row in enumerate(Pictures().rows()) for turn in pairing.row(i, row, False)]
    assert [record.verdict.kind for record in records] == ["equal"] * 6
    tokens = [record.visual_tokens for record in records]
    assert [count > 0 for count in tokens] == [False, True, True, False, True, True]
    assert tokens[2] > tokens[1] and tokens[4] > tokens[5]
    assert [bool(record.images) for record in records] == [count > 0 for count in tokens]


@pytest.mark.parametrize("family", VISION_FAMILIES)
def test_without_an_image_no_pixels_are_needed(family):
    target = recap.target_for(model_of(family))
    assert not any("pixel" in name for name in target.request(inputs_of(family, 0), Limits(4)).inputs)
    assert any("pixel" in name for name in target.request(inputs_of(family, 1), Limits(4)).inputs)


# Stored logits


def golden(name: str) -> dict:
    """The eight highest logits of a bundled model at the end of a prompt with a picture and at seven positions more."""
    model = Model(str(ROOT / "assets" / name))
    row = next(Synthetic(seed=2).rows())
    limits = Limits(8, ())
    request = model.request(model.inputs(Synthetic().messages(row, 0, [], 1), row.open_images()), limits)
    with Watch(model.model) as watch:
        output = generate(model.target, Autoregressive(), request, limits)
    rows = torch.stack([logits[-1] for logits in watch.logits]).topk(8)
    return {"tokens": output.tokens.tolist(), "ids": rows.indices.tolist(), "logits": rows.values.tolist()}


@pytest.mark.parametrize("name", ["tiny_qwen", "tiny_llava"])
def test_the_logits_of_one_picture_are_the_stored_ones(name):
    stored, now = json.loads(GOLDEN.read_text())[name], golden(name)
    assert now["tokens"] == stored["tokens"]
    assert [ids[0] for ids in now["ids"]] == stored["tokens"]
    assert torch.tensor(now["logits"]).sub(torch.tensor(stored["logits"])).abs().max() < 2e-3


@pytest.mark.parametrize("name", ["tiny_qwen", "tiny_llava"])
def test_the_stored_logits_are_those_of_transformers_own_forward(name):
    stored = json.loads(GOLDEN.read_text())[name]
    model = Model(str(ROOT / "assets" / name))
    row = next(Synthetic(seed=2).rows())
    inputs = model.inputs(Synthetic().messages(row, 0, [], 1), row.open_images())
    ids = torch.cat([inputs["input_ids"], torch.tensor([stored["tokens"][:-1]])], dim=1)
    extended = inputs | {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if "mm_token_type_ids" in inputs:
        kinds = inputs["mm_token_type_ids"]
        extended["mm_token_type_ids"] = torch.cat([kinds, kinds.new_zeros(1, len(stored["tokens"]) - 1)], dim=1)
    with torch.no_grad():
        logits = model.model(**extended, use_cache=False).logits[0, -len(stored["tokens"]) :]
    found = logits.gather(1, torch.tensor(stored["ids"]))
    assert (found - torch.tensor(stored["logits"])).abs().max() < 2e-3


if __name__ == "__main__":  # python -m tests.test_positions: store them anew, after a look at why they changed
    GOLDEN.write_text(json.dumps({name: golden(name) for name in ("tiny_qwen", "tiny_llava")}, indent=1) + "\n")
