"""What a step costs: a + b * nodes a verification pass, the tau it takes to break even, the share of the limit reached.

All requests together, so that the readings are exact of each other: decode-only speedup (total tokens over total time)
is pooled tau over break-even tau. Requests without a step are left out.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.bootstrap import interval, resampled_means


@dataclass(frozen=True, slots=True)
class Cost:
    """Milliseconds, all of decoding; the first token, which prefill emits, is in none of them.

    a_ms, b_ms_per_node  least squares over the passes of both sides whose nodes are known (AR's have none); b is NaN
                         where all passes have one size
    passes, plain        passes fitted, and how many of them drafted nothing
    step_ms, verify_ms   the method's mean step, and the verification pass in it
    plain_step_ms, plain_verify_ms   AR's, which emits one token a step
    tau                  tokens committed a step, pooled
    """

    a_ms: float
    a_interval: tuple[float, float]
    b_ms_per_node: float
    b_interval: tuple[float, float]
    passes: int
    plain: int
    step_ms: float
    verify_ms: float
    plain_step_ms: float
    plain_verify_ms: float
    tau: float

    @property
    def beside_ms(self) -> float:
        """What a step spends beside its pass: drafting, committing, observing, the loop."""
        return self.step_ms - self.verify_ms

    @property
    def break_even_tau(self) -> float:
        """The tau at which decode-only speedup is 1."""
        return self.step_ms / self.plain_step_ms

    @property
    def speedup(self) -> float:
        """Decode-only, total tokens over total time."""
        return self.tau / self.break_even_tau

    @property
    def limit(self) -> float:
        """The speedup if a step were its pass alone: tau * T(1) / T(n), of the mean passes of AR and of the method."""
        return self.tau * self.plain_verify_ms / self.verify_ms

    def predicted_step_ms(self, nodes: float) -> float:
        """A step that drafts `nodes`: its fitted pass and what a mean step spends beside it."""
        return self.a_ms + self.b_ms_per_node * nodes + self.beside_ms

    def tau_needed(self, nodes: float, speedup: float = 1.0) -> float:
        """The tau at which steps of `nodes` nodes decode `speedup` times as fast as AR."""
        return speedup * self.predicted_step_ms(nodes) / self.plain_step_ms

    def summary(self) -> dict[str, float]:
        """The part of summary.json."""
        return {
            "a_ms": self.a_ms,
            "b_ms_per_node": self.b_ms_per_node,
            "break_even_tau": self.break_even_tau,
            "limit_share": self.speedup / self.limit,
        }

    def alarms(self) -> list[str]:
        """What a reader must know about the cost."""
        if self.tau < self.break_even_tau:
            return [
                f"pooled tau {self.tau:.2f} is below break-even, {self.break_even_tau:.2f} at the measured step cost"
            ]
        return []


def step_cost(frame: pd.DataFrame) -> Cost:
    """The cost of one cell's steps."""
    known = frame[(frame.steps_method > 0) & (frame.steps_ar > 0)]
    moments = _moments(known)
    a, b = (float(x[0]) for x in _line(moments.sum(axis=0, keepdims=True)))
    resampled = _line(resampled_means(moments, known.cluster.to_numpy())) if len(known) else (np.array([np.nan]),) * 2
    steps, plain_steps = known.steps_method.sum(), known.steps_ar.sum()
    return Cost(
        a_ms=a,
        a_interval=interval(resampled[0], known.cluster.to_numpy()),
        b_ms_per_node=b,
        b_interval=interval(resampled[1], known.cluster.to_numpy()),
        passes=int(moments[:, 0].sum()),
        plain=int((passes(known).nodes == 0).sum()),
        step_ms=_ms(known.decode_method, steps),
        verify_ms=_ms(known.verify_ns_method, steps),
        plain_step_ms=_ms(known.decode_ar, plain_steps),
        plain_verify_ms=_ms(known.verify_ns_ar, plain_steps),
        tau=float(known.committed_method.sum() / steps) if steps else np.nan,
    )


def passes(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a verification pass whose nodes are known, of both sides: side, request, nodes, ms, committed."""
    parts = []
    for side in ("ar", "method"):
        steps = frame[[f"{name}_each_{side}" for name in ("nodes", "verify_ns", "committed")]]
        steps.columns = ["nodes", "ms", "committed"]
        steps = steps.assign(side=side, request=np.arange(len(steps)))
        steps = steps[steps.nodes.map(len) == steps.ms.map(len)]  # a peer's drafts are not seen
        parts.append(steps.explode(["nodes", "ms", "committed"]).dropna())
    table = pd.concat(parts, ignore_index=True)
    return table.astype({"nodes": np.int64, "committed": np.int64, "ms": np.float64}).assign(ms=lambda t: t.ms / 1e6)


def _moments(frame: pd.DataFrame) -> NDArray[np.float64]:
    """Count and sums of nodes, nodes squared, ms and nodes * ms over the passes of each request: [requests, 5]."""
    all_passes = passes(frame)
    n, ms = all_passes.nodes.to_numpy(np.float64), all_passes.ms.to_numpy(np.float64)
    sums = np.zeros((len(frame), 5))
    np.add.at(sums, all_passes.request.to_numpy(np.int64), np.column_stack([np.ones_like(n), n, n * n, ms, n * ms]))
    return sums


def _line(moments: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Intercept and slope of least squares from such sums [k, 5] or from means of them."""
    count, n, nn, t, nt = moments.T
    spread = count * nn - n * n
    with np.errstate(invalid="ignore", divide="ignore"):
        flat = spread <= 1e-9 * count * nn
        b = np.where(flat, np.nan, (count * nt - n * t) / spread)
        a = (t - np.where(flat, 0.0, b) * n) / count
    return a, b


def _ms(ns: pd.Series, steps: int) -> float:
    return float(ns.sum() / 1e6 / steps) if steps else np.nan
