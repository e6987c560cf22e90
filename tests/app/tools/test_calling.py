"""Calls and results as a model reads them, and results within bounds."""

import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as some

from app.tools.arguments import arguments_problem
from app.tools.calling import CollectedCalls, ToolUse, with_results, without_calls
from app.tools.results import bounding, cut_to, most_tokens, result_of
from app.tools.tool import KnownTool, full_name, without_clashes
from engine.answers.passages import Call
from engine.answers.reader import read
from engine.protocol import CallPart, ToolCall
from tests.engine.answers.written import ANSWERS

CALLING = [name for name, (_, parts) in ANSWERS.items() if any(isinstance(p, Call) for p in parts)]


@pytest.mark.parametrize("family", CALLING)
def test_the_text_without_its_calls_in_every_syntax(family: str) -> None:
    written, parts = ANSWERS[family]
    left, _ = read(without_calls(written))
    assert [p.text for p in left if p.kind == "thought"] == [
        part[1] for part in parts if not isinstance(part, Call) and part[0] == "thought"
    ]
    assert not any(passage.call for passage in left)


def test_collected() -> None:
    collected = CollectedCalls()
    for part in (
        CallPart(1, "", "b", "{}"), CallPart(0, "x", "a"), CallPart(0, arguments='{"n"'),
        CallPart(0, arguments=": 1}"), CallPart(2, "x", "c"),
    ):  # fmt: skip
        collected.add(part)
    assert collected.calls == [
        ToolCall("x", "a", '{"n": 1}'), ToolCall("call_1", "b", "{}"), ToolCall("x_2", "c", ""),
    ]  # fmt: skip


def test_results_follow_the_calls() -> None:
    text = 'Wait.<tool_call>{"name": "a", "arguments": {}}</tool_call>'
    uses = [ToolUse("1", "a", "{}", "done", "7"), ToolUse("2", "b", "{broken", "failed", "no")]
    answer, *results = with_results(text, uses)
    assert (answer.content, [c.arguments for c in answer.calls]) == ("Wait.", ["{}", "{}"])
    assert [(r.role, r.call_id, r.content) for r in results] == [
        ("tool", "1", "7"), ("tool", "2", "no"),
    ]  # fmt: skip


@given(some.text(max_size=400), some.integers(8, 300))
def test_bounded_by_tokens(text: str, most: int) -> None:
    """A token is a character here: what comes out has no more than allowed, or is a note."""
    cutting = bounding(text * 10, most)
    try:
        asked = next(cutting)
        while True:
            asked = cutting.send(len(asked.encode("utf-8", "surrogatepass")))
    except StopIteration as done:
        made = str(done.value)
    short = len((text * 10).encode("utf-8", "surrogatepass")) <= most
    assert made == text * 10 if short else "left out" in made
    assert len(made) <= most + 50


@given(some.text(max_size=200), some.integers(0, 400))
def test_bounded_by_bytes(text: str, most: int) -> None:
    made = cut_to(text, most)
    assert made == text or "left out" in made


def test_a_quarter_of_the_context() -> None:
    assert [most_tokens(n) for n in (0, 2048, 200_000)] == [16_000, 512, 16_000]


def test_unknown_content_is_named() -> None:
    blocks = [
        SimpleNamespace(type="audio"), SimpleNamespace(type="resource_link", uri="file:///x"),
        SimpleNamespace(type="image", data="%%%"), SimpleNamespace(type="text", text="a\ud800"),
    ]  # fmt: skip
    made = result_of(SimpleNamespace(content=blocks, structured_content=None, is_error=False))
    assert made.text == "[audio left out]\n[link file:///x]\n[picture left out]\na?"
    given_back = SimpleNamespace(content=[], structured_content={"a": 1}, is_error=True)
    assert result_of(given_back).text == 'error: {"a": 1}'


def test_clashing_and_long_names_are_left_out() -> None:
    names = ["a", "b", "b", "c" * 80]
    tools = [KnownTool("s", "h", name, full_name("s", name)) for name in names]
    tools.append(KnownTool("s", "h", "d", "s__d", "x" * 20_000))
    kept, notes = without_clashes(tools)
    assert [tool.full for tool in kept] == ["s__a"]
    assert len(notes) == 3
    assert full_name("s", "x.y z") == "s__x_y_z"


@pytest.mark.parametrize(
    ("schema", "arguments", "problem"),
    [
        ({"type": "object", "required": ["a"]}, "{}", "'a' is a required property"),
        ({"properties": {"a": {"type": "integer"}}}, '{"a": "1"}', "a: '1' is not of type"),
        ({"properties": {"a": {"enum": [1]}}}, '{"a": 1}', ""),
        ({"additionalProperties": False}, '{"b": 1}', "Additional properties"),
        ({"patternProperties": {"(a|aa)+$": {}}}, json.dumps({"a" * 60 + "!": 1}), ""),
        ({"$ref": "file:///etc/passwd"}, "{}", "schema is not valid"),
        ([], "{}", "schema is not valid"),
    ],
)
def test_arguments(schema: object, arguments: str, problem: str) -> None:
    pytest.importorskip("jsonschema")
    made = arguments_problem(json.dumps(schema), arguments)
    assert problem in made if problem else made == ""
