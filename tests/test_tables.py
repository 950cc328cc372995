"""The paper's tables from finished cells: what stands where, beside what, and in which words."""

import re
from dataclasses import replace

import numpy as np
import pytest

from analysis import published, tables
from analysis.cells import walk
from analysis.published import MMSPEC, PRESETS, SINGLE_TURN
from analysis.render import FORMATS, Table, console, latex, markdown
from tests.cells import record, records, write
from tests.test_config import compose

TOPICS = ("chart understanding", "general vqa")


FULL = 40  # inputs of a benchmark in these tests, where the paper has 1,000 or 600


@pytest.fixture(autouse=True)
def small_scopes(monkeypatch):
    """The paper's scopes with fewer inputs each."""
    small = {scope: replace(scope, inputs=FULL) for scope in (published.SEVEN, published.ALL_MMSPEC)}
    monkeypatch.setattr(tables, "SEVEN", small[published.SEVEN])
    monkeypatch.setattr(tables, "ALL_MMSPEC", small[published.ALL_MMSPEC])
    monkeypatch.setattr(tables, "RESULTS", [replace(r, scope=small[r.scope]) for r in published.RESULTS])


def made(root) -> dict[str, Table]:
    return {table.name: table for table in tables.tables(walk(root))}


def line(table: Table, **where):
    frame = table.frame
    for key, value in where.items():
        frame = frame[frame[key] == value]
    assert len(frame) == 1, frame
    return frame.iloc[0]


def seven(root, speedup: float = 1.66, n: int = FULL, **kind) -> None:
    for bench in SINGLE_TURN:
        write(root, records(n, speedup), bench=bench, **({"model": "qwen", "source": "hub/x@1"} | kind))


@pytest.mark.parametrize("method", PRESETS)
def test_the_papers_form_of_a_method_is_the_one_its_file_describes(method):
    assert dict(compose(f"method={method}").method) == PRESETS[method]


def test_without_a_cell_of_the_papers_models_every_published_number_is_not_run(tmp_path):
    write(tmp_path, records(12, 1.5))
    for name, count in (("single_turn", 4), ("mmspec", 4)):
        frame = made(tmp_path)[name].frame
        assert len(frame) == count and set(frame.speedup_verdict) == {"not run"}
        assert frame.tau.isna().all() and frame.end_to_end.isna().all()


def test_complete_cells_are_judged_on_tau_and_on_speed_apart(tmp_path):
    seven(tmp_path, speedup=1.2)
    mean = line(made(tmp_path)["single_turn"], model="qwen", method="recap", inputs_of="mean")
    assert mean.tau == pytest.approx(3.0) and mean.tau_verdict == "reproduced"
    assert mean.end_to_end == pytest.approx(1.2, abs=0.01) and mean.speedup_verdict == "differs"


def test_the_mean_is_unweighted_over_the_sets(tmp_path):
    for k, bench in enumerate(SINGLE_TURN):
        write(tmp_path, records(10 * (k + 1), 1 + k), bench=bench, source="fixtures-1")
    frame = made(tmp_path)["single_turn"]
    assert line(frame, inputs_of="mean", model="tiny_qwen").decode_only == pytest.approx(4.0, rel=1e-3)


def test_there_is_no_mean_over_fewer_sets(tmp_path):
    for bench in SINGLE_TURN[:-1]:
        write(tmp_path, records(12, 1.5), bench=bench, source="fixtures-1")
    frame = made(tmp_path)["single_turn"].frame
    assert "mean" not in set(frame[frame.model == "tiny_qwen"].inputs_of)


@pytest.mark.parametrize(
    "flaw",
    [
        {"n": FULL - 1},
        {"source": "fixtures-1"},
        {"model": "tiny_qwen"},
        {"options": {"budget": 31}},
        {"max_new_tokens": 8},
    ],
    ids=str,
)
def test_anything_less_than_the_papers_runs_is_not_run(tmp_path, flaw):
    seven(tmp_path, **flaw)
    frame = made(tmp_path)["single_turn"].frame
    published_lines = frame[frame.speedup_published.notna()]
    assert len(published_lines) == 4 and set(published_lines.speedup_verdict) == {"not run"}
    assert frame[frame.tau.notna()].speedup_published.isna().all()


def test_speeds_on_a_cpu_are_not_judged_and_tau_is(tmp_path):
    seven(tmp_path, device="cpu")
    mean = line(made(tmp_path)["single_turn"], model="qwen", method="recap", inputs_of="mean")
    assert (mean.tau_verdict, mean.speedup_verdict) == ("reproduced", "not run")


def test_mmspec_stands_by_topic_and_overall(tmp_path):
    lines = records(FULL, 1.89, TOPICS)
    write(tmp_path, lines, model="qwen", bench=MMSPEC, source="local-1", bench_options={"per_topic": None})
    frame = made(tmp_path)["mmspec"]
    for topic in TOPICS:
        assert line(frame, inputs_of=topic).inputs == FULL / 2
    overall = line(frame, inputs_of="overall", model="qwen", method="recap")
    assert (overall.inputs, overall.speedup_published, overall.speedup_verdict) == (FULL, 1.89, "reproduced")


def test_outputs_that_differ_from_plain_decoding_are_counted(tmp_path):
    lines = records(12, 1.5)
    lines[3]["verdict"]["kind"] = "tie"
    write(tmp_path, lines)
    assert line(made(tmp_path)["others"], method="recap").equal == 11


