"""Figures from the committed records: whole, legible, honest about their data, and equal from equal records."""

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from analysis import figures, tables
from analysis.cells import walk
from analysis.figures import KINDS, speed
from analysis.figures.__main__ import main
from analysis.figures.style import COLUMN, PAGE, printed
from tests.cells import records, write

ROOT = Path(__file__).parent.parent
LAPTOP = ROOT / "results" / "laptop"
LEAST = 7  # points
TOUCH = 0.5  # points that boxes of neighbouring texts may share


@pytest.fixture(scope="module")
def part() -> figures.Part:
    """The laptop edition's one model."""
    (only,) = figures.parts(LAPTOP)
    return only


@pytest.fixture(scope="module", params=KINDS)
def drawn(request, part) -> Iterator[Figure]:
    with printed():
        figure = figures.draw(part, request.param)
        figure.draw_without_rendering()
        yield figure


def texts(figure: Figure) -> list[tuple[Text, Bbox]]:
    """Every text that is drawn with its box in points."""
    ticks = [axis for panel in figure.axes for axis in (panel.xaxis, panel.yaxis)]
    beyond = {id(label) for axis in ticks for label in _beyond(axis)}
    found = [t for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip() and id(t) not in beyond]
    scale = 72 / figure.dpi
    return [(t, Bbox(t.get_window_extent().get_points() * scale)) for t in found]


def _beyond(axis: Axis) -> list[Text]:
    """Labels of ticks beyond the axis's limits: they are kept, but not drawn."""
    low, high = sorted(axis.get_view_interval())
    ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
    return [label for tick in ticks if not low <= tick.get_loc() <= high for label in (tick.label1, tick.label2)]


def test_every_text_is_large_enough_to_read_in_print(drawn):
    assert min(text.get_fontsize() for text, _ in texts(drawn)) >= LEAST
    assert drawn.get_figwidth() in (COLUMN, PAGE)


def test_no_text_covers_another_or_leaves_the_page(drawn):
    width, height = drawn.get_size_inches() * 72
    found = texts(drawn)
    assert len(found) > 5
    for text, box in found:
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height, text
    for (one, a), (other, b) in combinations(found, 2):
        shared = Bbox.intersection(a, b)
        assert shared is None or min(shared.width, shared.height) <= TOUCH, (one, other)


def test_generated_data_are_named_in_the_title_and_in_the_files_name(drawn, part):
    assert drawn.get_suptitle() == "tiny_qwen, generated fixtures"
    assert part.suffix == "tiny_qwen-generated"


def test_equal_records_give_equal_files(part, tmp_path):
    for name in ("granularity", "step_cost"):
        once, twice = (figures.write(part, name, tmp_path / folder) for folder in "ab")
        assert [file.suffix for file in once] == [".png", ".pdf"]
        assert [file.read_bytes() for file in once] == [file.read_bytes() for file in twice]


def test_the_committed_figures_are_all_there():
    names = {f"{name}-tiny_qwen-generated.{suffix}" for name in KINDS for suffix in ("png", "pdf")}
    assert {file.name for file in (LAPTOP / "figures").iterdir()} == names


def test_the_committed_tables_are_those_of_the_committed_records(tmp_path):
    made = tables.write(tables.tables(walk(LAPTOP)), tmp_path)
    committed = {file.name: file.read_bytes() for file in (LAPTOP / "tables").iterdir()}
    assert {file.name: file.read_bytes() for file in made} == committed


def test_a_figure_without_its_data_is_left_out_with_the_command_that_makes_them(tmp_path, capsys):
    write(tmp_path, records(12, 1.5))
    main([str(tmp_path)])
    written = {file.name.partition("-")[0] for file in (tmp_path / "figures").iterdir()}
    out = capsys.readouterr().out
    assert written == {name for name, kind in KINDS.items() if not kind.needs}
    for name, kind in KINDS.items():
        if kind.needs:
            assert f"{name}, tiny_qwen, generated fixtures: left out; `python {kind.command} {tmp_path}`" in out


def test_variants_of_a_method_are_told_apart_and_methods_of_others_alone_are_no_paper_figure(tmp_path):
    write(tmp_path / "a", records(12, 1.5))
    write(tmp_path / "a", records(12, 1.4), options={"budget": 31})
    (part,) = figures.parts(tmp_path / "a")
    legend = figures.draw(part, "speedup").axes[0].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["RECAP (budget=31)", "RECAP (budget=63)"]
    write(tmp_path / "b", records(12, 1.5), method="lookahead")
    (part,) = figures.parts(tmp_path / "b")
    assert figures.missing(part, "latency") == "run.py method=recap"


def test_an_empty_folder_is_named(tmp_path):
    with pytest.raises(SystemExit, match="no finished cell below it"):
        main([str(tmp_path)])


def test_real_and_generated_inputs_never_share_a_figure(tmp_path):
    write(tmp_path, records(12, 1.5), model="qwen", bench="chartqa", source="hub/x@1")
    write(tmp_path, records(12, 1.5), model="qwen")
    assert [(p.title, p.suffix) for p in figures.parts(tmp_path)] == [
        ("qwen, generated fixtures", "qwen-generated"), ("qwen", "qwen"),
    ]  # fmt: skip


@pytest.mark.parametrize("verdict, marks", [("reproduced", 1), ("differs", 1), ("not run", 0)])
def test_published_values_are_open_marks_where_the_runs_may_be_compared(verdict, marks):
    line = {"method": "recap", "inputs_of": "mean", "end_to_end": 1.6, "decode_only": 1.8, "tau": 3.0}
    line |= {f"{name}{end}": line[name] for name in ("end_to_end", "decode_only", "tau") for end in ("_low", "_high")}
    line |= {"speedup_published": 1.66, "speedup_verdict": verdict, "tau_published": 3.02, "tau_verdict": verdict}
    for axis, expected in zip(
        speed.by_benchmark({"single_turn": pd.DataFrame([line])}).axes, (marks, 0, marks), strict=True
    ):
        open_marks = [mark for mark in axis.lines if mark.get_markerfacecolor() == "none" and len(mark.get_xdata())]
        assert len(open_marks) == expected
