"""A results root as one page to read and pass on: python -m analysis.report DIR [--out FILE] [--figures FOLDER]

DIR is a results root or one cell's folder. The page holds all it needs (tables, figures, the step inspector, which
needs cells run with trace=true) and opens from a disk. It embeds small pictures of inspected inputs: mind the licence
of a benchmark before you pass a page on.
"""

import argparse
import base64
import json
import sys
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from analysis import ledger, report_tables
from analysis.cells import GENERATED, walk
from analysis.render import Table, html
from analysis.report_steps import as_script, choose, steps_data
from analysis.report_tables import Run
from analysis.tables import tables
from analysis.tracing import barred

HERE = Path(__file__).parent
PICTURES = {".svg": "image/svg+xml", ".png": "image/png"}  # the first there is of a figure
ALARMS = 8  # shown at once; the rest is folded
SLOW = ("slower than AR", "at the measured step cost")  # ends of alarms that tell of a method, not of a fault: last


def page(root: Path, figures: Path) -> str:
    """The whole page. Raises ValueError for a root without finished cells or with a damaged one."""
    run = Run.of(walk(root))
    parts = {
        "Alarms": _alarms(root, run),
        "Verdict": _verdict(run),
        "Speed": _speed(run),
        "Acceptance": _all(report_tables.accepted(run)),
        "Ledger": _ledger(run),
        "Figures": _figures(figures),
        "Steps": _steps(run),
        "What was run": _what(run),
    }
    parts = {name: body for name, body in parts.items() if body}
    links = " ".join(f'<a href="#{_anchor(name)}">{name}</a>' for name in parts)
    sections = "\n".join(
        f'<section id="{_anchor(name)}" aria-label="{name}"><h2>{name}</h2>\n{body}\n</section>'
        for name, body in parts.items()
    )
    title = _title(run)
    machines = "; ".join(dict.fromkeys(report_tables.machine(cell) for cell in run.cells))
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<link rel="icon" href="data:,">\n'
        f"<style>\n{(HERE / 'report.css').read_text()}</style>\n</head>\n<body>\n<header>\n<h1>{escape(title)}</h1>\n"
        f'<p>{escape(_subtitle(run))}<br>{escape(machines)}</p>\n<nav aria-label="Sections">{links}</nav>\n'
        f"</header>\n<main>\n{sections}\n</main>\n<script>\n{(HERE / 'report.js').read_text()}</script>\n"
        "</body>\n</html>\n"
    )


def _title(run: Run) -> str:
    models, benches = (dict.fromkeys(name[key] for name in run.names.values()) for key in ("model", "bench"))
    return f"{_listed(models, 'models')} on {_listed(benches, 'benchmarks')}"


def _subtitle(run: Run) -> str:
    methods = dict.fromkeys(name["method"] for name in run.names.values())
    requests = sum(len(cell.frame) for cell in run.cells)
    generated = f"; {GENERATED}" if all(cell.generated for cell in run.cells) else ""
    return f"{_listed(methods, 'methods')} against plain decoding (AR): {requests} requests{generated}"


def _listed(names: Iterable[str], many: str) -> str:
    names = list(names)
    return ", ".join(names) if len(names) <= 4 else f"{len(names)} {many}"


def _alarms(root: Path, run: Run) -> str:
    """What a reader must know first, each with the cells that it is true of."""
    found: dict[str, list[str]] = {}
    for path in sorted(root.rglob("status.json")):
        status = json.loads(path.read_text())
        if status["state"] != "ok":
            why = status.get("error", "").partition("\n")[0]
            text = f"not complete, so in no table ({status['state']}{': ' if why else ''}{why})"
            found.setdefault(text, []).append(str(path.parent.relative_to(root)))
    for cell in run.cells:
        for alarm in filter(None, (*cell.summary.get("alarms", ()), barred(cell.summary, None))):
            found.setdefault(alarm, []).append(run.label(cell))
    items = [
        f"<li><strong>{escape(alarm)}</strong> <span>{escape('; '.join(cells))}</span></li>"
        for alarm, cells in sorted(found.items(), key=lambda it: it[0].endswith(SLOW))
    ]
    shown, folded = (_list(some) if some else "" for some in (items[:ALARMS], items[ALARMS:]))
    more = f"<details><summary>{len(items) - ALARMS} more alarms</summary>\n{folded}\n</details>" if folded else ""
    return f"{shown}\n{more}" if found else "<p>None.</p>"


