"""The paper's figures from a results root, one set a model and a kind of data: real, or generated fixtures."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from analysis import tables
from analysis.cells import REAL, Cell, walk
from analysis.diagnostics import TABLES, load_table
from analysis.figures import accepted, granularity, intro, latency, speed, step_cost
from analysis.figures.pooled import pooled
from analysis.figures.style import printed, save


@dataclass(frozen=True, slots=True)
class Part:
    """What the figures of one model and one kind of data are made of.

    cells   finished cells of methods of their own: no rungs of the ladder
    lines   their lines of the tables single_turn, mmspec and others, by table
    counts  the tables of `analysis.diagnostics`, by name; those that no command has made yet are not in it
    """

    model: str
    data: str
    cells: list[Cell]
    lines: dict[str, pd.DataFrame]
    counts: dict[str, pd.DataFrame]

    @property
    def title(self) -> str:
        """What every figure says of its data."""
        return self.model if self.data == REAL else f"{self.model}, {self.data}"

    @property
    def suffix(self) -> str:
        """What tells its files from those of other parts."""
        return self.model if self.data == REAL else f"{self.model}-generated"


@dataclass(frozen=True, slots=True)
class Kind:
    """A figure: how it is drawn, from which counts or else from the paper's methods, which command makes those."""

    draw: Callable[[Part], Figure]
    needs: tuple[str, ...] = ()
    command: str = "run.py method=recap"


REPLAY, COUNTERFACTUAL = "-m runners.replay", "-m runners.counterfactual"
KINDS = {
    "granularity": Kind(lambda part: granularity.draw(part.counts["recall"]), ("recall",), REPLAY),
    "roots_and_sources": Kind(
        lambda part: intro.draw(part.counts["roots"], part.counts["sources"]), ("roots", "sources"), COUNTERFACTUAL
    ),
    "swapped": Kind(lambda part: granularity.draw_swapped(part.counts["swapped"]), ("swapped",), COUNTERFACTUAL),
    "speedup": Kind(lambda part: speed.by_benchmark(part.lines)),
    "methods": Kind(lambda part: speed.by_method(part.lines)),
    "step_cost": Kind(lambda part: step_cost.draw(part.cells)),
    "acceptance": Kind(lambda part: accepted.draw(part.cells)),
    "latency": Kind(lambda part: latency.draw(part.cells)),
}


def parts(root: Path) -> list[Part]:
    """The parts of a results root, in the order of their names. Raises ValueError for a root without cells."""
    cells = [cell for cell in walk(root) if not cell.traced]
    own = [cell for cell in cells if cell.rung is None and not cell.peer]
    lines = {table.name: table.frame for table in tables.tables(own) if "inputs_of" in table.frame}
    counts = {name: load_table(root, name) for name in TABLES if any(root.rglob(f"{name}.parquet"))}
    found = []
    for model, data in sorted({(cell.model, cell.data) for cell in own}):
        inside = [cell for cell in own if (cell.model, cell.data) == (model, data)]
        benches = {cell.bench for cell in inside}
        kept = {name: f[(f.model == model) & (f["data"] == data) & f.tau.notna()] for name, f in lines.items()}
        counted = {name: f[(f.model == model) & f.bench.isin(benches)] for name, f in counts.items()}
        counted = {name: frame for name, frame in counted.items() if len(frame)}
        found.append(Part(model, data, inside, kept, counted))
    return found


def missing(part: Part, name: str) -> str:
    """The command whose tables a figure lacks; empty where it can be drawn."""
    kind = KINDS[name]
    there = all(need in part.counts for need in kind.needs) if kind.needs else bool(pooled(part.cells))
    return "" if there else kind.command


def draw(part: Part, name: str) -> Figure:
    """One figure, under the title that says what its data are."""
    figure = KINDS[name].draw(part)
    figure.suptitle(part.title, x=0.01, ha="left", fontsize=7.5)
    return figure


def write(part: Part, name: str, out: Path) -> list[Path]:
    """Draw one figure in print style; its files, the picture first."""
    with printed():
        return save(draw(part, name), out / f"{name}-{part.suffix}")
