"""Whatever is drafted, the output is that of plain greedy decoding, and the cache that of a fresh prefill.

In float64, so that rounding can neither hide a fault nor fake one. RECAP_SOAK=1 runs ten times the cases.
"""

import functools

import numpy as np
import pytest
import torch

import recap
from baselines.autoregressive import Autoregressive
from baselines.lookahead import Lookahead
from baselines.prompt_lookup import PromptLookup
from baselines.racer import Racer
from baselines.sam_decoding import SamDecoding
from baselines.suffix_decoding import SuffixDecoding
from baselines.token_recycling import TokenRecycling
from recap.decode import generate
from recap.drafter import Drafter, Recap
from recap.types import Draft, Limits
from tests.models import (
    FAMILIES,
    PLACEHOLDER,
    SETTINGS,
    SOAK,
    VOCAB,
    Watch,
    fresh_model,
    full_logits,
    inputs_of,
    model_of,
    plain_greedy,
    position_delta,
)

CASES = 480 if SOAK else 48
PROMPTS = 12 if SOAK else 2
NEW, BEYOND = 24, 12  # tokens of a request; tokens known past its end, so that a draft may cross it
CLOSE = 1e-9


@functools.lru_cache(maxsize=512)
def truth_of(family: str, images: int, seed: int) -> tuple[int, ...]:
    """What plain decoding emits."""
    return tuple(plain_greedy(model_of(family), inputs_of(family, images, seed), NEW + BEYOND))


def cut(tokens, limits: Limits) -> list[int]:
    """`tokens` up to the first stop id, which is kept, and to the cap."""
    tokens = list(tokens[: limits.max_new_tokens])
    ends = [tokens.index(stop) for stop in limits.stop_ids if stop in tokens]
    return tokens[: min(ends) + 1] if ends else tokens


# Scripts: (rng, the tokens that plain decoding emits next) -> tokens and parents of a draft.


def nothing(rng, coming):
    return [], []


def random_ids(rng, coming):
    """A random tree of any ids, placeholders and equal siblings among them."""
    size = int(rng.integers(1, 40))
    return rng.integers(0, VOCAB, size).tolist(), [int(rng.integers(-1, i)) for i in range(size)]


def all_right(rng, coming):
    """A full-depth chain."""
    return list(coming[:10]), list(range(-1, len(coming[:10]) - 1))


def all_wrong(rng, coming):
    """Every child of the root is wrong; below them stand right tokens, under parents that are not."""
    wrong = [(coming[0] + shift) % VOCAB for shift in (1, 2, 3)]
    return wrong + list(coming[:3]) + list(coming[1:4]), [-1, -1, -1, 0, 3, 4, 1, 6, 7]


def scattered(rng, coming, depth=None):
    """The right path in a tree of wrong siblings and descendants, its nodes far apart in packed order."""
    depth = depth or int(rng.integers(1, 11))
    tokens, parents, path = [], [], [-1]
    for level in range(min(depth, len(coming))):
        for _ in range(int(rng.integers(0, 4))):
            parents.append(int(rng.integers(-1, len(tokens))))
            right = coming[path.index(parents[-1])] if parents[-1] in path[: level + 1] else -1
            tokens.append(int((right + rng.integers(1, VOCAB)) % VOCAB))
        parents.append(path[-1])
        tokens.append(coming[level])
        path.append(len(tokens) - 1)
    return tokens, parents


def equal_siblings(rng, coming):
    """The right path twice; the second copy, whose nodes lie between the first one's, goes deeper."""
    first, second = int(rng.integers(1, 4)), int(rng.integers(4, 8))
    tokens, parents, ends = [], [], [-1, -1]
    for level in range(second):
        for copy, depth in enumerate((first, second)):
            if level < depth:
                tokens.append(coming[level])
                parents.append(ends[copy])
                ends[copy] = len(tokens) - 1
    return tokens, parents


SCRIPTS = (nothing, random_ids, all_right, all_wrong, scattered, equal_siblings)


def any_of_them(rng, coming):
    """Another script every step."""
    return SCRIPTS[rng.integers(len(SCRIPTS))](rng, coming)


