"""The derived part of summary.json, and the tables at the end of a run, no wider than 140 columns."""

import math

import pandas as pd

from analysis import acceptance, metrics
from analysis.alarms import alarms
from analysis.cost import step_cost

NAME = 24  # columns of a method's name
DEPTHS = (1, 2, 3, 5)  # shown of acceptance by depth
LEGEND = (
    "equal: answers that are AR's, token for token; differ: answers that score otherwise than AR's\n"
    "all, drafted: tokens gained a step, over all steps and those with a draft; trend: its change over 100 inputs\n"
    "M1 to other: accepted of the drafted nodes, by the memory they came from; d1, d2, ...: steps that accept so many"
)
NOISE = "~ within noise: the interval holds no effect"


def summarise(frame: pd.DataFrame, machine: dict | None = None) -> dict:
    """Every number that one cell's frame yields, None where it yields none. machine: what else kept it busy."""
    efficiency = metrics.efficiency(frame)
    cost = step_cost(frame)
    steps = max(1, frame.steps_method.sum())
    found = {
        "n": int(frame.row.nunique()),
        "turns": len(frame),
        "without_step": int((frame.steps_method == 0).sum()),
        "verdict": {kind: int((frame.verdict == kind).sum()) for kind in metrics.VERDICTS},
        "answers_differ": int((frame.verdict != "equal").sum()),
        "tau": metrics.tau(frame),
        "tau_pooled": metrics.tau_pooled(frame),
        "tau_by_turn": {str(turn): metrics.tau(part) for turn, part in frame.groupby("turn")},
        "agreed_per_step": float(frame.agreed_method.sum() / steps),
        "nodes_per_step": float(frame.nodes_method.sum() / steps),
        "acceptance": acceptance.summarise(frame),
        "speedup": {
            name: metrics.speedup(frame, window).summary() | metrics.other_speedups(frame, window)
            for name, window in (("end_to_end", "window"), ("decode_only", "decode"))
        },
        "efficiency": efficiency.summary(),
        "steps": int(frame.steps_method.sum()),
        "new_tokens": int(frame.tokens_method.sum()),
        "accepted": int(frame.accepted_method.sum()),
        "committed": int(frame.committed_method.sum()),
        "tokens_per_second": {s: metrics.tokens_per_second(frame, s) for s in ("method", "ar")},
        "ms_per_token": {s: metrics.ms_per_token(frame, s) for s in ("method", "ar")},
        "ms_per_step": metrics.ms_per_step(frame),
        "phases_ms": metrics.phases_ms(frame, "method"),
        "ar_phases_ms": metrics.phases_ms(frame, "ar"),
        "ledger": cost.summary(),
        "score": _scores(frame),
        "alarms": alarms(frame, efficiency, machine) + cost.alarms(),
    }
    return _without_nan(found)


def _without_nan(value):
    """JSON has no NaN."""
    if isinstance(value, dict):
        return {key: _without_nan(one) for key, one in value.items()}
    return None if isinstance(value, float) and math.isnan(value) else value


def _scores(frame: pd.DataFrame) -> dict:
    """Mean quality of both sides over the answers that have a reference, and how many score differently."""
    scored = frame[frame.score_method.notna() & frame.score_ar.notna()]
    if scored.empty:
        return {"method": None, "ar": None, "differ": None, "of": 0}
    differ = int((scored.score_method != scored.score_ar).sum())
    means = {side: float(scored[f"score_{side}"].mean()) for side in ("method", "ar")}
    return means | {"differ": differ, "of": len(scored)}


def table(summaries: list[dict]) -> str:
    """AR's line and one a method, the best decode-only speedup first; then what was accepted. They share one AR run."""
    ranked = sorted(summaries, key=lambda s: -(s["speedup"]["decode_only"]["mean"] or 0))
    text = f"{aligned(speed_lines(ranked))}\n\n{aligned(acceptance_lines(ranked))}\n{LEGEND}"
    return f"{text}\n{NOISE}" if "]~" in text else text


def effect(it: dict, digits: int = 2) -> str:
    """A mean and its interval; `~` marks one within noise. The mean alone where so few clusters leave no interval."""
    if it["ci_low"] is None:
        return number(it["mean"], digits)
    mark = "~" if it["within_noise"] else ""
    return f"{it['mean']:.{digits}f} [{it['ci_low']:.{digits}f}, {it['ci_high']:.{digits}f}]{mark}"


def speed_lines(summaries: list[dict]) -> list[tuple[str, ...]]:
    """The header, AR and one line a method."""
    first = summaries[0]
    header = (
        "method", "tau", "pooled", "end-to-end", "decode-only", "ms/step", "ms/token", "tok/s", "equal", "score",
        "differ", "alarms",
    )  # fmt: skip
    plain = (
        "ar", "1.00", "1.00", "1.00", "1.00", *2 * (number(first["ms_per_token"]["ar"]),),
        f"{first['tokens_per_second']['ar']:.0f}", "", _score(first["score"]["ar"]), "", "",
    )  # fmt: skip
    lines = [
        (
            label(s),
            number(s["tau"]),
            number(s["tau_pooled"]),
            effect(s["speedup"]["end_to_end"]),
            effect(s["speedup"]["decode_only"]),
            number(s["ms_per_step"]),
            number(s["ms_per_token"]["method"]),
            f"{s['tokens_per_second']['method']:.0f}",
            f"{s['verdict']['equal']}/{s['turns']}",
            _score(s["score"]["method"]),
            str(s["score"]["differ"] if s["score"]["of"] else ""),
            str(len(s["alarms"]) or "none"),
        )
        for s in summaries
    ]
    return [header, plain, *lines]


def acceptance_lines(summaries: list[dict]) -> list[tuple[str, ...]]:
    """What LEGEND explains: a header and one line a method."""
    seen = [source for source in acceptance.SOURCES if any(source in s["acceptance"]["by_source"] for s in summaries)]
    lines = [("accepted", "all", "drafted", "trend", *seen, *(f"d{depth}" for depth in DEPTHS))]
    for s in summaries:
        it = s["acceptance"]
        sources = (it["by_source"].get(source) for source in seen)
        reached = (depth <= len(it["by_depth"]) and it["by_depth"][depth - 1] for depth in DEPTHS)
        lines.append((
            label(s),
            number(it["per_step"]["all_steps"]),
            number(it["per_step"]["steps_with_draft"]),
            effect(it["trend_per_100_inputs"]),
            *(f"{count['accepted'] / count['drafted']:.1%}" if count else "" for count in sources),
            *(f"{float(share):.0%}" for share in reached),
        ))  # fmt: skip
    return lines


def aligned(lines: list[tuple[str, ...]]) -> str:
    """Lines in columns, the first as a header."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rows = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
    return "\n".join([rows[0], "-" * (sum(widths) + 2 * (len(widths) - 1)), *rows[1:]])


def label(summary: dict) -> str:
    """A method, its rung of an ablation, whether it is an outside peer or was traced; at most NAME columns."""
    rung = f"/{summary['ablation']}" if summary.get("ablation") else ""
    marks = "".join(f" ({mark})" for mark in ("peer", "traced") if summary.get(mark))
    name = summary["method"] + rung + marks
    return name if len(name) <= NAME else f"{name[: NAME - 1]}…"


def number(value: float | None, digits: int = 2) -> str:
    """A number as a table has it."""
    return "n/a" if value is None else f"{value:.{digits}f}"


def _score(score: float | None) -> str:
    return "n/a" if score is None else f"{score:.3f}"
