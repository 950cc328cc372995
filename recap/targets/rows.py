"""Top-K rows from logits: by descending logit, equal logits by lower id, one transfer off the device."""

import math

import numpy as np
import torch
from numba import njit

from recap.types import Rows

NOT_FINITE = "the model's logits are not finite; try dtype=bfloat16 or dtype=float32"


def top_rows(logits: torch.Tensor, top_k: int) -> Rows:
    """Rows of `logits` [n, vocab]; the softmax over the K kept logits is computed in float32.

    Raises FloatingPointError where a row holds NaN or where its best logit is infinite, ValueError where the vocabulary
    has fewer than K ids.
    """
    if logits.shape[1] < top_k:
        raise ValueError(f"method.top_k={top_k}: the model has {logits.shape[1]} ids")
    if logits.dtype in (torch.float16, torch.bfloat16):
        logits = logits.float()  # exact, so the order and the ties stay
    if logits.device.type == "cpu":
        ids, probs = _top_rows(logits.numpy(), top_k)
    else:
        ids, probs = top_rows_on_device(logits, top_k)
    if not np.isfinite(probs).all():
        raise FloatingPointError(NOT_FINITE)
    return Rows(ids, probs)


def top_rows_on_device(logits: torch.Tensor, top_k: int):
    """The same in torch operations. torch.topk leaves the order of equal values open, so each logit and its id are
    joined into one integer whose order is the one we want, and no two are equal."""
    if logits.dtype == torch.float64:
        values, ids = (x[:, :top_k] for x in logits.sort(dim=-1, descending=True, stable=True))
    else:
        bits = (logits + 0.0).view(torch.int32)  # adding 0.0 turns -0.0 into 0.0
        ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # as integers in the order of the floats
        flipped = 0xFFFFFFFF - torch.arange(logits.shape[1], device=logits.device)
        keys = (ordered.long() << 32) | flipped
        ids = 0xFFFFFFFF - (keys.topk(top_k, dim=-1).values & 0xFFFFFFFF)
        values = logits.gather(1, ids)
    probs = torch.softmax(values.float() - values[:, :1].float(), dim=-1)
    probs = torch.where(logits.isnan().any(dim=1, keepdim=True), torch.nan, probs)
    packed = torch.cat([ids.int(), probs.view(torch.int32)], dim=1).cpu().numpy()
    return np.ascontiguousarray(packed[:, :top_k]), packed[:, top_k:].copy().view(np.float32)


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
