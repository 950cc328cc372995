"""Top-K rows from logits: by descending logit, equal logits by lower id, one transfer off the device."""

import math

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray

from recap.types import Rows

NOT_FINITE = "the model's logits are not finite; try dtype=bfloat16 or dtype=float32"


BLOCK = 64  # ids that are first looked at together


def top_rows(logits: torch.Tensor, top_k: int) -> Rows:
    """Rows of `logits` [n, vocab]; the softmax over the K kept logits is computed in float32.

    Raises FloatingPointError where a row holds NaN or where its best logit is infinite, ValueError where the vocabulary
    has fewer than K ids.
    """
    check_top_k(top_k, logits.shape[1])
    if logits.device.type != "cpu":
        return checked(*top_rows_on_device(logits, top_k))
    if logits.dtype in (torch.float16, torch.bfloat16):
        logits = logits.float()  # exact, so the order and the ties stay
    return checked(*_top_rows(logits.numpy(), top_k))


def check_top_k(top_k: int, vocab: int) -> None:
    """Refuse more logits a row than there are. Raises ValueError."""
    if vocab < top_k:
        raise ValueError(f"method.top_k={top_k}: the model has {vocab} ids")


def checked(ids: NDArray[np.int32], probs: NDArray[np.float32]) -> Rows:
    """Rows of sound logits. Raises FloatingPointError where a probability is not finite."""
    if not np.isfinite(probs).all():
        raise FloatingPointError(NOT_FINITE)
    return Rows(ids, probs)


def top_rows_on_device(logits: torch.Tensor, top_k: int):
    """The same ids and probabilities from torch operations and one transfer."""
    return unpacked(best_on_device(logits, top_k).cpu().numpy(), top_k)


def best_on_device(logits: torch.Tensor, width: int) -> torch.Tensor:
    """The `width` best ids of each row of `logits` [n, vocab], and how far each lies below the best.

    Returns [n, 2 * width] int32, the second half the bits of float32, NaN where the row holds one. Shapes depend on
    shapes alone and the host reads nothing, so that it can be captured. The logits are read once: the best `width`
    lie in the `width` best blocks of ids, since each better block holds a better logit, or an equal one of a lower id.
    """
    n, vocab = logits.shape
    if vocab % BLOCK:
        logits = torch.nn.functional.pad(logits, (0, -vocab % BLOCK), value=-math.inf)
    blocks = logits.view(n, -1, BLOCK)
    best = blocks.amax(dim=-1)  # NaN where the block holds one
    chosen = _order(best, min(width, blocks.shape[1])).sort(dim=-1).values[:, :, None]
    kept = blocks.gather(1, chosen.expand(-1, -1, BLOCK)).flatten(1)  # by ascending id, as is needed for the ties
    ids = (chosen * BLOCK + torch.arange(BLOCK, device=logits.device)).flatten(1)
    order = _order(kept, width)
    values = kept.gather(1, order).float()
    below = torch.where(best.isnan().any(dim=1, keepdim=True), torch.nan, values - values[:, :1])
    return torch.cat([ids.gather(1, order).int(), below.view(torch.int32)], dim=1)


def unpacked(packed: NDArray[np.int32], top_k: int):
    """Ids and probabilities [n, K] of the K best of what `best_on_device` found."""
    width = packed.shape[1] // 2
    weights = np.exp(packed[:, width : width + top_k].copy().view(np.float32))
    return packed[:, :top_k].copy(), weights / weights.sum(axis=1, keepdims=True)


def _order(values: torch.Tensor, k: int) -> torch.Tensor:
    """Indices [n, k] of the largest values of each row, descending, equal ones by lower index.

    torch.topk leaves the order of equal values open, so each value and its index are joined into one integer whose
    order is the one we want, and no two are equal.
    """
    if values.dtype == torch.float64:
        return values.sort(dim=-1, descending=True, stable=True).indices[:, :k]
    bits = (values.float() + 0.0).view(torch.int32)  # adding 0.0 turns -0.0 into 0.0
    ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # as integers in the order of the floats
    flipped = 0xFFFFFFFF - torch.arange(values.shape[1], device=values.device)
    keys = (ordered.long() << 32) | flipped
    return 0xFFFFFFFF - (keys.topk(k, dim=-1).values & 0xFFFFFFFF)


@njit(cache=True)
def _top_rows(logits, top_k):
    n, vocab = logits.shape
    ids = np.empty((n, top_k), np.int32)
    probs = np.empty((n, top_k), np.float32)
    best = np.empty(top_k, logits.dtype)
    for row in range(n):
        line = logits[row]
        size = 0
        clean = True
        for token in range(vocab):
            value = line[token]
            if size == top_k and value <= best[size - 1]:
                continue  # an equal logit with a higher id stays out
            if value != value:
                clean = False
                break
            at = min(size, top_k - 1)
            while at > 0 and best[at - 1] < value:
                best[at] = best[at - 1]
                ids[row, at] = ids[row, at - 1]
                at -= 1
            best[at] = value
            ids[row, at] = token
            size = min(size + 1, top_k)
        total = np.float32(0.0)
        for k in range(top_k):
            probs[row, k] = math.exp(np.float32(best[k] - best[0])) if clean else math.nan
            total += probs[row, k]
        for k in range(top_k):
            probs[row, k] /= total
    return ids, probs
