"""Finished cells written by hand, as a run leaves them, to test what reads results roots."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from analysis.lines import encode
from analysis.published import PRESETS
from tests.records import side
from tests.test_config import compose

AR_MS = 10.0  # a token of plain decoding
BIG, SMALL = 8_000_000_000, 3_600_000  # parameters


def record(index: int, committed: Sequence[int], speedup: float, category: str = "c", contract: str = "h") -> dict:
    """A request on an image of its own; both speedups are the given one."""
    ar = side([1] * sum(committed), 0, AR_MS * sum(committed))
    return {
        "index": index, "row": f"row-{index}", "turn": 0, "category": category, "contract": contract, "prompt": "p",
        "images": f"image-{index}", "prompt_tokens": 10, "visual_tokens": 4,
        "verdict": {"kind": "equal", "at": -1, "expected": -1, "found": -1}, "ar": ar,
        "method": side(committed, 0, AR_MS * sum(committed) / speedup),
    }  # fmt: skip


def records(n: int, speedup: float, topics: Sequence[str] = ("c",), spread: float = 0.02) -> list[dict]:
    """n requests at tau 3, whose speedups lie evenly around the given one, nearer than `spread` of it."""
    return [
        record(i, [2, 4], speedup * (1 + spread * ((i % 5) - 2) / 2), category=topics[i % len(topics)])
        for i in range(n)
    ]


def write(
    root: Path,
    lines: Sequence[dict],
    model: str = "tiny_qwen",
    bench: str = "synthetic",
    method: str = "recap",
    rung: str | None = None,
    predecessor: str | None = None,
    source: str | None = None,
    state: str = "ok",
    options: dict[str, Any] | None = None,
    bench_options: dict[str, Any] | None = None,
    peer: dict[str, str] | None = None,
    **setting: Any,
) -> Path:
    """Write a cell below the root; its folder. Options are the paper's but for those given."""
    known = {"_target_": "x.X", "order": None} | (bench_options or {})
    full = PRESETS.get(method, {"_target_": f"x.{method}"}) | (options or {})
    device = {"device": "cuda" if model in ("qwen", "llava") else "cpu"}
    config = {"max_new_tokens": 200, "seed": 0, "dtype": "float32", "engine": "eager", "ar_logits": "last"} | device
    config |= setting | {"method": full, "bench": known}
    own = "-".join(filter(None, [method, rung, *(f"{v}" for v in (*(options or {}).values(), *known.values()))]))
    folder = root / model / bench / own
    folder.mkdir(parents=True)
    summary = {
        "model": model, "bench": bench, "method": method, "ablation": rung, "predecessor": predecessor,
        "source": source, "peer": peer, "excluded": [], "contract": {"dtype": config["dtype"]},
        "parameters": BIG if model in ("qwen", "llava") else SMALL,
    }  # fmt: skip
    (folder / "records.jsonl").write_bytes(b"".join(map(encode, lines)))
    (folder / "summary.json").write_text(json.dumps(summary))
    (folder / "config.yaml").write_text(OmegaConf.to_yaml(OmegaConf.create(config)))
    (folder / "status.json").write_text(json.dumps({"state": state}))
    return folder


def rung_options(name: str) -> dict[str, Any]:
    """What a rung changes of the paper's RECAP."""
    section = OmegaConf.to_container(compose("method=recap", f"ablation={name}").method)
    return {key: value for key, value in section.items() if value != PRESETS["recap"][key]}
