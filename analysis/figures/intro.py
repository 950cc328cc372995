"""When the image decides: root sensitivity by accepted length, and which source to trust by visual alignment."""

import pandas as pd
from matplotlib.figure import Figure

from analysis.diagnostics import BINS, root_table, source_table
from analysis.figures.style import PAGE, PALETTE, above, ends, new

IMAGES = {"wrong": ("another image", "s"), "mean": ("its mean colour", "^"), "either": ("either", "o")}


def draw(roots: pd.DataFrame, sources: pd.DataFrame) -> Figure:
    """Left: roots whose choice another image changes; right: tokens that M2 and M3 accept beyond M1."""
    figure, (left, right) = new(PAGE, 2.5, 2)
    table = root_table(roots)
    lengths = sorted(set(table.accepted))
    for place, (image, (label, marker)) in enumerate(IMAGES.items()):
        part = table[table.image == image].set_index("accepted").loc[lengths]
        left.errorbar(
            [k + 0.12 * (place - 1) for k in range(len(part))], 100 * part.changed,
            yerr=100 * ends(part.changed, part.changed_low, part.changed_high),
            marker=marker, color=PALETTE[place], elinewidth=0.8, label=label,
        )  # fmt: skip
    left.set_xticks(range(len(lengths)), lengths)
    left.set(xlabel="draft tokens accepted in the step", ylabel="roots that change, %")
    left.set_ylim(0, None)
    above(left, 3)
    bins = source_table(sources)
    right.axhline(0, color="#444444", lw=0.6)
    right.errorbar(
        bins.bin, bins.difference, yerr=ends(bins.difference, bins.difference_low, bins.difference_high),
        marker="o", color=PALETTE[0], elinewidth=0.8,
    )  # fmt: skip
    right.set_xticks(range(1, BINS + 1))
    right.set_xlim(0.5, BINS + 0.5)
    right.set(
        xlabel="visual alignment of M2/M3 over M1, fifths",
        ylabel="accepted tokens, M2/M3 − M1",
    )
    right.set_title(f"{bins.states.sum()} states")
    for axis in (left, right):
        axis.grid(True, axis="y")
    return figure