def _list(items: list[str]) -> str:
    return '<ul class="alarms">\n' + "\n".join(items) + "\n</ul>"


def _verdict(run: Run) -> str:
    requests = sum(len(cell.frame) for cell in run.cells)
    differ = sum(int((cell.frame.verdict != "equal").sum()) for cell in run.cells)
    if differ:
        line = f'<p class="verdict bad">✗ {differ} of {requests} outputs differ from those of plain decoding.</p>'
    else:
        line = f'<p class="verdict good">✓ All {requests} outputs are those of plain decoding, token for token.</p>'
    return line + "\n" + _all(report_tables.verdicts(run))


def _speed(run: Run) -> str:
    """The paper's tables where these cells answer them; the published results that none of them answers, folded."""
    made = tables(run.cells)
    ours = [table for table in made if "inputs" in table.frame and table.frame.inputs.notna().any()]
    folded = _all([table for table in made if table not in ours])
    rest = _folded("Published results that these cells do not answer", folded)
    return "\n".join([_all([*ours, *report_tables.peers(run)]), rest])


def _ledger(run: Run) -> str:
    """Cost by cell, then every cell's ledger as `analysis.ledger` prints it."""
    reports = (
        _folded(
            f"Phases of {run.label(cell)}",
            '<pre class="scroll" tabindex="0">'
            + escape(ledger.report(cell.frame, f"{cell.model} on {cell.bench}", run.names[cell]["method"]))
            + "</pre>",
        )
        for cell in run.cells
    )
    return "\n".join([html(report_tables.costs(run)), *reports])


def _figures(folder: Path) -> str:
    """The pictures of a folder, one of each name."""
    files = {file.stem: file for kind in reversed(PICTURES) for file in sorted(folder.glob(f"*{kind}"))}
    return "\n".join(
        f'<figure><img src="{_data_uri(file)}" alt="{escape(words)}" loading="lazy">'
        f"<figcaption>{escape(words)}</figcaption></figure>"
        for words, file in sorted((stem.replace("_", " "), file) for stem, file in files.items())
    )


def _data_uri(file: Path) -> str:
    return f"data:{PICTURES[file.suffix]};base64,{base64.b64encode(file.read_bytes()).decode()}"


def _steps(run: Run) -> str:
    chosen = choose(run.cells)
    if not chosen:
        return "<p>No cell has steps to look at: run one with <code>trace=true</code>.</p>"
    data = as_script(steps_data(chosen, {cell: run.label(cell) for cell in run.cells}))
    body = (HERE / "report_steps.html").read_text()
    return f'{body}<script type="application/json" id="steps-data">{data}</script>'


def _what(run: Run) -> str:
    commands = "\n".join(dict.fromkeys(cell.summary["command"] for cell in run.cells))
    shown = f'<pre class="scroll" tabindex="0">{escape(commands)}</pre>'
    return _all(report_tables.what_was_run(run)) + "\n" + _folded("Commands", shown)


def _all(made: Sequence[Table]) -> str:
    return "\n".join(map(html, made))


def _folded(summary: str, body: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>\n{body}\n</details>" if body else ""


def _anchor(name: str) -> str:
    return name.lower().replace(" ", "-")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m analysis.report", description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, help="a results root, as given to run.py with out=, or a cell's folder")
    parser.add_argument("--out", type=Path, help="the page's file; default: report.html in it")
    parser.add_argument("--figures", type=Path, help="a folder of figures to embed; default: figures/ in it")
    asked = parser.parse_args()
    out = asked.out or asked.results / "report.html"
    if out.is_dir():
        sys.exit(f"error: --out {out} is a folder; name a file, as {out / 'report.html'}")
    if asked.figures and not asked.figures.is_dir():
        sys.exit(f"error: --figures {asked.figures}: no such folder; python -m analysis.figures makes one")
    try:
        made = page(asked.results, asked.figures or asked.results / "figures")
    except ValueError as error:
        sys.exit(f"error: {error}")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(made, encoding="utf-8")
    print(f"{out} ({len(made.encode()) / 1e6:.1f} MB)")


if __name__ == "__main__":
    main()
