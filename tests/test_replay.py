"""A replay of recorded rows is the run that left them, as far as it was recorded; what was not is never made up."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines.autoregressive import Autoregressive
from baselines.lookahead import Lookahead
from baselines.prompt_lookup import PromptLookup
from baselines.racer import Racer
from baselines.sam_decoding import SamDecoding
from baselines.suffix_decoding import SuffixDecoding
from baselines.token_recycling import TokenRecycling
from recap.decode import generate
from recap.drafter import Drafter, Recap
from recap.types import Limits, Output, Request
from runners.benches.synthetic import Synthetic
from runners.folder import ROWS
from runners.models import Model
from runners.recall import NAMES, ColdMemory, recall
from runners.recorder import record
from runners.replay import Committed, main, replay
from runners.traces import TOP_K, Identity, Setting, Trace, open_traces, save
from tests.scripted import ScriptedTarget, hashed, request_of, script
from tests.strategies import FUSION, SHAPE, WORDS, streams, targets

NOWHERE = Identity("row", 0, "all", "")
REQUEST = [3, 1, 4, 1, 5, 9, 2, 6]
METHODS = {
    "token_recycling": TokenRecycling,
    "token_recycling_seeded": lambda: TokenRecycling(prefill="unigram"),
    "prompt_lookup": PromptLookup,
    "sam_decoding": SamDecoding,
    "suffix_decoding": SuffixDecoding,
    "racer": Racer,
}
learners = st.fixed_dictionaries(
    {
        **FUSION,
        **SHAPE,
        "suffix": st.integers(0, 5),
        "prefill": st.sampled_from(("unigram", "none")),
        "m1": st.sampled_from(("stream", "request")),
    }
)


def setting_of(request: Request, limits: Limits) -> Setting:
    placeholders = request.placeholders
    return Setting("scripted", "script", request.vocab_size, placeholders, limits.stop_ids, limits.max_new_tokens)


def trace_of(target, request: Request, limits: Limits, identity: Identity = NOWHERE) -> Trace:
    tokens = generate(target, Autoregressive(), request, limits).tokens
    return record(target, request, tokens, identity, limits.stop_ids)


def steps_of(output: Output) -> list[tuple]:
    """All that a run proposed and settled."""
    return [
        (step.draft.tokens.tolist(), step.draft.parents.tolist(), step.path.tolist(), step.committed.tolist())
        for step in output.steps
    ]


def live_and_replayed(target, live: Drafter, again: Drafter, stream: list[Request], limits: Limits):
    """The steps of every request, decoded and replayed."""
    traces = [trace_of(target, request, limits) for request in stream]
    outputs = [generate(target, live, request, limits) for request in stream]
    replayed = [output for _, output, _ in replay(again, setting_of(stream[0], limits), traces)]
    return [steps_of(output) for output in outputs], [steps_of(output) for output in replayed]


@given(targets, streams(), learners)
def test_a_replay_of_recap_that_learns_from_committed_nodes_is_the_live_run_step_by_step(predict, stream, switches):
    limits = stream[0][1]
    live, again = (Recap(learn="committed", **switches) for _ in range(2))
    decoded, replayed = live_and_replayed(
        ScriptedTarget(predict), live, again, [request for request, _ in stream], limits
    )
    assert decoded == replayed


@settings(max_examples=25)
@given(targets, streams(), st.sampled_from(sorted(METHODS)))
def test_a_replay_of_any_method_is_a_live_run_that_withholds_what_was_not_recorded(predict, stream, name):
    limits = stream[0][1]
    live, again = Committed(METHODS[name]()), METHODS[name]()
    decoded, replayed = live_and_replayed(
        ScriptedTarget(predict), live, again, [request for request, _ in stream], limits
    )
    assert decoded == replayed


@pytest.mark.parametrize("m1", ["stream", "request"])
def test_what_m1_learnt_in_one_request_is_there_in_the_next_of_a_replay_too(m1):
    target, limits = ScriptedTarget(hashed(WORDS, window=1)), Limits(40)
    stream = [request_of([1, 2, 3], WORDS), request_of([4], WORDS)]
    switches = {"learn": "committed", "prefill": "none", "suffix": 0, "fusion": "unigram", "m1": m1}
    decoded, replayed = live_and_replayed(target, Recap(**switches), Recap(**switches), stream, limits)
    assert decoded == replayed
    assert bool(replayed[1][0][0]) == (m1 == "stream"), "the second request's first draft"


def test_unknown_rows_are_counted_where_a_method_would_have_learnt_from_them():
    target, limits = ScriptedTarget(hashed(WORDS, drift=7)), Limits(30)
    request = request_of(REQUEST, WORDS)
    setting, trace = setting_of(request, limits), trace_of(target, request, limits)
    for drafter, needs in ((Recap(), True), (Recap(learn="committed"), False), (PromptLookup(), False)):
        [(_, output, unknown)] = replay(drafter, setting, [trace])
        off = sum(len(step.draft) - len(step.path) for step in output.steps)
        assert off > 0 and unknown == off * needs


def test_the_row_after_the_last_token_is_recorded_as_a_step_that_accepts_it_would_write_it():
    target, limits = ScriptedTarget(hashed(WORDS, window=1)), Limits(12)
    trace = trace_of(target, request_of(REQUEST, WORDS), limits)
    assert len(trace.rows) == len(trace.tokens) == 12
    assert trace.rows.ids[:-1, 0].tolist() == trace.tokens[1:].tolist()


def test_a_trace_follows_the_target_where_it_leaves_the_given_tokens_and_ends_with_a_stop_id():
    target = ScriptedTarget(script(len(REQUEST), [5, 6, 7, 2, 9]))
    trace = record(target, request_of(REQUEST), np.array([5, 6, 8, 8, 8]), NOWHERE, stop_ids=(2,))
    assert trace.tokens.tolist() == [5, 6, 7, 2]
    assert trace.rows.ids[:, 0].tolist() == [6, 7, 2, 9]


def test_a_placeholder_that_was_emitted_is_verified_alone():
    target = ScriptedTarget(script(len(REQUEST), [5, 11, 7, 8]))
    trace = record(target, request_of(REQUEST, placeholders=[11]), np.array([5, 11, 7, 8]), NOWHERE)
    assert trace.tokens.tolist() == [5, 11, 7, 8]


def test_a_file_gives_its_traces_back_whole(tmp_path):
    target, limits = ScriptedTarget(hashed(WORDS)), Limits(20, (3,))
    requests = [request_of([1, 10, 10, 2], WORDS, placeholders=[10]), request_of([7], WORDS, placeholders=[10])]
    traces = [trace_of(target, each, limits, Identity(f"r{i}", i, "c", "")) for i, each in enumerate(requests)]
    setting = setting_of(requests[0], limits)
    save(tmp_path / ROWS, setting, traces)
    known, read = open_traces(tmp_path / ROWS)
    assert known == setting
    for trace, again in zip(traces, read, strict=True):
        for name in Trace.__dataclass_fields__:
            one, other = getattr(trace, name), getattr(again, name)
            if name in ("seed", "rows"):
                assert np.array_equal(one.ids, other.ids) and np.array_equal(one.probs, other.probs)
            else:
                assert np.array_equal(one, other, equal_nan=name.endswith("mass")), name


def test_a_file_that_is_not_whole_or_not_there_is_refused(tmp_path):
    with pytest.raises(ValueError, match="run the cell with record=rows"):
        open_traces(tmp_path / ROWS)
    (tmp_path / ROWS).write_bytes(b"PAR1 and then nothing")
    with pytest.raises(ValueError, match=r"rows\.parquet: not a whole parquet file"):
        open_traces(tmp_path / ROWS)
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / ROWS)
    with pytest.raises(ValueError, match="schema None where 1 is expected"):
        open_traces(tmp_path / ROWS)


@pytest.mark.parametrize(
    "drafter,message",
    [
        (Recap(top_k=TOP_K + 1), r"method\.top_k=9: rows were recorded 8 wide"),
        (Recap(prefill="all"), r"method\.prefill: rows were recorded at the first and the last occurrence"),
        (Lookahead(), "method: Lookahead drafts nodes for their rows alone"),
    ],
)
def test_what_a_trace_does_not_hold_is_refused_by_key(drafter, message):
    limits, request = Limits(12), request_of([1, 2, 1, 2, 1, 2], WORDS)
    trace = trace_of(ScriptedTarget(hashed(WORDS)), request, limits)
    with pytest.raises(ValueError, match=message):
        replay(drafter, setting_of(request, limits), [trace])


def expected_recall(trace: Trace, placeholders) -> dict[str, tuple[int, int, int]]:
    """M1, M2, M3 and backoff by dictionaries: key -> ids of its latest row."""
    maps: list[dict[tuple, list[int]]] = [{}, {}, {}]

    def ids(row) -> list[int]:
        return [token for token in row.tolist() if token not in placeholders]

    text = trace.prompt.tolist()
    for at in reversed(range(len(text))):  # so that the first occurrence is written last
        if text[at] >= 0:
            row = trace.seed.ids[trace.positions.tolist().index(text.index(text[at]))]
            maps[0][text[at],] = ids(row)
    counts = {name: [0, 0, 0] for name in ("M1", "M2", "M3", "backoff")}
    emitted = [-1 if token in placeholders else token for token in trace.tokens.tolist()]
    for at, row in enumerate(trace.rows.ids[:-1]):
        history = [*text, *emitted[: at + 1]]
        keys = [tuple(history[-n:]) if len(history) >= n and min(history[-n:]) >= 0 else None for n in (1, 2, 3)]
        found = [known.get(key, []) for known, key in zip(maps, keys, strict=True)]
        found.append(found[2] or found[1] or found[0])
        for count, row_ids in zip(counts.values(), found, strict=True):
            count[0] += 1
            count[1] += bool(row_ids)
            count[2] += int(row[0]) in row_ids
        for known, key in zip(maps, keys, strict=True):
            if key is not None and ids(row):
                known[key] = ids(row)
    return {name: tuple(count) for name, count in counts.items()}


@given(targets, streams())
def test_coverage_and_hits_are_those_of_plain_dictionaries(predict, stream):
    request, limits = stream[0]
    trace = trace_of(ScriptedTarget(predict), request, limits)
    counts = recall(trace, setting_of(request, limits))
    assert tuple(counts) == NAMES
    expected = expected_recall(trace, request.placeholders)
    assert {name: counts[name] for name in expected} == expected
    for name in ("uniform", "mixture"):
        assert counts[name][:2] == counts["backoff"][:2], "a mixture knows what its most specific row knows, or more"


def test_full_probabilities_weigh_a_row_by_the_share_of_the_vocabulary_that_it_holds():
    tokens = [1, 2, 3, 4, 2, 5, 1, 2, 3]  # at the end (1, 2) was last followed by 3, and 2 alone by 5
    predict = script(1, tokens, WORDS)
    target = ScriptedTarget(lambda path, image: [10 * logit for logit in predict(path, image)])
    request, limits = request_of([9], WORDS), Limits(len(tokens))
    trace, setting = trace_of(target, request, limits), setting_of(request, limits)
    faint = np.where(np.arange(len(tokens)) == 1, 1e-3, 0.5)  # the row that (1, 2) is to get holds next to nothing

    def candidates(trace: Trace, mass, source: str) -> list[int]:
        memory = ColdMemory(trace, setting, trace.rows, trace.seed, mass, np.ones(len(trace.positions)))
        for at in range(7):
            memory.learn(at)
        return memory.candidates(source, 7).tolist()

    for source, topk, full in (("uniform", [3, 5], [5, 3]), ("mixture", [3, 5], [5, 3]), ("backoff", [3, 0], [3, 0])):
        assert candidates(trace, None, source)[:2] == topk
        assert candidates(trace, np.full(len(tokens), 0.5), source)[:2] == topk
        assert candidates(trace, faint, source)[:2] == full
    with pytest.raises(ValueError, match="probs=full: these rows were recorded without their masses"):
        recall(trace, setting, "full")


def test_on_the_bundled_model_a_replay_has_the_tau_of_the_live_run():
    model = Model("assets/tiny_qwen", dtype="float64")
    limits = Limits(30, model.stop_ids)
    bench, live, traces, steps = Synthetic(), Recap(learn="committed"), [], []
    for row in bench.rows(3):
        images = row.open_images()
        request = model.request(model.inputs(bench.messages(row, 0, [], len(images)), images), limits)
        traces.append(trace_of(model.target, request, limits))
        steps.append(steps_of(generate(model.target, live, request, limits)))
    replayed = replay(Recap(learn="committed"), setting_of(request, limits), traces)
    assert [[s[3] for s in steps_of(output)] for _, output, _ in replayed] == [[s[3] for s in one] for one in steps]
    assert any(len(step[2]) > 2 for one in steps for step in one)


def test_the_command_line_refuses_by_name(tmp_path, capsys):
    assert main([str(tmp_path)]) == 2
    assert "no rows.parquet below it; run a cell with record=rows" in capsys.readouterr().err
