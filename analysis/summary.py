"""summary.json and the table at the end of a run."""

import math
from dataclasses import asdict

import pandas as pd

from analysis import metrics

ALARM_SHARE = 0.10  # of inputs slower than AR


def summarise(frame: pd.DataFrame) -> dict:
    """The derived part of summary.json, from one cell's frame."""
    rate, low, high = metrics.efficiency(frame)
    scored = frame.score_method.notna()
    return {
        "n": int(frame.row.nunique()),
        "turns": len(frame),
        "without_step": int((frame.steps_method == 0).sum()),
        "verdict": {kind: int((frame.verdict == kind).sum()) for kind in metrics.VERDICTS},
        "tau": metrics.tau(frame),
        "tau_pooled": metrics.tau_pooled(frame),
        "agreed_per_step": float(frame.agreed_method.sum() / max(1, frame.steps_method.sum())),
        "nodes_per_step": float(frame.nodes_method.sum() / max(1, frame.steps_method.sum())),
        "speedup": {
            "end_to_end": asdict(metrics.speedup(frame, "window")),
            "decode_only": asdict(metrics.speedup(frame, "decode")),
        },
        "efficiency": {"mean": rate, "ci_low": low, "ci_high": high},
        "steps": int(frame.steps_method.sum()),
        "new_tokens": int(frame.tokens_method.sum()),
        "tokens_per_second": {s: metrics.tokens_per_second(frame, s) for s in ("method", "ar")},
        "ms_per_token": {s: metrics.ms_per_token(frame, s) for s in ("method", "ar")},
        "ms_per_step": metrics.ms_per_step(frame),
        "phases_ms": metrics.phases_ms(frame, "method"),
        "ar_phases_ms": metrics.phases_ms(frame, "ar"),
        "score": {
            "method": float(frame.score_method.mean()) if scored.any() else None,
            "ar": float(frame.score_ar.mean()) if scored.any() else None,
        },
        "alarms": alarms(frame, low),
    }


def alarms(frame: pd.DataFrame, efficiency_low: float) -> list[str]:
    """What a reader must know before believing the numbers."""
    found = []
    different = int((frame.verdict != "equal").sum())
    if different:
        found.append(f"{different} of {len(frame)} outputs differ from AR's")
    if not (frame.tokens_method == frame.tokens_ar).all():
        found.append("token counts differ within a pair")
    if efficiency_low > 1:
        found.append("efficiency above 1: AR was held up, or something is counted twice")
    slower = (metrics.ratios(frame, "decode") < 1).mean()
    if slower > ALARM_SHARE:
        found.append(f"{slower:.0%} of inputs decode slower than AR")
    repeated = len(frame) - len(frame[["cluster", "row", "turn"]].drop_duplicates())
    if repeated:
        found.append(f"{repeated} inputs occur more than once in the stream")
    return found


def table(summaries: list[dict]) -> str:
    """AR's line, then one a method, the best decode-only speedup first; the summaries share one AR run."""
    first = summaries[0]
    header = (
        "method", "tau", "pooled", "end-to-end", "decode-only", "ms/step", "ms/token", "tokens/s", "equal", "score",
        "alarms",
    )  # fmt: skip
    lines = [
        ("ar", "1.00", "1.00", "1.00", "1.00", *2 * (f"{first['ms_per_token']['ar']:.2f}",),
         f"{first['tokens_per_second']['ar']:.0f}", "", _score(first["score"]["ar"]), ""),
    ]  # fmt: skip
    lines += [
        (
            label(s),
            f"{s['tau']:.2f}",
            f"{s['tau_pooled']:.2f}",
            _effect(s["speedup"]["end_to_end"]),
            _effect(s["speedup"]["decode_only"]),
            f"{s['ms_per_step']:.2f}",
            f"{s['ms_per_token']['method']:.2f}",
            f"{s['tokens_per_second']['method']:.0f}",
            f"{s['verdict']['equal']}/{s['turns']}",
            _score(s["score"]["method"]),
            str(len(s["alarms"]) or "none"),
        )
        for s in sorted(summaries, key=lambda s: -s["speedup"]["decode_only"]["mean"])
    ]
    widths = [max(len(line[i]) for line in [header, *lines]) for i in range(len(header))]
    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
    rows = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in [header, *lines]]
    return "\n".join([rows[0], rule, *rows[1:]])


def label(summary: dict) -> str:
    """A method as it is typed: 'recap', or 'recap/backoff' for a rung; outside peers are marked."""
    rung = f"/{summary['ablation']}" if summary.get("ablation") else ""
    return summary["method"] + rung + (" (peer)" if summary.get("peer") else "")


def _effect(speedup: dict) -> str:
    return f"{speedup['mean']:.2f} [{speedup['ci_low']:.2f}, {speedup['ci_high']:.2f}]"


def _score(score: float | None) -> str:
    return "n/a" if score is None or math.isnan(score) else f"{score:.3f}"
