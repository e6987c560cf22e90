"""Sums, differences and exports of a recorded answer, against numbers reckoned by hand."""

import json

import pytest

from app.state.profile.recorded import (
    RecordedAnswer,
    as_json,
    chrome_trace,
    differences,
    layer_of_node,
    summary,
)
from tests.app.helpers.recorded import US, recorded


@pytest.fixture
def answer() -> RecordedAnswer:
    return RecordedAnswer(recorded(), "SmolLM2", 1_800_000_000.0)


def test_sums_by_each_measure(answer: RecordedAnswer) -> None:
    by_op = {t.name: t for t in answer.totals("operation", "decode")}
    assert {n: (t.count, t.ns) for n, t in by_op.items()} == {
        "MUL_MAT": (16, 160 * US),
        "ADD": (16, 32 * US),
        "ROPE": (16, 16 * US),
    }
    assert list(by_op) == ["MUL_MAT", "ADD", "ROPE"], "the longest first"
    matmul = by_op["MUL_MAT"]
    assert (matmul.bytes, matmul.flops) == (16 * 40_000, 16 * 80_000)
    assert matmul.bytes_per_s == pytest.approx(4e9)
    assert matmul.intensity == pytest.approx(2)
    layers = answer.totals("layer", "prefill")
    assert {t.name for t in layers} == {f"layer {i}" for i in range(4)}
    assert {t.ns for t in layers} == {83 * US}
    assert {t.name: t.count for t in answer.totals("device", "decode")} == {
        "intel:0": 24,
        "nvidia:0": 24,
    }
    kernels = [t.name for t in answer.totals("kernel", "decode")]
    assert kernels[:2] == ["intel:0 gemv Q4_1", "nvidia:0 gemv Q4_1"]
    assert sum(t.ns for t in answer.totals("kernel", "decode")) == 208 * US


def test_steps_and_cost(answer: RecordedAnswer) -> None:
    assert (answer.n_steps("prefill"), answer.n_tokens("prefill")) == (1, 32)
    assert (answer.n_steps("decode"), answer.n_tokens("decode")) == (4, 4)
    assert answer.cost == pytest.approx(0.1)
    said = " ".join(summary(answer))
    assert "Answer: 4 tokens in 4 steps, 0.06 ms each." in said
    assert "recording cost +10 %" in said
    assert "let go" not in said


def test_what_is_selected_is_found(answer: RecordedAnswer) -> None:
    longest = answer.longest("operation", "MUL_MAT", "prefill")
    assert longest is not None
    assert answer.steps_of[longest] == 0
    at = answer.find("Qcur-2", 2, "intel:0", "decode", None)
    assert at is not None
    assert answer.kind(at).name == "Qcur-2"
    assert answer.record.steps[answer.steps_of[at]].phase == "decode"
    near = answer.find(None, 3, None, "decode", at)
    assert near is not None
    assert answer.steps_of[near] == answer.steps_of[at], "in the step that is looked at"
    assert answer.kind(near).name == "Qcur-3", "the first of the layer"
    assert answer.find("Qcur-2", 2, "intel:0", "decode", at) == at
    assert answer.find("Qcur-9", None, None, "decode", at) is None
    assert answer.find(None, None, None, "decode", at) is None


def test_two_answers_compared(answer: RecordedAnswer) -> None:
    slower = RecordedAnswer(recorded(us=15), "SmolLM2", 1.0)
    found = differences(answer, slower, "operation", "decode")
    assert (found[0].name, found[0].change) == ("MUL_MAT", pytest.approx(20 * US))
    assert {d.name: d.change for d in found[1:]} == {"ADD": 0, "ROPE": 0}
    fewer = RecordedAnswer(recorded(n_layer=2), "SmolLM2", 1.0)
    gone = {d.name: (d.before, d.after) for d in differences(answer, fewer, "layer", "decode")}
    assert gone["layer 3"] == (13 * US, None)


def test_a_trace_holds_every_launch_on_one_clock(answer: RecordedAnswer) -> None:
    events = json.loads(json.dumps(chrome_trace(answer)))["traceEvents"]
    launches = [e for e in events if e["ph"] == "X" and e["tid"]]
    assert len(launches) == len(answer.kinds) == 60
    rows = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert sorted(rows.values()) == ["host", "intel:0", "nvidia:0"]
    assert [e["ts"] * 1e3 for e in launches] == pytest.approx(answer.starts.tolist())
    assert launches[0]["args"]["tensor"] == "Qcur-0"


def test_its_numbers_for_programs(answer: RecordedAnswer) -> None:
    (data,) = as_json([answer])
    assert len(data["launches"]) == 60
    step, kind, start, end, size, flops = data["launches"][13]
    assert (step, data["kinds"][kind]["name"], end - start) == (1, "Qcur_rope-0", US)
    assert (size, flops) == (100, 50)


def test_layers_of_nodes() -> None:
    assert layer_of_node("Qcur-3") == 3
    assert layer_of_node("cache_k_l12 (view)") == 12
    assert layer_of_node("result_output") is None


def test_nothing_recorded_has_no_sums() -> None:
    told = recorded(n_steps=0)
    empty = RecordedAnswer(type(told)(0, [], [], 0, 0, 1, 0), "m", 0.0)
    assert empty.totals("operation", "decode") == []
    assert empty.cost is None
    assert chrome_trace(empty)["traceEvents"]
