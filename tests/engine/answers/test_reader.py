"""Answers of every family, whole and in any pieces: thoughts, text and calls, and nothing lost."""

import json
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.answers.forms import ANY, MARKS, form_of, opened
from engine.answers.passages import Call, Passage
from engine.answers.reader import AnswerReader, merged, read
from tests.engine.answers.written import ANSWERS, MALFORMED, WEATHER

RAIN = '{"city": "Zürich <b>", "days": 2}'


def shape(parts: list[Passage]) -> list[object]:
    return [p.call if p.kind == "call" else (p.kind, p.text) for p in merged(parts)]


@pytest.mark.parametrize("name", ANSWERS)
def test_whole(name: str) -> None:
    text, expected = ANSWERS[name]
    parts, _ = read(text)
    assert shape(parts) == expected


@pytest.mark.parametrize("text", MALFORMED)
def test_malformed_calls_stay_text(text: str) -> None:
    parts, _ = read(text)
    assert {p.kind for p in parts} <= {"answer"}
    assert "".join(p.text for p in parts) == text


def test_a_call_behind_one_that_is_none() -> None:
    text = '<tool_call>oops <tool_call>{"name": "f"}</tool_call>'
    parts, _ = read(text)
    assert shape(parts) == [("answer", "<tool_call>oops"), Call("f", {})]


def in_pieces(text: str, cuts: list[int]) -> list[Passage]:
    reader = AnswerReader()
    places = sorted({0, *(cut % (len(text) + 1) for cut in cuts), len(text)})
    parts = [part for a, b in pairwise(places) for part in reader.push(text[a:b])]
    return merged(parts + reader.finish())


@pytest.mark.parametrize("text", [*(text for text, _ in ANSWERS.values()), *MALFORMED])
def test_letter_by_letter_is_as_whole(text: str) -> None:
    assert in_pieces(text, list(range(len(text)))) == in_pieces(text, [])


BITS = ["<think", "</", "json", "to=f", " to=self", "<function=f>", "<parameter=a>", " ", "\n"]
PIECES = st.sampled_from(
    [*sorted(MARKS), *(text for text, _ in ANSWERS.values()), *MALFORMED, *BITS, *"{}[]<>|:,é"]
)
ONE_MARK = "|".join(map(re.escape, sorted(MARKS, key=len, reverse=True)))
HEADER = r"(?:assistant|to=[^\s<]+|analysis|commentary|final|json|<\|\w+\|>|\s)*<\|message\|>"
# What may stand between parts: marks, headers of frames, and white space.
GAP = re.compile(rf"(?:\s|{HEADER}|{ONE_MARK})*")


@given(st.lists(PIECES, max_size=8), st.lists(st.integers(0, 10_000), max_size=12))
def test_every_split_gives_the_same_and_nothing_is_lost(pieces: list[str], cuts: list[int]) -> None:
    text = "".join(pieces)
    parts = in_pieces(text, [])
    assert in_pieces(text, cuts) == parts
    assert all(p.text == text[p.start : p.end] for p in parts if p.kind != "call")
    gaps, at = [], 0
    for part in parts:
        assert part.start >= at or (part.kind == "call" and part.end == at)  # several in one mark
        gaps.append(text[at : part.start])
        at = max(at, part.end)
    assert all(GAP.fullmatch(gap) for gap in [*gaps, text[at:]])


def test_what_is_being_written() -> None:
    text, _ = ANSWERS["xml"]
    seen = [read(text[:n], final=False)[1] for n in range(len(text))]
    assert [kind for kind, before in zip(seen, [None, *seen], strict=False) if kind != before] == [
        "answer",
        "thought",
        "answer",
        "call",
    ]


def test_a_thought_that_the_prompt_begins() -> None:
    assert opened("<|im_start|>assistant\n<think>\n") == "<think>\n"
    assert opened("<|turn>model\n<|channel>thought\n") == "<|channel>thought\n"
    assert opened("assistant\n<think>\n\n</think>\n\n") == opened("Hi") == opened("") == ""
    assert shape(read("Hm\n</think>\n\nHi")[0]) == [("thought", "Hm"), ("answer", "Hi")]


def test_types_of_a_tools_parameters() -> None:
    text = ANSWERS["xml"][0]
    reader = AnswerReader(types={"get_weather": {"days": "string"}})
    parts = reader.push(text) + reader.finish()
    assert parts[-1].call == Call("get_weather", {"city": "Zürich <b>", "days": "2"})


def test_one_bare_object_is_a_call_only_where_the_family_writes_so() -> None:
    text = '{"name": "get_weather", "parameters": ' + RAIN + "}"
    form = form_of('{"name": function name, "parameters": ...} ipython')
    assert shape(read(text, form)[0]) == [WEATHER]
    assert shape(read(text)[0]) == [("answer", text)]
    assert shape(read('{"a": 1}', form)[0]) == [("answer", '{"a": 1}')]
    assert form_of("") is ANY


STREAMED = (
    "json",
    "two",
    "args",
    "list",
    "deepseek",
    "deepseek 3.1",
    "kimi",
    "cohere",
    "harmony call",
)


@pytest.mark.parametrize("name", STREAMED)
def test_arguments_are_told_while_they_are_written(name: str) -> None:
    """Letter by letter: the name when it is certain, then the arguments as they stand there."""
    text, _ = ANSWERS[name]
    reader = AnswerReader()
    told: dict[int, list[str]] = {}
    names: dict[int, str] = {}
    before_whole = 0
    calls = {}
    for letter in text:
        parts = reader.push(letter)
        for delta in reader.deltas():
            names[delta.index] = names.get(delta.index, "") + delta.name
            told.setdefault(delta.index, []).append(delta.arguments)
        before_whole += sum(len(bits) for bits in told.values()) > 5 and not calls
        calls |= {part.number: part.call for part in parts if part.call}
    calls |= {part.number: part.call for part in reader.finish() if part.call}
    assert before_whole
    for number, bits in told.items():
        call = calls[number]
        assert call is not None
        assert names[number] == call.name
        assert json.loads("".join(bits)) == call.arguments
        assert len(bits) > 2


def test_a_mark_within_an_argument_ends_no_call() -> None:
    given = {"a": 'x</tool_call>"[TOOL_CALLS]{', "b": [{"c": "\\"}]}
    text = f'<tool_call>{{"name": "f", "arguments": {json.dumps(given)}}}</tool_call>Hi'
    for parts in (read(text)[0], in_pieces(text, list(range(len(text))))):
        assert shape(parts) == [Call("f", given), ("answer", "Hi")]


@pytest.mark.parametrize("body", ["<think>", "", '<tool_call>{"name": "f", "arguments": {"a": "'])
def test_a_long_answer_is_not_copied_for_each_piece(body: str) -> None:
    """The text that is held stays short, where nothing of it is needed any more."""
    reader = AnswerReader()
    parts, longest = reader.push(body), 0
    for _ in range(4000):
        parts += reader.push("word ")
        longest = max(longest, len(reader.text))
    assert longest < 10_000 or body.startswith("<tool_call>")
    (*_, last) = parts + reader.finish()
    assert last.end == len(body) + 20_000 - (1 if body == "<think>" else 0)
