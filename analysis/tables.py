"""The paper's tables from a results root, ours beside the published: python -m analysis.tables DIR [--out DIR]

Writes single_turn, mmspec, ablations, others and trained_drafters, each as Markdown, CSV and LaTeX, and prints them.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pandas as pd

from analysis import ladder, published
from analysis.bootstrap import Effect
from analysis.cells import REAL, Cell, bench_labels, grouped, method_labels, walk
from analysis.estimates import DECODE_ONLY, END_TO_END, TAU, Sample, columns, sample, unweighted
from analysis.published import ALL_MMSPEC, MMSPEC, PAPER, RESULTS, SEVEN, SINGLE_TURN, Result, Scope
from analysis.render import FORMATS, Table, console
from analysis.reproduction import RULE, complete, on_cuda, shuffled, verdict

MEASURES = {"tau": TAU, "end_to_end": END_TO_END, "decode_only": DECODE_ONLY}
COUNTS = ("inputs", "requests", "equal")
COLUMNS = (
    "data", "model", "method", "inputs_of", *COUNTS,
    *[f"{name}{end}" for name in MEASURES for end in ("", "_low", "_high")],
    "tau_published", "tau_verdict", "speedup_published", "speedup_verdict",
)  # fmt: skip
SPEEDS = (
    "equal: requests whose output is plain decoding's, token for token; tau: tokens committed a step, mean over "
    "requests; speedups: means over requests of the ratio of rates to plain decoding in the same run, end to end (the "
    "published kind) and without vision and prefill; in brackets 95 % intervals from a bootstrap over images or "
    f"conversations. Published: {PAPER}, on one {published.DEVICE}."
)


def tables(cells: Sequence[Cell]) -> list[Table]:
    """Every table that has a line, from finished cells; traced ones are for the step inspector, not for speeds."""
    cells = [cell for cell in cells if not cell.traced]
    methods = [cell for cell in cells if cell.rung is None and not cell.peer]
    gains = (
        "gain: throughput over the predecessor in percent, end to end, paired on the input; within noise: its 95 % "
        f"interval holds zero. Published: {PAPER}. {RULE}"
    )
    seven = f"{SPEEDS} Mean: unweighted over the seven sets. {RULE}"
    made = [
        Table("single_turn", "Single-turn benchmarks", seven, _single_turn(methods)),
        Table("mmspec", "MMSpec by topic", f"{SPEEDS} {RULE}", _mmspec(methods)),
        Table("ablations", "Ablation ladder", gains, ladder.frame(cells)),
        Table("others", "Other benchmarks", SPEEDS, _others(methods)),
        _trained(),
    ]
    return [table for table in made if len(table.frame)]


def _single_turn(cells: Sequence[Cell]) -> pd.DataFrame:
    """A line a set, then the unweighted mean where all seven are there."""
    cells = [cell for cell in cells if cell.bench in SINGLE_TURN]
    samples = {cell: sample(cell.frame, MEASURES, seed=SINGLE_TURN.index(cell.bench)) for cell in cells}
    names, lines = bench_labels(cells), []
    for method, group in _methods(cells):
        lines += [_line(method, names[cell], {cell: samples[cell]}) for cell in _by(names, group)]
        own = {cell: samples[cell] for cell in group if not shuffled(cell)}
        if sorted(cell.bench for cell in own) == sorted(SINGLE_TURN):
            lines.append(_line(method, "mean", own, SEVEN))
    return _with_unanswered(lines, SEVEN, "mean")


def _mmspec(cells: Sequence[Cell]) -> pd.DataFrame:
    """A line a topic, then all of them together."""
    cells = [cell for cell in cells if cell.bench == MMSPEC]
    names, lines = bench_labels(cells), []
    for method, group in _methods(cells):
        for cell in _by(names, group):
            overall = names[cell].replace(MMSPEC, "overall", 1)
            topics = [(topic, replace(cell, frame=frame)) for topic, frame in cell.frame.groupby("category")]
            lines += [_line(method, topic, {part: sample(part.frame, MEASURES)}) for topic, part in topics]
            lines.append(_line(method, overall, {cell: sample(cell.frame, MEASURES)}, ALL_MMSPEC))
    return _with_unanswered(lines, ALL_MMSPEC, "overall")


def _others(cells: Sequence[Cell]) -> pd.DataFrame:
    """A line a benchmark that the paper does not have."""
    cells = [cell for cell in cells if cell.bench not in (*SINGLE_TURN, MMSPEC)]
    names, lines = bench_labels(cells), []
    for method, group in _methods(cells):
        lines += [_line(method, names[cell], {cell: sample(cell.frame, MEASURES)}) for cell in _by(names, group)]
    return _typed(lines)


def _trained() -> Table:
    text = published.TOKEN_RECYCLING_TEXT
    caption = (
        f"Recorded by others, not measured here: {published.TRAINED_ON} on all of MMSpec ({published.TRAINED_TURNS} "
        f"turns), greedy, GPU not named ({published.TRAINED_PLACE}). MAT: tokens a verification round; reported: as "
        "summarised there, where MSD's rounds are counted one short a turn. These drafters are trained for their "
        "target, and the target is another than ours: a range to know, not a comparison. On text, Token Recycling's "
        f"own paper reports a speedup of {text.speedup:.2f} at tau {text.tau:.2f} ({text.model})."
    )
    frame = pd.DataFrame([asdict(drafter) for drafter in published.TRAINED])
    return Table("trained_drafters", "Trained drafters on MMSpec, as published", caption, frame)


def _methods(cells: Sequence[Cell]) -> Iterator[tuple[str, list[Cell]]]:
    """(label, cells) of each model and method, generated data apart from real."""
    names = method_labels(cells)
    groups = grouped(cells, lambda cell: (cell.data, cell.model, names[cell]))
    for group in sorted(groups, key=lambda group: (group[0].model, names[group[0]])):
        yield names[group[0]], group


def _by(names: Mapping[Cell, str], cells: Sequence[Cell]) -> list[Cell]:
    return sorted(cells, key=lambda cell: names[cell])


def _line(method: str, of: str, samples: Mapping[Cell, Sample], scope: Scope | None = None) -> dict:
    """The numbers of one cell, or the unweighted mean of several; beside the published ones of `scope`, if any."""
    cells = list(samples)
    first, frames = cells[0], [cell.frame for cell in cells]
    line = {
        "data": first.data,
        "model": first.model,
        "method": method,
        "inputs_of": of,
        "inputs": sum(frame.row.nunique() for frame in frames),
        "requests": sum(map(len, frames)),
        "equal": sum(int((frame.verdict == "equal").sum()) for frame in frames),
    }
    ours = unweighted(list(samples.values()))
    for name, estimate in ours.items():
        line |= columns(name, estimate)
    result = _published(first, scope) if scope and complete(cells, scope) else None
    if result is not None:
        speed = ours["end_to_end"] if on_cuda(cells) else None
        line |= _beside(result, ours["tau"], speed)
    return line


def _published(cell: Cell, scope: Scope) -> Result | None:
    same = (r for r in RESULTS if (r.model, r.method, r.scope) == (cell.model, cell.method, scope))
    return next(same, None)


def _beside(result: Result, tau: Effect | None, speed: Effect | None) -> dict:
    return {
        "tau_published": result.tau,
        "tau_verdict": verdict(tau, result.tau),
        "speedup_published": result.speedup,
        "speedup_verdict": verdict(speed, result.speedup),
    }


def _with_unanswered(lines: list[dict], scope: Scope, of: str) -> pd.DataFrame:
    """The lines, then the published results that none of them answers."""
    answered = {(line["model"], line["method"]) for line in lines if "speedup_published" in line}
    missing = [r for r in RESULTS if r.scope == scope and (r.model, r.method) not in answered]
    head = [{"data": REAL, "model": r.model, "method": r.method, "inputs_of": of} for r in missing]
    return _typed(lines + [h | _beside(r, None, None) for h, r in zip(head, missing, strict=True)])


def _typed(lines: list[dict]) -> pd.DataFrame:
    return pd.DataFrame(lines, columns=COLUMNS).astype(dict.fromkeys(COUNTS, "Int64"))


def write(tables: Sequence[Table], out: Path) -> list[Path]:
    """Write every table in every format; returns the files."""
    out.mkdir(parents=True, exist_ok=True)
    files = []
    for table in tables:
        for suffix, render in FORMATS.items():
            files.append(out / f"{table.name}.{suffix}")
            files[-1].write_text(render(table), encoding="utf-8")
    return files


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m analysis.tables", description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, help="a results root, as given to run.py with out=")
    parser.add_argument("--out", type=Path, help="where the tables go; default: tables/ below the results root")
    asked = parser.parse_args()
    try:
        made = tables(walk(asked.results))
    except ValueError as error:
        sys.exit(f"error: {error}")
    for table in made:
        print(console(table))
    for file in write(made, asked.out or asked.results / "tables"):
        print(file)


if __name__ == "__main__":
    main()