@pytest.mark.parametrize("bench", ["synthetic", "chartqa", MMSPEC])
def test_tables_of_generated_inputs_say_so_in_every_form(tmp_path, bench):
    write(tmp_path, records(12, 1.5), bench=bench, source=None if bench == "synthetic" else "fixtures-1")
    for table in made(tmp_path).values():
        for title, text in table.sections():
            if "model" in text and "tiny_qwen" in set(text.model):
                assert title.endswith("(generated fixtures)")
                assert f"# {title}\n" in markdown(table) and title in latex(table) and title in console(table)
                assert not {"tau_published", "speedup_verdict"} & set(text)


def test_options_that_tell_cells_of_one_method_apart_are_named(tmp_path):
    write(tmp_path, records(12, 1.5))
    write(tmp_path, records(12, 1.4), options={"budget": 31, "confidence": False})
    names = made(tmp_path)["others"].frame.method.tolist()
    assert names == ["recap (budget=31, confidence=false)", "recap (budget=63, confidence=true)"]


def test_outside_peers_stand_in_no_table(tmp_path):
    write(tmp_path, records(12, 1.5))
    write(tmp_path, records(12, 9.9), method="hf_generate", peer={"cache": "DynamicCache"})
    assert set(made(tmp_path)["others"].frame.method) == {"recap"}


def test_only_finished_cells_count(tmp_path):
    write(tmp_path, records(12, 1.5))
    for state in ("failed", "running"):
        write(tmp_path, records(12, 9.9), method=f"custom_{state}", state=state)
    assert set(made(tmp_path)["others"].frame.method) == {"recap"}


def test_an_empty_root_is_named(tmp_path):
    with pytest.raises(ValueError, match="no finished cell below it"):
        walk(tmp_path)


def test_two_copies_of_one_cell_are_named(tmp_path):
    for root in ("a", "b"):
        write(tmp_path / root, records(12, 1.5))
    with pytest.raises(ValueError, match=r"b/.* and .*a/.* are copies of one cell"):
        walk(tmp_path)


def test_equal_records_give_equal_bytes_wherever_they_lie(tmp_path):
    roots = [tmp_path / "here", tmp_path / "there" / "below"]
    for root, order in zip(roots, (1, -1), strict=True):
        for method in ("recap", "token_recycling")[::order]:
            write(root, records(12, 1.5), method=method)
            write(root, records(24, 1.4, TOPICS), method=method, bench=MMSPEC, source="fixtures-1")
    written = [
        {file.name: file.read_bytes() for file in tables.write(tables.tables(walk(root)), root / "tables")}
        for root in roots
    ]
    assert written[0] == written[1]
    names = ("single_turn", "mmspec", "ablations", "others", "trained_drafters")
    assert set(written[0]) == {f"{name}.{suffix}" for name in names for suffix in FORMATS}


def test_latex_is_balanced_and_escapes_what_it_must(tmp_path):
    write(tmp_path, records(24, 1.5, ("a_b & 50 %", "c#d")), bench=MMSPEC, source="fixtures-1")
    for table in made(tmp_path).values():
        text = latex(table)
        assert text.startswith(r"% needs \usepackage{booktabs}")
        body = text.split("\n", 1)[1]
        for environment in ("table*", "tabular"):
            assert body.count(rf"\begin{{{environment}}}") == body.count(rf"\end{{{environment}}}") > 0
        assert body.count("{") == body.count("}")
        assert not re.search(r"(?<!\\)[%_#$]", body)
        for rows, columns in zip(
            re.findall(r"\\toprule\n(.*?)\\bottomrule", body, re.S),
            re.findall(r"\\begin\{tabular\}\{([lr]+)\}", body),
            strict=True,
        ):
            for row in [row for row in rows.splitlines() if row != r"\midrule"]:
                assert row.endswith(r" \\") and len(re.findall(r"(?<!\\)&", row)) == len(columns) - 1


def test_every_row_of_a_markdown_table_has_its_headings_columns(tmp_path):
    write(tmp_path, records(12, 1.5, ("a|b",)), bench=MMSPEC, source="fixtures-1")
    text = markdown(made(tmp_path)["mmspec"])
    for block in re.findall(r"(?:^\|.*\n)+", text, re.M):
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in block.splitlines()}) == 1


def test_an_interval_stands_beside_its_value(tmp_path):
    write(tmp_path, [record(i, [2, 4] if i % 2 else [2, 2], 1.5) for i in range(20)])
    title, text = made(tmp_path)["others"].sections()[0]
    assert title == "Other benchmarks (generated fixtures)"
    assert re.fullmatch(r"2\.50 \[2\.\d\d, 2\.\d\d\]", text.tau[0])


def test_the_command_writes_every_table_below_the_root(tmp_path, capsys, monkeypatch):
    write(tmp_path, records(12, 1.5))
    monkeypatch.setattr("sys.argv", ["tables", str(tmp_path)])
    tables.main()
    printed = capsys.readouterr().out
    assert "Single-turn benchmarks" in printed and printed.strip().endswith("trained_drafters.tex")
    assert (tmp_path / "tables" / "others.csv").read_text().startswith("data,model,method,inputs_of,inputs,")


def test_the_command_names_what_it_cannot_read(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["tables", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"error: .*no finished cell"):
        tables.main()


def test_recaps_published_speedups_exceed_token_recyclings():
    by = {(r.model, r.scope.text, r.method): r.speedup for r in published.RESULTS}
    for model, scope, method in by:
        assert by[model, scope, "recap"] >= by[model, scope, method]
    assert np.isclose(sum(by.values()), 1.66 + 1.56 + 1.51 + 1.37 + 1.89 + 1.56 + 1.59 + 1.43)
