"""Hypothesis strategies that make ties, repeats and placeholders common, and memories of known rows."""

from itertools import permutations

import numpy as np
from hypothesis import strategies as st

from recap.memory import Memory, tree_contexts
from recap.types import Limits, Request
from tests.reference import memory as reference
from tests.scripted import hashed, request_of, rows_of

VOCAB = 6  # small, so that keys and candidates collide
TOP_K = 3
SEPARATOR = reference.SEPARATOR

tokens = st.integers(0, VOCAB - 1)
placeholders = st.sets(tokens, max_size=2)
histories = st.lists(st.integers(-1, VOCAB - 1), min_size=1, max_size=5)

WORDS = 12  # ids of a scripted target
words = st.integers(0, WORDS - 1)
targets = st.builds(
    hashed,
    st.just(WORDS),
    window=st.integers(1, 3),
    levels=st.integers(2, 5),
    drift=st.sampled_from((0, 7)),
    seed=st.integers(0, 99),
)

FUSION = {
    "fusion": st.sampled_from(("mixture", "mixture", "backoff", "unigram")),
    "confidence": st.booleans(),
    "priors": st.sampled_from(("specificity", "uniform")),
    "prior_index": st.sampled_from(("rank", "order")),
}
SHAPE = {
    "budget": st.integers(0, 20),
    "depth": st.integers(1, 6),
    "width": st.integers(1, 8),
    "expansion": st.sampled_from(("best_first", "best_first", "fixed")),
    "depth_factor": st.sampled_from(("authors", "none")),
    "edge_guard": st.booleans(),
}
RECAP = {
    **FUSION,
    **SHAPE,
    "top_k": st.integers(1, 8),
    "suffix": st.integers(0, 5),
    "prefill": st.sampled_from(("unigram", "all", "none")),
    "m1": st.sampled_from(("stream", "request")),
    "learn": st.sampled_from(("evaluated", "committed")),
}
fusions, shapes, recaps = st.fixed_dictionaries(FUSION), st.fixed_dictionaries(SHAPE), st.fixed_dictionaries(RECAP)


WEIGHTS = ((1, 1, 1), (2, 1, 1), (2, 2, 1), (4, 2, 1), (1, 1, 0), (3, 1, 0), (1, 0, 0))  # few, so that sums tie
ROWS = [
    (list(ids), [np.float32(weight) / np.float32(sum(weights)) for weight in weights])
    for ids in permutations(range(VOCAB), TOP_K)
    for weights in WEIGHTS
]
rows = st.sampled_from(ROWS)


@st.composite
def trees(draw, most: int = 6, token=tokens) -> tuple[list[int], list[int]]:
    """Tokens and parents of any tree, equal siblings included."""
    drawn = draw(st.lists(token, max_size=most))
    return drawn, [draw(st.integers(-1, node - 1)) for node in range(len(drawn))]


@st.composite
def passes(draw) -> dict:
    """What one verification pass writes: a history, a draft under it, a row for each node, some of them chosen."""
    history = draw(histories)
    drawn, parents = draw(trees())
    written = draw(st.lists(rows, min_size=len(drawn) + 1, max_size=len(drawn) + 1))
    left_out = draw(st.sets(st.integers(0, len(drawn)), max_size=2))
    which = [r for r in range(len(written)) if r not in left_out]
    return {"history": history, "tokens": drawn, "parents": parents, "rows": written, "which": which}


def context_of(history: list[int]) -> np.ndarray:
    """The last three tokens as the compiled code takes them."""
    return np.array(([SEPARATOR] * 3 + list(history))[-3:], np.int64)


def blocked_of(blocked: set[int]) -> np.ndarray:
    """Placeholders as a mask over the vocabulary."""
    return np.isin(np.arange(VOCAB), list(blocked))


def write_both(memory: Memory, expected: reference.Memory, written: dict, blocked: set[int], orders: int = 3) -> None:
    """One pass into the compiled memory and into its reference."""
    drawn, parents = written["tokens"], written["parents"]
    mask = blocked_of(blocked)
    contexts = tree_contexts(
        context_of(written["history"]), np.array(drawn, np.int64), np.array(parents, np.int32), mask
    )
    ids, probs = zip(*written["rows"], strict=True)
    memory.write(contexts, np.array(written["which"], np.int64), rows_of(ids, probs), mask, orders)

    paths = [list(written["history"])]
    for token, parent in zip(drawn, parents, strict=True):
        paths.append([*paths[parent + 1], SEPARATOR if token in blocked else token])
    expected.write([(paths[r], *written["rows"][r]) for r in written["which"]], blocked, range(1, orders + 1))


@st.composite
def memories(draw, most: int = 4) -> tuple[Memory, reference.Memory, list[list[int]]]:
    """A compiled memory, its reference after the same passes, and histories worth asking about.

    Every token has a one-token row, so that trees grow past their budgets.
    """
    memory, expected = Memory(TOP_K, rows=2), reference.Memory()
    blocked = draw(placeholders)
    everything = {"history": [SEPARATOR], "tokens": list(range(VOCAB)), "parents": [-1] * VOCAB}
    everything["rows"] = draw(st.lists(rows, min_size=VOCAB + 1, max_size=VOCAB + 1))
    everything["which"] = list(range(1, VOCAB + 1))
    write_both(memory, expected, everything, blocked, orders=1)
    asked = [draw(histories)]
    for written in draw(st.lists(passes(), max_size=most)):
        write_both(memory, expected, written, blocked)
        asked.append(written["history"])
        asked += [[*written["history"], token] for token in written["tokens"][:1]]
    return memory, expected, asked


@st.composite
def streams(draw) -> list[tuple[Request, Limits]]:
    """A few requests over one vocabulary, some of whose ids are placeholders, with stop ids and caps."""
    blocked = sorted(draw(st.sets(words, max_size=3)))
    stop_ids = tuple(draw(st.sets(words, max_size=2)))
    stream = []
    for _ in range(draw(st.integers(1, 3))):
        prompt = draw(st.lists(words, min_size=1, max_size=12))
        request = request_of(prompt, WORDS, blocked, image=draw(st.integers(0, 1)))
        stream.append((request, Limits(draw(st.integers(1, 24)), stop_ids)))
    return stream


def successors(known: dict[int, tuple[list[int], list[float]]], top_k: int = 2) -> Memory:
    """A memory of one-token rows: token -> (ids, probs)."""
    memory = Memory(top_k)
    contexts = np.array([context_of([token]) for token in known])
    ids, probs = zip(*known.values(), strict=True)
    memory.write(contexts, np.arange(len(known)), rows_of(ids, probs), np.zeros(4096, bool), 1)
    return memory
