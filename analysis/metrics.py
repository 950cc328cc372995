"""Ratios from integers, all of them here (equations 9 and 10). Averages are never averaged."""

import numpy as np
import pandas as pd

from analysis.bootstrap import Effect, interval, mean_effect, resampled_means

VERDICTS = ("equal", "tie", "stop_rule", "processor", "position_or_cache", "unknown")
PHASES = ("vision", "prefill", "draft", "verify", "commit", "observe", "other")
REQUEST_PHASES = ("vision", "prefill", "other")  # reported a request; the others a step


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


def speedup(frame: pd.DataFrame, window: str) -> Effect:
    """The mean of r_i (equation 9) with its interval."""
    return mean_effect(ratios(frame, window).to_numpy(), frame.cluster.to_numpy(), null=1)


def other_speedups(frame: pd.DataFrame, window: str) -> dict[str, float]:
    """Three more readings of the same effect: the ratio of mean rates, of total rates, of total wall times."""
    known = frame[ratios(frame, window).notna()]
    if known.empty:
        return dict.fromkeys(("ratio_of_rates", "total_rate", "total_wall"), np.nan)
    tokens = {side: (known[f"tokens_{side}"] - (window == "decode")).sum() for side in ("method", "ar")}
    time = {side: known[f"{window}_{side}"].sum() for side in ("method", "ar")}
    return {
        "ratio_of_rates": float(rates(known, window, "method").mean() / rates(known, window, "ar").mean()),
        "total_rate": float(tokens["method"] / time["method"] / (tokens["ar"] / time["ar"])),
        "total_wall": float(time["ar"] / time["method"]),
    }


def efficiency(frame: pd.DataFrame) -> Effect:
    """Decode-only speedup over tau, with its interval: the share of the accepted tokens that became time won."""
    r, a = ratios(frame, "decode"), accepted_per_step(frame)
    clusters = frame.cluster.to_numpy()
    means = resampled_means(np.column_stack([r, a]), clusters)
    return Effect(float(r.mean() / tau(frame)), *interval(means[:, 0] / (1 + means[:, 1]), clusters), null=1)


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
