"""The report: one page that needs nothing else, tells what the records hold, and shows text as text."""

import json
import re
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

from analysis.cells import walk
from analysis.lines import encode
from analysis.lines import read as read_lines
from analysis.metrics import accepted_per_step
from analysis.render import Table, html
from analysis.report import ALARMS, _alarms, main, page
from analysis.report_steps import as_script, choose, steps_data
from analysis.report_tables import Run
from runners.benches.base import Row
from runners.benches.synthetic import Synthetic
from runners.cell import Cell, run
from tests import cells
from tests.scripted_cell import ScriptedModel, scripted
from tests.test_cell import cell

VOID = {"meta", "link", "img", "input", "br"}
METHODS = ("recap", "token_recycling")
HOSTILE = '</script><script>alert("x")</script> & <b>bold</b>'


@pytest.fixture(scope="module")
def traced(tmp_path_factory) -> tuple[Path, Cell]:
    """RECAP and Token Recycling on two inputs of the bundled model, traced."""
    root = tmp_path_factory.mktemp("traced")
    it = cell(root, "trace=true", "limit=2", "max_new_tokens=40", "generate_check=0", versus=("token_recycling",))
    assert run(it) == 0
    return root, it


@pytest.fixture(scope="module")
def stream(tmp_path_factory) -> Path:
    """Both methods on twelve inputs of the scripted model, which never stops by itself, traced."""
    root = tmp_path_factory.mktemp("stream")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScriptedModel, "stop_ids", ())
        run(scripted(root, "trace=true", "limit=12", methods=METHODS))
    return root


def built(root: Path) -> str:
    return page(root, root / "figures")


def embedded(text: str) -> dict:
    return json.loads(re.search(r'id="steps-data">(.*?)</script>', text, re.DOTALL)[1])


def rewritten(root: Path, copy: Path, name: str, change) -> Path:
    """A copy of a results root in which `change` has been made to every line of RECAP's file `name`."""
    shutil.copytree(root, copy)
    folder = next(copy.rglob("recap-*"))
    lines = []
    for line in read_lines(folder / name):
        change(line)
        lines.append(encode(line))
    (folder / name).write_bytes(b"".join(lines))
    inputs = list(read_lines(folder / "inputs.jsonl"))
    inputs[-1][name.removesuffix(".jsonl")] = sum(map(len, lines))
    (folder / "inputs.jsonl").write_bytes(b"".join(map(encode, inputs)))
    return copy


