"""What a reader must know before believing the numbers."""

import pandas as pd

from analysis.bootstrap import Effect
from analysis.metrics import ratios

SLOWER = 0.10  # of inputs that decode slower than AR
UNACCOUNTED = 0.02  # of the window that no phase holds
OTHER_WORK = 0.05  # of the machine's processor time


def alarms(frame: pd.DataFrame, efficiency: Effect, machine: dict | None = None) -> list[str]:
    """One line each. machine: the summary's `machine`, None where it was not watched."""
    found = [
        _differing(frame),
        _counts(frame),
        "efficiency above 1: AR was held up, or something is counted twice" if efficiency.ci_low > 1 else "",
        _slower(frame),
        _repeated(frame),
        *(_unaccounted(frame, side) for side in ("ar", "method")),
        *(_disturbed(machine) if machine else ()),
    ]
    return [line for line in found if line]


def _differing(frame: pd.DataFrame) -> str:
    different = int((frame.verdict != "equal").sum())
    return f"{different} of {len(frame)} outputs differ from AR's" if different else ""


def _counts(frame: pd.DataFrame) -> str:
    different = int((frame.tokens_method != frame.tokens_ar).sum())
    return f"token counts differ within a pair in {different} of {len(frame)} requests" if different else ""


def _slower(frame: pd.DataFrame) -> str:
    share = (ratios(frame, "decode").dropna() < 1).mean()
    return f"{share:.0%} of inputs decode slower than AR" if share > SLOWER else ""


def _repeated(frame: pd.DataFrame) -> str:
    repeated = int(frame.duplicated(["prompt", "images"]).sum())
    return f"{repeated} prompts occurred earlier in the stream: memories were warm for them" if repeated else ""


def _unaccounted(frame: pd.DataFrame, side: str) -> str:
    measured = frame[f"measured_{side}"]
    if measured.isna().any():  # nothing to hold the phases against
        return ""
    gap = (frame[f"window_{side}"] - measured).abs().sum() / measured.sum()
    return f"phases of {side} miss the measured window by {gap:.1%}" if gap > UNACCOUNTED else ""


def _disturbed(machine: dict) -> list[str]:
    found = []
    others, cores = machine["other_work"], machine["cores"]
    if others is not None and others > OTHER_WORK * cores:
        found.append(f"other work on the machine: it kept {others:.1f} of {cores} cores busy")
    if machine["throttled"]:
        found.append(f"the device slowed its clocks: {', '.join(machine['throttled'])}")
    return found
