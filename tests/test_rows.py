"""Top-K rows: compiled and device code against Python's sort by (-logit, id)."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recap.targets.rows import top_rows, top_rows_on_device

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
FEW_VALUES = (0.0, -0.0, 1.0, 1.5, -2.0, 1e-6, 300.0, -math.inf)  # few, so that most rows hold ties


def naive_rows(logits: torch.Tensor, top_k: int):
    """Ids and probabilities of each row, by sorting all of it."""
    ids, probs = [], []
    for row in logits.double().tolist():
        order = sorted(range(len(row)), key=lambda token: (-row[token], token))[:top_k]
        weights = [math.exp(row[token] - row[order[0]]) for token in order]
        ids.append(order)
        probs.append([weight / sum(weights) for weight in weights])
    return np.array(ids), np.array(probs)


def device_rows(logits: torch.Tensor, top_k: int):
    """What `top_rows` does off the CPU, on CPU tensors."""
    return top_rows_on_device(logits.float() if logits.dtype in DTYPES[:2] else logits, top_k)


@st.composite
def tied_logits(draw):
    vocab = draw(st.integers(8, 40))
    values = draw(st.lists(st.sampled_from(FEW_VALUES), min_size=2 * vocab, max_size=2 * vocab))
    logits = torch.tensor(values, dtype=draw(st.sampled_from(DTYPES))).reshape(2, vocab)
    logits[:, draw(st.integers(0, vocab - 1))] = 0.0  # at least one finite logit a row
    return logits, draw(st.integers(1, 8))


def check_all_equal(logits: torch.Tensor, top_k: int) -> None:
    ids, probs = naive_rows(logits, top_k)
    rows = top_rows(logits, top_k)
    assert rows.ids.tolist() == ids.tolist()
    np.testing.assert_allclose(rows.probs, probs, rtol=1e-5, atol=1e-7)
    device_ids, device_probs = device_rows(logits, top_k)
    assert device_ids.tolist() == ids.tolist()
    np.testing.assert_allclose(device_probs, probs, rtol=1e-5, atol=1e-7)


@settings(deadline=None)
@given(case=tied_logits())
def test_rows_full_of_ties_are_those_of_the_naive_sort(case):
    check_all_equal(*case)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("top_k", (1, 8))
def test_random_rows_are_those_of_the_naive_sort(dtype, top_k):
    generator = torch.Generator().manual_seed(top_k)
    check_all_equal((10 * torch.randn(5, 700, generator=generator, dtype=torch.float64)).to(dtype), top_k)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows_of", (lambda *args: top_rows(*args).ids, lambda *args: device_rows(*args)[0]))
def test_equal_logits_go_by_lower_id(rows_of, dtype):
    logits = torch.tensor([[-0.0, 2.0, 0.0, 2.0, -0.0, 2.0, -1.0, 0.0]], dtype=dtype)
    assert rows_of(logits, 7).tolist() == [[1, 3, 5, 0, 2, 4, 7]]


@pytest.mark.parametrize("dtype", DTYPES)
def test_column_0_is_the_greedy_choice(dtype):
    logits = torch.zeros(3, 50, dtype=dtype)
    logits[0, 17] = logits[0, 44] = 1.0
    logits[1, 0] = -1.0
    logits[2] = -math.inf
    logits[2, 33] = logits[2, 49] = -5.0
    assert top_rows(logits, 8).ids[:, 0].tolist() == [17, 1, 33]
    assert device_rows(logits, 8)[0][:, 0].tolist() == [17, 1, 33]


def test_rows_have_the_types_that_memory_stores():
    rows = top_rows(torch.randn(4, 30), 8)
    assert (rows.ids.dtype, rows.probs.dtype) == (np.int32, np.float32)
    assert rows.ids.shape == rows.probs.shape == (4, 8)
    ids, probs = device_rows(torch.randn(4, 30), 8)
    assert (ids.dtype, probs.dtype) == (np.int32, np.float32)


def test_a_banned_token_has_probability_0():
    logits = torch.full((1, 20), -math.inf)
    logits[0, [4, 9]] = 1.0
    assert top_rows(logits, 3).probs.tolist() == [[0.5, 0.5, 0.0]]


SICK = {
    "NaN that leads": {0: math.nan, 3: 5.0},
    "NaN after better logits": {**{token: 9.0 - token for token in range(8)}, 15: math.nan},
    "NaN of negative sign": {15: math.copysign(math.nan, -1.0)},  # what a processor makes of inf - inf; sorts last
    "best logit infinite": {6: math.inf},
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sickness", SICK)
def test_a_sick_row_among_healthy_ones_is_told_with_advice_on_dtype(sickness, dtype):
    logits = torch.zeros(3, 20, dtype=dtype)
    for token, value in SICK[sickness].items():
        logits[1, token] = value
    with pytest.raises(FloatingPointError, match="dtype=bfloat16"):
        top_rows(logits, 8)
    _, probs = device_rows(logits, 8)
    assert [bool(np.isfinite(row).all()) for row in probs] == [True, False, True]


def test_a_row_without_a_finite_logit_is_told():
    with pytest.raises(FloatingPointError):
        top_rows(torch.full((1, 20), -math.inf), 8)


def test_a_vocabulary_smaller_than_k_is_refused():
    with pytest.raises(ValueError, match=r"method\.top_k=8: the model has 5 ids"):
        top_rows(torch.zeros(1, 5), 8)
