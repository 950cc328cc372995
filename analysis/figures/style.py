"""How every figure looks: the sizes of a two-column page, one palette, one meaning a colour."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLUMN, PAGE = 3.3, 7.0  # inches
# Okabe and Ito's palette, told apart by colour-blind readers too, and a grey for the ninth
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000", "#999999")
METHODS = {"AR": "#000000", "recap": "#0072B2", "token_recycling": "#E69F00"}
NAMES = {
    "recap": "RECAP", "token_recycling": "Token Recycling", "token_recycling_seeded": "Token Recycling, seeded",
    "racer": "RACER", "sam_decoding": "SAM decoding", "sam_only": "SAM alone", "suffix_decoding": "suffix decoding",
    "suffix_decoding_tree": "suffix decoding, tree", "prompt_lookup_full": "prompt lookup, full", "chartqa": "ChartQA",
    "mathvista": "MathVista", "mmspec": "MMSpec", "mmt_bench": "MMT-Bench", "ocrbench": "OCRBench",
    "scienceqa": "ScienceQA", "seed_bench": "SEED-Bench", "textvqa": "TextVQA",
}  # fmt: skip
OTHER = "#999999"
_SMALL, _TEXT = 7, 7.5
_STYLE = {
    "font.size": _TEXT, "axes.labelsize": _TEXT, "axes.titlesize": _TEXT, "xtick.labelsize": _SMALL,
    "ytick.labelsize": _SMALL, "legend.fontsize": _SMALL, "axes.titlelocation": "left", "axes.spines.top": False,
    "axes.spines.right": False, "axes.linewidth": 0.6, "xtick.major.width": 0.6, "ytick.major.width": 0.6,
    "lines.linewidth": 1.2, "lines.markersize": 4.5, "legend.frameon": False, "legend.handlelength": 1.6,
    "grid.linewidth": 0.4, "grid.color": "#DDDDDD", "axes.axisbelow": True, "savefig.dpi": 300, "pdf.fonttype": 42,
}  # fmt: skip


def printed() -> AbstractContextManager:
    """Inside, figures are drawn and saved in this style."""
    return matplotlib.rc_context(_STYLE)


def new(width: float, height: float, columns: int = 1, **grid) -> tuple[Figure, list[Axes]]:
    """An empty figure, inches, and its panels from left to right."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, list(figure.subplots(1, columns, squeeze=False, **grid)[0])


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write stem.png and stem.pdf, without dates, so that equal figures are equal files."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    files = [stem.with_name(f"{stem.name}.{suffix}") for suffix in ("png", "pdf")]
    figure.savefig(files[0], metadata={"Software": None})
    figure.savefig(files[1], metadata={"CreationDate": None, "Producer": None, "Creator": None})
    return files


def ends(values: Sequence[float], low: Sequence[float], high: Sequence[float]) -> np.ndarray:
    """Lengths of error bars [2, n] from the ends of intervals; none where there is no interval."""
    middle = np.asarray(values, float)
    lengths = np.stack([middle - np.asarray(low, float), np.asarray(high, float) - middle])
    return np.nan_to_num(np.maximum(lengths, 0))


def dots(
    axis: Axes, frame: pd.DataFrame, name: str, places: Sequence[float], colour: str, marker: str, label: str = ""
) -> None:
    """A column of a table with its intervals, one dot a line at its place."""
    lengths = ends(frame[name], frame[f"{name}_low"], frame[f"{name}_high"])
    axis.errorbar(frame[name], places, xerr=lengths, ls="", marker=marker, color=colour, elinewidth=0.8, label=label)


def rows(axis: Axes, names: Sequence[str], quantity: str, null: float) -> None:
    """One row a name at 0, -1, ..., the first on top, about a line at the quantity's value of no effect."""
    axis.axvline(null, color="#444444", lw=0.6)
    axis.set_yticks([-place for place in range(len(names))], [readable(name) for name in names])
    axis.set_ylim(-len(names) + 0.4, 0.6)
    axis.set_xlabel(quantity)
    axis.grid(True, axis="x")


def colours(names: Sequence[str]) -> dict[str, str]:
    """A colour a benchmark."""
    return dict(zip(names, (PALETTE * len(names))[: len(names)], strict=True))


def above(axis: Axes, columns: int, **content) -> None:
    """The panel's legend, above it, where it hides no data."""
    axis.legend(
        loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, borderpad=0, columnspacing=1.2, handletextpad=0.5,
        **content,
    )  # fmt: skip


def method_colour(label: str) -> str:
    """A method's own colour, or grey."""
    return METHODS.get(label, OTHER)


def readable(label: str) -> str:
    """A method's or a benchmark's name as text."""
    name, opens, options = label.partition(" (")
    return NAMES.get(name, name.replace("_", " ")) + opens + options
