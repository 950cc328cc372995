"""Ratios from integers, all of them here (equations 9 and 10). Averages are never averaged."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.bootstrap import interval, resampled_means

VERDICTS = ("equal", "tie", "stop_rule", "processor", "position_or_cache", "unknown")
PHASES = ("vision", "prefill", "draft", "verify", "commit", "observe", "other")
REQUEST_PHASES = ("vision", "prefill", "other")  # reported a request; the others a step


@dataclass(frozen=True, slots=True)
class Speedup:
    """Four readings of one effect: the mean of per-input ratios (equation 9, with its interval), the ratio of mean
    rates, total tokens over total time, total wall time."""

    mean: float
    ci_low: float
    ci_high: float
    ratio_of_rates: float
    total_rate: float
    total_wall: float


def tau(frame: pd.DataFrame) -> float:
    """1 + mean over requests of the mean over steps of (committed - 1); requests without a step are left out."""
    return float(1 + accepted_per_step(frame).mean())


def tau_pooled(frame: pd.DataFrame) -> float:
    """Tokens committed over steps, all requests together."""
    return float(frame.committed_method.sum() / frame.steps_method.sum()) if frame.steps_method.sum() else np.nan


def accepted_per_step(frame: pd.DataFrame) -> pd.Series:
    """Mean a_it of each request; NaN without a step."""
    steps = frame.steps_method.where(frame.steps_method > 0)
    return (frame.committed_method - frame.steps_method) / steps


def ratios(frame: pd.DataFrame, window: str) -> pd.Series:
    """r_i of equation 9, over 'window' (end to end) or 'decode'; decode-only leaves out requests without a step."""
    rate, plain = rates(frame, window, "method"), rates(frame, window, "ar")
    return rate / plain


def rates(frame: pd.DataFrame, window: str, side: str) -> pd.Series:
    """Emitted tokens a second; decode-only does not count the first token, which prefill emits."""
    tokens = frame[f"tokens_{side}"] - (window == "decode")
    seconds = frame[f"{window}_{side}"] / 1e9
    return (tokens / seconds).where((window != "decode") | (frame[f"steps_{side}"] > 0))


def speedup(frame: pd.DataFrame, window: str) -> Speedup:
    """All readings of the speedup over AR."""
    r = ratios(frame, window)
    low, high = interval(resampled_means(r.to_numpy(), frame.cluster.to_numpy())[:, 0])
    known = frame[r.notna()]
    tokens = {s: (known[f"tokens_{s}"] - (window == "decode")).sum() for s in ("method", "ar")}
    time = {s: known[f"{window}_{s}"].sum() for s in ("method", "ar")}
    if known.empty:
        return Speedup(*[np.nan] * 6)
    return Speedup(
        mean=float(r.mean()),
        ci_low=low,
        ci_high=high,
        ratio_of_rates=float(rates(known, window, "method").mean() / rates(known, window, "ar").mean()),
        total_rate=float(tokens["method"] / time["method"] / (tokens["ar"] / time["ar"])),
        total_wall=float(time["ar"] / time["method"]),
    )


def efficiency(frame: pd.DataFrame) -> tuple[float, float, float]:
    """Decode-only speedup over tau, with its interval: the share of the accepted tokens that became time won."""
    r, a = ratios(frame, "decode"), accepted_per_step(frame)
    means = resampled_means(np.column_stack([r, a]), frame.cluster.to_numpy())
    low, high = interval(means[:, 0] / (1 + means[:, 1]))
    return float(r.mean() / tau(frame)), low, high


def ms_per_token(frame: pd.DataFrame, side: str) -> float:
    """Decode milliseconds a token, all requests together."""
    known = frame[frame[f"steps_{side}"] > 0]
    tokens = (known[f"tokens_{side}"] - 1).sum()
    return float(known[f"decode_{side}"].sum() / 1e6 / tokens) if tokens else np.nan


def ms_per_step(frame: pd.DataFrame) -> float:
    """Decode milliseconds a step of the method, all requests together."""
    steps = frame.steps_method.sum()
    return float(frame.decode_method.sum() / 1e6 / steps) if steps else np.nan


def tokens_per_second(frame: pd.DataFrame, side: str) -> float:
    """Emitted tokens over the whole window, all requests together."""
    return float(frame[f"tokens_{side}"].sum() / (frame[f"window_{side}"].sum() / 1e9))


def phases_ms(frame: pd.DataFrame, side: str) -> dict[str, float]:
    """Vision and prefill a request, the others a step."""
    steps, requests = frame[f"steps_{side}"].sum(), len(frame)
    total = {phase: frame[f"{phase}_ns_{side}"].sum() / 1e6 for phase in PHASES}
    per = {phase: requests if phase in REQUEST_PHASES else steps for phase in PHASES}
    return {phase: float(total[phase] / per[phase]) if per[phase] else 0.0 for phase in PHASES}
