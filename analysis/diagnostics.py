"""Replay and counterfactuals: from the integer tables of a cell to shares, differences and intervals.

recall.parquet   request x source: states, covered, hits (runners.replay)
swapped.parquet  request x source: states, covered, hits with the true image's rows and with another's
roots.parquet    one row a verification step with a draft: accepted tokens, whether the root's choice changed
sources.parquet  one row a state: drops of log mass, tokens accepted from either source (runners.counterfactual)
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.bootstrap import interval, resampled_means
from analysis.metrics import accepted_per_step, tau, tau_pooled

TABLES = ("recall", "swapped", "roots", "sources")
BINS = 5  # of visual alignment
DEEPEST = 5  # accepted lengths from here on are one bin
CELL = ["model", "bench"]
COUNTS = ("states", "covered", "hits")
SHARES = {"coverage": ("covered", "states"), "conditional": ("hits", "covered"), "recall": ("hits", "states")}
PAIRS = (("M2", "M1"), ("M3", "M2"), ("M3", "M1"), ("backoff", "M1"), ("mixture", "backoff"))
IMAGES = ("wrong", "mean", "either")


def load_table(folder: Path, name: str) -> pd.DataFrame:
    """All tables of that name at or below a folder, one under the other.

    Raises ValueError where there is none, and where two are of one model and benchmark.
    """
    assert name in TABLES
    files = sorted(folder.rglob(f"{name}.parquet"))
    if not files:
        command = "runners.replay" if name == "recall" else "runners.counterfactual"
        raise ValueError(f"{folder}: no {name}.parquet below it; run `python -m {command} {folder}`")
    tables = {file: pd.read_parquet(file) for file in files}
    seen: dict[tuple, Path] = {}
    for file, table in tables.items():
        for cell in table[CELL].drop_duplicates().itertuples(index=False):
            if (first := seen.setdefault(tuple(cell), file)) != file:
                raise ValueError(f"{first.parent} and {file.parent} are of one model and benchmark: name one of them")
    return pd.concat(tables.values(), ignore_index=True)


def share(frame: pd.DataFrame, part: np.ndarray, whole: np.ndarray) -> tuple[float, float, float]:
    """sum(part) / sum(whole) with its interval over clusters; NaN where the whole is empty."""
    if not np.sum(whole):
        return np.nan, np.nan, np.nan
    means = resampled_means(np.column_stack([part, whole]), frame.cluster.to_numpy())
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(np.sum(part) / np.sum(whole)), *interval(means[:, 0] / means[:, 1], frame.cluster.to_numpy())


def recall_table(frame: pd.DataFrame) -> pd.DataFrame:
    """By benchmark and source: coverage, conditional recall (hits among covered states), recall over all states."""
    lines = []
    for (model, bench, source), part in frame.groupby([*CELL, "source"], sort=False):
        counts = {name: part[name].to_numpy(float) for name in COUNTS}
        line = {"model": model, "bench": bench, "source": source, "states": int(counts["states"].sum())}
        for name, (top, bottom) in SHARES.items():
            line[name], line[f"{name}_low"], line[f"{name}_high"] = share(part, counts[top], counts[bottom])
        lines.append(line)
    return pd.DataFrame(lines)


def difference_table(frame: pd.DataFrame, pairs: Sequence[tuple[str, str]] = PAIRS) -> pd.DataFrame:
    """By benchmark: one source's coverage, conditional recall and recall minus another's, paired, percentage points."""
    lines = []
    for (model, bench), part in frame.groupby(CELL, sort=False):
        wide = part.set_index(["row", "turn", "cluster", "source"])[["states", "covered", "hits"]].unstack("source")
        clusters = wide.index.get_level_values("cluster").to_numpy()
        for source, over in pairs:
            values = np.column_stack([wide[name][one] for one in (source, over) for name in COUNTS]).astype(float)
            line = {"model": model, "bench": bench, "source": source, "over": over}
            found = _shares(values.mean(axis=0)), _shares(resampled_means(values, clusters))
            for name, known, resampled in zip(SHARES, *found, strict=True):
                line[name] = float(known)
                line[f"{name}_low"], line[f"{name}_high"] = interval(resampled, clusters)
            lines.append(line)
    return pd.DataFrame(lines)


def _shares(means: np.ndarray) -> list[np.ndarray]:
    """Differences of `SHARES` in points, from means [.., 6] of the `COUNTS` of one source and of another."""
    counts = [dict(zip(COUNTS, np.moveaxis(means[..., at : at + 3], -1, 0), strict=True)) for at in (0, 3)]
    with np.errstate(invalid="ignore", divide="ignore"):
        return [100 * np.subtract(*(one[top] / one[bottom] for one in counts)) for top, bottom in SHARES.values()]


def swapped_table(frame: pd.DataFrame) -> pd.DataFrame:
    """By benchmark and source: recall with the true image's rows minus recall with another's, percentage points."""
    lines = []
    for (model, bench, source), part in frame.groupby([*CELL, "source"], sort=False):
        states, true, other = (part[name].to_numpy(float) for name in ("states", "hits", "hits_swapped"))
        gain, low, high = share(part, 100 * (true - other), states)
        lines.append(
            {
                "model": model, "bench": bench, "source": source, "states": int(states.sum()),
                "images": part.cluster.nunique(),
                "recall": true.sum() / states.sum(), "recall_swapped": other.sum() / states.sum(),
                "gain": gain, "gain_low": low, "gain_high": high,
            }
        )  # fmt: skip
    return pd.DataFrame(lines)


def root_table(frame: pd.DataFrame) -> pd.DataFrame:
    """By replaced image and accepted length: share of roots whose choice changed, benchmarks weighted equally."""
    changed = frame.assign(either=frame.wrong | frame["mean"], length=frame.accepted.clip(upper=DEEPEST))
    lines = []
    for image in IMAGES:
        for (model, length), part in changed.groupby(["model", "length"]):
            shares, resampled = [], []
            for seed, (_, one) in enumerate(part.groupby("bench", sort=False)):
                values = one[image].to_numpy(float)
                shares.append(values.mean())
                resampled.append(resampled_means(values, one.cluster.to_numpy(), seed=seed)[:, 0])
            low, high = interval(np.mean(resampled, axis=0))
            label = f"{length}+" if length == DEEPEST else str(length)
            line = {"model": model, "image": image, "accepted": label, "benches": len(shares), "steps": len(part)}
            lines.append(line | {"changed": float(np.mean(shares)), "changed_low": low, "changed_high": high})
    return pd.DataFrame(lines)


def alignment(frame: pd.DataFrame) -> pd.DataFrame:
    """The states with their alignment score and bin: M2/M3's visual support minus M1's, ranked in each benchmark.

    The support of a source is the smaller of the drops of its candidates' log mass under the two other images.
    """
    support = {s: frame[[f"{s}_drop_wrong", f"{s}_drop_mean"]].min(axis=1) for s in ("specific", "general")}
    scored = frame.assign(score=support["specific"] - support["general"])
    ranks = scored.groupby(CELL).score.rank(method="first", pct=True)
    return scored.assign(bin=np.ceil(ranks * BINS).clip(1, BINS).astype(int))


def source_table(frame: pd.DataFrame) -> pd.DataFrame:
    """By alignment bin: tokens accepted from M2/M3 minus tokens accepted from M1, with its interval."""
    lines = []
    for (model, number), part in alignment(frame).groupby(["model", "bin"]):
        difference = (part.specific_accepted - part.general_accepted).to_numpy(float)
        mean, low, high = share(part, difference, np.ones(len(part)))
        line = {"model": model, "bin": number, "states": len(part), "score": float(part.score.mean())}
        lines.append(line | {"difference": mean, "difference_low": low, "difference_high": high})
    return pd.DataFrame(lines)


def tau_table(frame: pd.DataFrame) -> pd.DataFrame:
    """By benchmark: tau of replayed requests, and the share of drafted rows that the method missed."""
    lines = []
    for (model, bench), part in frame.groupby(CELL, sort=False):
        low, high = interval(
            1 + resampled_means(accepted_per_step(part).to_numpy(), part.cluster.to_numpy())[:, 0],
            part.cluster.to_numpy(),
        )
        line = {"model": model, "bench": bench, "requests": len(part), "steps": int(part.steps_method.sum())}
        line |= {"tau": tau(part), "tau_low": low, "tau_high": high, "pooled": tau_pooled(part)}
        lines.append(line | {"nodes": int(part.nodes_method.sum()), "unknown": int(part.unknown.sum())})
    return pd.DataFrame(lines)


def show(table: pd.DataFrame) -> str:
    """The table as text, three decimals."""
    return table.to_string(index=False, float_format=lambda value: f"{value:.3f}", na_rep="n/a")
