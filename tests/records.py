"""Records by hand, as records.jsonl holds them."""

from collections.abc import Sequence

import pandas as pd

from analysis.load import flatten, frame_of

PHASES = ("vision", "prefill", "draft", "verify", "commit", "observe", "other")
NODES = 4  # drafted a step


def side(
    committed: Sequence[int],
    prefill_ms: float,
    decode_ms: float,
    place: int = 0,
    accepted: Sequence[int] | None = None,
    nodes: Sequence[int] | None = None,
    score: float | None = None,
) -> dict:
    """A side whose steps committed the given numbers of tokens; by default all but the last of them were drafted.

    Every node is the one-token map's.
    """
    accepted = [c - 1 for c in committed] if accepted is None else list(accepted)
    nodes = [NODES] * len(committed) if nodes is None else list(nodes)
    phases = dict.fromkeys(PHASES, 0) | {"prefill": int(prefill_ms * 1e6), "verify": int(decode_ms * 1e6)}
    return {
        "tokens": list(range(1 + sum(committed))), "nodes": nodes, "agreed": accepted,
        "accepted": accepted, "committed": list(committed), "sources": [1] * sum(accepted),
        "drafted": [0, sum(nodes), *[0] * 14], "depths": [sum(nodes)], "place": place,
        "phases_ns": phases, "window_ns": sum(phases.values()), "score": score,
        "verify_ns": [phases["verify"] // len(committed)] * len(committed) if committed else [],
    }  # fmt: skip


def record(method: dict, ar: dict, index: int = 0, verdict: str = "equal", image: str = "") -> dict:
    """One request, by default with an image of its own."""
    return {
        "index": index, "row": f"row-{index}", "turn": 0, "category": "c", "contract": "h", "prompt": "p",
        "images": image or f"image-{index}", "prompt_tokens": 10, "visual_tokens": 4,
        "verdict": {"kind": verdict, "at": -1, "expected": -1, "found": -1}, "ar": ar, "method": method,
    }  # fmt: skip


def frame(*records: dict) -> pd.DataFrame:
    """As analysis reads them."""
    return frame_of([flatten(it) for it in records])


def sound(count: int = 5, speedup: float = 1.6) -> list[dict]:
    """Records of a run that nothing is wrong with: tau 2."""
    return [record(side([2, 2], 1, 4 / speedup), side([1] * 4, 1, 4, nodes=[0] * 4), i) for i in range(count)]