class Scripted(Drafter):
    """Drafts what a script makes of the tokens that plain decoding will emit."""

    def __init__(self, script, truth, rng, top_k: int = 4) -> None:
        self.script, self.truth, self.rng, self.top_k = script, truth, rng, top_k
        self.emitted = 1

    def propose(self, room: int) -> Draft:
        tokens, parents = self.script(self.rng, self.truth[self.emitted :])
        return Draft(np.array(tokens, np.int64), np.array(parents, np.int32), np.zeros(len(tokens), np.int8))

    def observe(self, rows, step) -> None:
        self.emitted += len(step.committed)


def decode_checked(family: str, images: int, seed: int, drafter, limits: Limits):
    """Decode, holding every step against plain decoding; returns the steps."""
    model, inputs, truth = model_of(family), inputs_of(family, images, seed), truth_of(family, images, seed)
    prompt = inputs["input_ids"].shape[1]
    target = recap.target_for(model)
    kept = []

    def clock(phase: str) -> None:
        if phase == "commit":
            kept.append(target.cache.length)

    with Watch(model) as watch:
        output = generate(target, drafter, target.request(inputs, limits), limits, clock)
    plain = full_logits(model, inputs, list(truth))
    delta = position_delta(family, images)
    emitted = 1
    for number, step in enumerate(output.steps):
        slot = prompt + emitted - 1  # the root's
        depths = [0]
        for parent in step.draft.parents:
            depths.append(depths[parent + 1] + 1)
        positions = watch.positions[number + 1]
        assert (positions == slot + delta + torch.tensor(depths)).all(), f"rotary positions of step {number}"
        path = [0, *(step.path + 1)]
        gap = (watch.logits[number + 1][path] - plain[slot : slot + len(path)]).abs().max()
        assert gap < CLOSE, f"logits of step {number}, after {emitted} tokens, differ by {gap:.1e}"
        emitted += len(step.committed)
        assert tuple(output.tokens[:emitted]) == truth[:emitted], f"tokens of step {number}"
        if emitted < len(output.tokens):
            assert kept[number] == prompt + emitted - 1, f"slots kept after step {number}"
    assert output.tokens.tolist() == cut(truth, limits)
    return output.steps


@pytest.mark.parametrize("case", range(CASES))
def test_any_draft_leaves_the_output_that_of_plain_decoding(case):
    rng = np.random.default_rng(case)
    family, images = SETTINGS[case % len(SETTINGS)]
    seed = case // len(SETTINGS) % PROMPTS
    truth = truth_of(family, images, seed)
    stops = tuple(int(stop) for stop in rng.choice(truth[2:], 2)) if rng.random() < 0.3 else ()
    limits = Limits(int(rng.integers(1, NEW + 1)), stops)
    script = (random_ids, all_right, scattered, equal_siblings, any_of_them, any_of_them)[rng.integers(6)]
    decode_checked(family, images, seed, Scripted(script, truth, rng), limits)


@pytest.mark.parametrize("family,images", SETTINGS)
def test_right_drafts_are_accepted_in_full(family, images):
    truth = truth_of(family, images, 0)
    drafter = Scripted(all_right, truth, np.random.default_rng(0))
    steps = decode_checked(family, images, 0, drafter, Limits(NEW))
    assert [len(step.committed) for step in steps] == [11, 11, 1]


@pytest.mark.parametrize("family,images", SETTINGS)
def test_a_right_path_of_scattered_nodes_is_accepted_in_full(family, images):
    truth = truth_of(family, images, 0)
    script = functools.partial(scattered, depth=7)
    steps = decode_checked(family, images, 0, Scripted(script, truth, np.random.default_rng(1)), Limits(17))
    assert [len(step.path) for step in steps] == [7, 7]
    assert any((step.path != np.arange(7)).any() for step in steps)


@pytest.mark.parametrize("family,images", SETTINGS)
def test_wrong_drafts_are_rejected_at_every_step(family, images):
    drafter = Scripted(all_wrong, truth_of(family, images, 0), np.random.default_rng(0))
    steps = decode_checked(family, images, 0, drafter, Limits(12))
    assert [len(step.committed) for step in steps] == [1] * 11


@pytest.mark.parametrize("family,images", SETTINGS)
def test_the_deeper_of_two_equal_siblings_is_accepted(family, images):
    drafter = Scripted(equal_siblings, truth_of(family, images, 0), np.random.default_rng(2))
    steps = decode_checked(family, images, 0, drafter, Limits(NEW))
    assert all(len(step.path) >= 4 for step in steps[:-1])


