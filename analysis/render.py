"""One frame as console text, Markdown, CSV, LaTeX and HTML. Equal frames give equal bytes: fixed formats, no dates."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from textwrap import fill

import pandas as pd

from analysis.cells import GENERATED, REAL

DECIMALS = 2
NUMBER = r"[+-]?\d[\d.]*%?( \[.*\]| of \d+)?"
SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its file's name, title, caption and frame.

    A column `x` with `x_low` and `x_high` prints as one, with its interval. A column `data` splits the table into
    sections; those of generated inputs say so in their titles. Columns that a section leaves empty are not printed.
    """

    name: str
    title: str
    caption: str
    frame: pd.DataFrame

    def sections(self) -> list[tuple[str, pd.DataFrame]]:
        """(title, text frame) of each section, real data first."""
        if "data" not in self.frame:
            return [(self.title, as_text(self.frame))]
        parts = [(data, self.frame[self.frame["data"] == data]) for data in (REAL, GENERATED)]
        return [
            (self.title if data == REAL else f"{self.title} ({GENERATED})", as_text(part.drop(columns="data")))
            for data, part in parts
            if len(part)
        ]


def console(table: Table) -> str:
    """For a terminal: columns padded, the caption below."""
    return (
        "\n\n".join(f"{title}\n{lined(text)}" for title, text in table.sections()) + f"\n{fill(table.caption, 120)}\n"
    )


def markdown(table: Table) -> str:
    """Pipe tables under headings."""
    parts = []
    for title, text in table.sections():
        rows = [list(text.columns), ["---"] * len(text.columns), *text.to_numpy().tolist()]
        parts.append(f"# {title}\n\n" + "\n".join("| " + " | ".join(_piped(row)) + " |" for row in rows) + "\n")
    return "\n".join([*parts, table.caption + "\n"])


def csv(table: Table) -> str:
    """The whole frame, four decimals."""
    return table.frame.to_csv(index=False, float_format="%.4f", lineterminator="\n")


def latex(table: Table) -> str:
    """A booktabs table a section."""
    sections = [_tabular(table, title, text) for title, text in table.sections()]
    return "\n".join([r"% needs \usepackage{booktabs}", *sections])


def html(table: Table) -> str:
    """A table a section, each in a box that scrolls by itself, the caption below."""
    sections = [_boxed(title, text) for title, text in table.sections()]
    return "\n".join([*sections, f'<p class="note">{escape(table.caption)}</p>' if table.caption else ""])


FORMATS: dict[str, Callable[[Table], str]] = {"md": markdown, "csv": csv, "tex": latex}


def lined(text: pd.DataFrame) -> str:
    """A text frame in padded columns under a rule."""
    rows = [[heading.replace("_", " ") for heading in text.columns], *text.to_numpy().tolist()]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join([lines[0], "-" * (sum(widths) + 2 * (len(widths) - 1)), *lines[1:]])


def _tabular(table: Table, title: str, text: pd.DataFrame) -> str:
    body = [" & ".join(map(_escaped, row)) + r" \\" for row in text.to_numpy().tolist()]
    numbers = _numbers(text)
    return "\n".join(
        [
            r"\begin{table*}",
            r"\centering\small",
            rf"\caption{{{_escaped(title)}. {_escaped(table.caption)}}}",
            r"\begin{tabular}{" + "".join("r" if i in numbers else "l" for i in range(text.shape[1])) + "}",
            r"\toprule",
            " & ".join(_escaped(heading.replace("_", " ")) for heading in text.columns) + r" \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table*}",
            "",
        ]
    )


def _boxed(title: str, text: pd.DataFrame) -> str:
    numbers = _numbers(text)
    kind = [' class="number"' if i in numbers else "" for i in range(text.shape[1])]
    heads = "".join(f'<th scope="col"{k}>{escape(h.replace("_", " "))}</th>' for k, h in zip(kind, text, strict=True))
    rows = (
        "".join(f"<td{k}>{escape(cell)}</td>" for k, cell in zip(kind, row, strict=True))
        for row in text.to_numpy().tolist()
    )
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(title)}"><table>\n'
        f"<caption>{escape(title)}</caption>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{body}\n</tbody>\n"
        "</table></div>"
    )


def _numbers(text: pd.DataFrame) -> list[int]:
    """Which columns of a text frame hold numbers, with intervals or shares, and nothing else."""
    found = (text[column][text[column] != ""].str.fullmatch(NUMBER) for column in text)
    return [i for i, matches in enumerate(found) if len(matches) and matches.all()]


def as_text(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame as it prints: numbers rounded, intervals beside their values, empty columns left out."""
    columns = {}
    for name in frame:
        if str(name).removesuffix("_low").removesuffix("_high") != name:
            continue
        if frame[name].isna().all() or (frame[name] == "").all():
            continue
        cells = [_number(value) for value in frame[name]]
        if f"{name}_low" in frame:
            ends = zip(frame[f"{name}_low"].map(_number), frame[f"{name}_high"].map(_number), strict=True)
            cells = [f"{cell} [{low}, {high}]" if low else cell for cell, (low, high) in zip(cells, ends, strict=True)]
        columns[name] = cells
    return pd.DataFrame(columns)


def _number(value: object) -> str:
    if pd.isna(value):
        return ""
    if isinstance(value, float):
        return f"{value:.{DECIMALS}f}"
    return str(value)


def _piped(row: Sequence[str]) -> list[str]:
    return [cell.replace("|", r"\|") for cell in row]


def _escaped(text: str) -> str:
    return "".join(SPECIAL.get(character, character) for character in text)
