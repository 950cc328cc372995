"""The ledger as stacked bars: milliseconds an emitted token by phase, AR above the methods, a panel a benchmark."""

from collections.abc import Mapping
from pathlib import Path

import matplotlib
import pandas as pd

from analysis.metrics import PHASES

matplotlib.use("Agg")  # files only, so no display is needed

import matplotlib.pyplot as plt

# Okabe and Ito's palette, told apart by colour-blind readers too; neighbours differ in lightness
COLOURS = dict(zip(PHASES, ("#56B4E9", "#0072B2", "#E69F00", "#009E73", "#F0E442", "#CC79A7", "#999999"), strict=True))


def ms_per_token(frame: pd.DataFrame, side: str) -> dict[str, float]:
    """Milliseconds an emitted token by phase, all requests together."""
    tokens = frame[f"tokens_{side}"].sum()
    return {phase: float(frame[f"{phase}_ns_{side}"].sum() / 1e6 / tokens) for phase in PHASES}


def bars(frames: Mapping[str, pd.DataFrame]) -> dict[str, dict[str, float]]:
    """One panel's bars by label: every distinct AR run, then the methods, the fastest first."""
    plain = {method: ms_per_token(frame, "ar") for method, frame in frames.items()}
    distinct = {tuple(phases.values()): method for method, phases in reversed(plain.items())}
    labels = {method: "AR" if len(distinct) == 1 else f"AR (beside {method})" for method in distinct.values()}
    ours = {method: ms_per_token(frame, "method") for method, frame in frames.items()}
    ranked = sorted(ours, key=lambda method: sum(ours[method].values()))
    return {labels[m]: plain[m] for m in frames if m in labels} | {method: ours[method] for method in ranked}


def draw(frames: Mapping[tuple[str, str], pd.DataFrame], folder: Path) -> list[Path]:
    """Draw cells by (panel, method); writes ledger.png and ledger.pdf into `folder`."""
    panels: dict[str, dict[str, pd.DataFrame]] = {}
    for (title, method), frame in frames.items():
        panels.setdefault(title, {})[method] = frame
    content = {title: bars(inside) for title, inside in panels.items()}
    heights = [len(inside) for inside in content.values()]
    figure, axes = plt.subplots(
        len(content), 1, figsize=(8, 1.1 + sum(0.42 * n + 0.85 for n in heights)), squeeze=False,
        height_ratios=heights, layout="constrained",
    )  # fmt: skip
    for axis, (title, inside) in zip(axes[:, 0], content.items(), strict=True):
        _panel(axis, title, inside)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(PHASES), frameon=False, fontsize=9)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / "ledger.png", folder / "ledger.pdf"]
    for path in paths:
        figure.savefig(path, dpi=200)
    plt.close(figure)
    return paths


def _panel(axis, title: str, inside: Mapping[str, Mapping[str, float]]) -> None:
    names = list(inside)
    left = [0.0] * len(names)
    for phase in PHASES:
        widths = [inside[name][phase] for name in names]
        axis.barh(names, widths, left=left, color=COLOURS[phase], edgecolor="white", linewidth=0.4, label=phase)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    for place, total in enumerate(left):
        axis.text(total, place, f" {total:.2f}", va="center", fontsize=9)
    axis.invert_yaxis()
    axis.set_xlim(0, 1.12 * max(left))
    axis.set_title(title, loc="left", fontsize=10)
    axis.set_xlabel("milliseconds an emitted token", fontsize=9)
    axis.tick_params(labelsize=9)
    axis.spines[["top", "right"]].set_visible(False)