class Page(HTMLParser):
    """Elements and attributes; raises AssertionError where the nesting is broken."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.ids: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, key, value or "") for key, value in attrs]
        self.ids += [value for key, value in attrs if key == "id"]
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open and self._open.pop() == tag, f"</{tag}> closes another element"


def test_a_page_is_whole_and_needs_nothing_from_outside(traced):
    text = built(traced[0])
    parsed = Page(text)
    assert {"table", "select", "button", "script", "style"} <= set(parsed.tags)
    assert len(parsed.ids) == len(set(parsed.ids))
    outside = [a for a in parsed.attributes if re.match(r"\s*(https?:)?//", a[2]) and a[:2] != ("a", "href")]
    assert not outside
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|import\(", text)
    assert {value.split("?")[0][:5] for tag, key, value in parsed.attributes if key == "src"} <= {"data:"}
    assert len(text.encode()) < 3_000_000


def test_a_page_tells_the_verdict_the_alarms_and_what_was_run(traced):
    root, it = traced
    text = built(root)
    assert f"✓ All {sum(len(c.frame) for c in walk(root))} outputs are those of plain decoding" in text
    for method in METHODS:
        summary = json.loads((it.folder(method) / "summary.json").read_text())
        for told in (*summary["alarms"], summary["contract"]["hash"], summary["versions"]["torch"], summary["source"]):
            assert told in text
    assert "traced, and what tracing costs was not measured here" in text
    for title in ("Acceptance by memory", "Acceptance by depth", "Cost of a"):
        assert title in text
    assert "Other benchmarks" not in text, "a traced cell's speeds stand in no table of the paper"


def test_numbers_stand_to_the_right_and_words_to_the_left():
    frame = pd.DataFrame({
        "scope": ["120 inputs", "all"], "hash": ["9832ea0c", "17"], "tau": [1.5, None], "tau_low": [-1.0, None],
        "tau_high": [2.0, None], "share": ["4.8% of 330", ""], "count": [3, 4],
    })  # fmt: skip
    text = html(Table("t", "Title & more", "", frame))
    found = {name for kind, name in re.findall(r'<th scope="col"( class="number")?>(\w+)</th>', text) if kind}
    assert found == {"tau", "share", "count"}
    assert '<td class="number">1.50 [-1.00, 2.00]</td>' in text and "<caption>Title &amp; more</caption>" in text


def test_equal_records_give_an_equal_page(traced):
    assert built(traced[0]) == built(traced[0])


def test_text_from_outside_stays_text(tmp_path, monkeypatch):
    rows = [Row(f"<i>{k}</i>", f"kind {HOSTILE}", (f"question {HOSTILE} {k}",), (None,)) for k in range(9)]
    monkeypatch.setattr(Synthetic, "rows", lambda self, limit=None: iter(rows[:limit]))
    monkeypatch.setattr(Synthetic, "score", lambda *_: None)
    run(scripted(tmp_path, "trace=true", "limit=9"))
    text = built(tmp_path)
    parsed = Page(text)
    assert parsed.tags.count("script") == 2 and not {"b", "i"} & set(parsed.tags)
    known = {row.id: (row.category, row.turns[0]) for row in rows}
    shown = embedded(text)["requests"]
    assert shown and all(known[it["row"]] == (it["category"], it["question"]) for it in shown)
    assert json.loads(as_script({"text": HOSTILE})) == {"text": HOSTILE} and "<" not in as_script({"text": HOSTILE})
    assert "innerHTML" not in text and "outerHTML" not in text and "insertAdjacentHTML" not in text


def test_an_output_that_differs_is_told_with_place_tokens_gap_and_cause(traced, tmp_path):
    def differing(record):
        if record["index"] == 1:
            record["verdict"] = {"kind": "tie", "at": 17, "expected": 5, "found": 6, "gap": 0.0001234,
                                 "repeatable": True, "texts": [" red", " <blue>"]}  # fmt: skip

    root = rewritten(traced[0], tmp_path / "copy", "records.jsonl", differing)
    text = built(root)
    requests = sum(len(c.frame) for c in walk(root))
    differ = int((walk(root)[0].frame["index"] == 1).sum())
    assert f"✗ {differ} of {requests} outputs differ" in text
    assert "blue" not in Page(text).tags, "a token's text stays text in a table too"
    row = re.search(r"<tr>(?:(?!</tr>).)*<td[^>]*>17</td>.*?</tr>", text)[0]
    for told in ("' red' (5)", "' <blue>' (6)", "0.000123", "tie", "yes"):
        assert told in row.replace("&lt;", "<").replace("&gt;", ">").replace("&#x27;", "'")
    first = next(r for r in embedded(text)["requests"] if "differs from AR" in r["why"])
    assert "token 17: ' <blue>' (6) instead of ' red' (5)" in first["verdict"]


def test_every_shown_step_is_the_recorded_one_and_every_id_has_a_text(traced):
    root, it = traced
    shown = embedded(built(root))
    assert len(shown["cells"]) == 2 and {r["cell"] for r in shown["requests"]} == {0, 1}
    assert all(image.startswith("data:image/png;base64,") for image in shown["images"])
    for request in shown["requests"]:
        folder = it.folder(METHODS[request["cell"]])
        recorded = [
            [line[key] for key in ("tokens", "parents", "sources", "path", "committed")]
            for line in read_lines(folder / "steps.jsonl")
            if (line["row"], line["turn"]) == (request["row"], request["turn"])
        ]
        assert request["steps"] == recorded
        tokens = {request["first"]}.union(*(step[0] + step[4] for step in recorded))
        assert {int(token) for token in request["texts"]} == tokens
        assert request["question"] and request["question"] in request["prompt"] and request["images"]
    assert len(shown["images"]) == len(set(shown["images"])) <= 2, "a picture stands in the page once"


def test_the_shown_requests_are_the_telling_ones_of_every_cell(stream):
    cells = walk(stream)
    for it in cells:
        frame, chosen = it.frame[it.frame.steps_method > 0], [one for one in choose(cells) if one.cell is it]
        why = {reason: one.key for one in chosen for reason in one.why}
        rate = accepted_per_step(frame)
        for word, place in (("lowest", rate.idxmin()), ("highest", rate.idxmax())):
            assert why[f"{word} tau"] == (frame.row[place], frame.turn[place])
        for category, part in frame.groupby("category"):
            assert why[f"first of {category}"] == (part.row.iloc[0], part.turn.iloc[0])
        shown = [one.key for one in chosen]
        assert shown == [key for key in zip(frame.row, frame.turn, strict=True) if key in shown], "in stream order"
    few = choose(cells, most=4)
    assert len(few) == 4 and {one.cell.method for one in few} == set(METHODS)


def test_outputs_that_differ_are_shown_first(stream, tmp_path):
    def differing(record):
        if record["index"] in (8, 9):
            record["verdict"] |= {"kind": "unknown", "at": 0, "expected": 1, "found": 2}

    root = rewritten(stream, tmp_path / "copy", "records.jsonl", differing)
    cells = walk(root)
    shown = steps_data(choose(cells, most=3), {cell: cell.method for cell in cells})
    assert sum(request["why"][0] == "differs from AR" for request in shown["requests"]) >= 2


def test_a_run_without_traces_says_how_to_get_them(tmp_path):
    run(scripted(tmp_path))
    text = built(tmp_path)
    assert "<code>trace=true</code>" in text and "steps-data" not in Page(text).ids


def test_a_cell_that_did_not_finish_is_an_alarm(tmp_path):
    run(scripted(tmp_path))
    other = scripted(tmp_path, "method.budget=7")
    other.queue()
    status = other.folder("recap") / "status.json"
    status.write_text(json.dumps(json.loads(status.read_text()) | {"state": "failed", "error": "out of <memory>\nat"}))
    text = built(tmp_path)
    assert "not complete, so in no table (failed: out of &lt;memory&gt;)" in text
    assert other.folder("recap").name in text


def test_figures_are_embedded_once_the_vector_form_before_the_raster(tmp_path):
    run(scripted(tmp_path))
    figures = tmp_path / "figures"
    figures.mkdir()
    Image.new("RGB", (4, 4)).save(figures / "step_cost.png")
    Image.new("RGB", (4, 4)).save(figures / "tau.png")
    (figures / "tau.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"/>')
    parsed = Page(page(tmp_path, figures))
    assert [value for tag, key, value in parsed.attributes if (tag, key) == ("img", "alt")] == ["step cost", "tau"]
    sources = [value.split(";")[0] for tag, key, value in parsed.attributes if (tag, key) == ("img", "src")]
    assert sources == ["data:image/png", "data:image/svg+xml"]


def command(monkeypatch, *words: Path | str) -> None:
    monkeypatch.setattr(sys, "argv", ["report", *map(str, words)])
    main()


def test_the_command_writes_the_page_and_names_it(stream, tmp_path, monkeypatch, capsys):
    file = tmp_path / "new" / "it.html"
    command(monkeypatch, stream, "--out", file)
    assert capsys.readouterr().out.startswith(str(file))
    assert Page(file.read_text()).tags


@pytest.mark.parametrize("words,error", [
    ((), "no finished cell below it"),
    (("--out", "."), "is a folder; name a file"),
    (("--figures", "nowhere"), "no such folder"),
])  # fmt: skip
def test_bad_input_is_one_line(tmp_path, monkeypatch, words, error):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=error):
        command(monkeypatch, tmp_path, *words)


def test_of_many_alarms_the_first_are_shown_and_those_on_slow_methods_come_last(tmp_path):
    for k in range(ALARMS + 2):
        folder = cells.write(tmp_path, cells.records(5, 1.5), options={"budget": k + 1})
        told = f"{k}0% of inputs decode slower than AR" if k else "the device slowed its clocks"
        summary = json.loads((folder / "summary.json").read_text())
        (folder / "summary.json").write_text(json.dumps(summary | {"alarms": [told], "traced": False}))
    text = _alarms(tmp_path, Run.of(walk(tmp_path)))
    shown, folded = text.split("<details>")
    assert shown.index("slowed its clocks") < shown.index("slower than AR")
    assert shown.count("<li>") == ALARMS and folded.startswith("<summary>2 more alarms")