@pytest.mark.parametrize("family,images", SETTINGS)
def test_after_none_one_and_all_accepted_the_next_logits_are_those_of_a_fresh_prefill(family, images):
    model, inputs, truth = model_of(family), inputs_of(family, images, 1), list(truth_of(family, images, 1))
    prompt = inputs["input_ids"].shape[1]
    target = recap.target_for(model)
    request = target.request(inputs, Limits(NEW))
    target.prefill(request, np.empty(0, np.int64), 1, lambda phase: None)
    emitted = 1
    accepted = []
    for right in (0, 1, 6, 0, 6, 1):
        tokens = truth[emitted : emitted + right] + [(truth[emitted + right] + 1) % VOCAB] * (right < 6)
        draft = Draft(np.array(tokens), np.arange(-1, len(tokens) - 1, dtype=np.int32), np.zeros(len(tokens), np.int8))
        rows = target.verify(truth[emitted - 1], draft, 1)
        step = recap.verify.accept(draft, rows, np.empty(0, np.int64), NEW)
        target.keep(step.path)
        accepted.append(len(step.path))
        emitted += right + 1
        with Watch(model) as watch:
            target.verify(truth[emitted - 1], Scripted(nothing, truth, None).propose(1), 1)
        fresh = full_logits(model, inputs, truth[:emitted])[-1]
        assert (watch.logits[0][0] - fresh).abs().max() < CLOSE
        assert target.cache.length == prompt + emitted - 1
        assert (watch.positions[0] == prompt + emitted - 1 + position_delta(family, images)).all()
    assert accepted == [0, 1, 6, 0, 6, 1]


METHODS = {
    "autoregressive": Autoregressive,
    "token_recycling": TokenRecycling,
    "token_recycling_seeded": functools.partial(TokenRecycling, prefill="unigram"),
    "token_recycling_first": functools.partial(TokenRecycling, duplicates="first"),
    "prompt_lookup": PromptLookup,
    "sam_decoding": SamDecoding,
    "suffix_decoding": functools.partial(SuffixDecoding, mode="tree"),
    "lookahead": functools.partial(Lookahead, window=4, ngram=4, pool_from_prompt=True),
    "lookahead_all": functools.partial(Lookahead, window=4, ngram=4, accept="all"),
    "racer": functools.partial(Racer, ngram=4),
    "recap": Recap,
    "recap_all_rows": functools.partial(Recap, prefill="all", priors="uniform", confidence=False),
    "recap_forgetful": functools.partial(Recap, prefill="none", m1="request", learn="committed", suffix=0),
    "recap_backoff": functools.partial(Recap, fusion="backoff", depth_factor="none", edge_guard=False),
    "recap_fixed": functools.partial(Recap, fusion="unigram", expansion="fixed"),
    "recap_fast": functools.partial(Recap, budget="auto", scores="learned", suffix=63, explore=0.01, ngrams="stream"),
    "recap_by_order": functools.partial(Recap, prior_index="order", top_k=3, budget=9, depth=4, width=2, suffix=8),
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_equals_plain_decoding_over_a_stream(family, method):
    drafter = METHODS[method]()  # one instance, so that later requests meet what earlier ones left
    for seed in range(PROMPTS):
        for images in (images for name, images in SETTINGS if name == family):
            decode_checked(family, images, seed, drafter, Limits(NEW))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_repeated_request_is_drafted_from_memory(family):
    drafter = Recap()
    first, second = (len(decode_checked(family, 0, 0, drafter, Limits(NEW))) for _ in range(2))
    assert second < first


@pytest.mark.parametrize("family", ("qwen2_5_vl", "llava_next"))
@pytest.mark.parametrize("method", METHODS)
def test_a_placeholder_that_the_model_emits_is_decoded_like_any_token(family, method):
    model = fresh_model(family)
    inputs = inputs_of(family, 1, 0, torch.float32)
    emitted = plain_greedy(model, inputs, NEW)[2]
    with torch.no_grad():
        model.lm_head.weight[[emitted, PLACEHOLDER]] = model.lm_head.weight[[PLACEHOLDER, emitted]]
    plain = plain_greedy(model, inputs, NEW)
    new = recap.generate(model, inputs, NEW, METHODS[method]())[0, inputs["input_ids"].shape[1] :].tolist()
    assert PLACEHOLDER in plain
    assert new == plain
