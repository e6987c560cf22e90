"""Thoughts, text and calls told apart while they are written; why such answers end.

What the model says is held to one text by a form.
"""

import json
import re
from collections.abc import Iterator

import gguf
import msgspec
import pytest

from engine.protocol import (
    CallPart,
    ChatMessage,
    Finished,
    Generate,
    Grammar,
    Piece,
    Sampling,
    Tool,
    Tools,
)
from engine.runner.api import Model, load
from engine.runner.generate import generate
from engine.runner.sequence import Sequenced
from tests.goldens.tiny import write_tiny

HERMES = (
    "{% for t in tools %}{{ t|tojson }}{% endfor %}"
    "{% for m in messages %}{{ m.role }}: {{ m.content }}"
    "{% for c in m.tool_calls %}<tool_call>\n{{ c.function|tojson }}\n</tool_call>{% endfor %}\n"
    "{% endfor %}{% if think %}<think>\n{% endif %}{# <think> </think> #}"
)
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = Tools([Tool("weather", "", json.dumps(SCHEMA)), Tool("now")])
GIVEN = {"city": 'Zü</tool_call> "x"'}
CALL = f'<tool_call>\n{{"name": "weather", "arguments": {json.dumps(GIVEN)}}}\n</tool_call>'


def model_of(folder: pytest.TempPathFactory, template: str) -> Iterator[Model]:
    chat = {
        "tokenizer.chat_template": (template, gguf.GGUFValueType.STRING),
        "llama.context_length": (1024, gguf.GGUFValueType.UINT32),
    }
    path = write_tiny(folder.mktemp("apart") / "tiny.gguf", "llama", metadata=chat)
    with load(path, device="host") as model:
        yield model


@pytest.fixture(scope="module")
def hermes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    yield from model_of(tmp_path_factory, HERMES)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    """A family that knows no tools."""
    yield from model_of(
        tmp_path_factory, "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    )


def told(
    model: Model, text: str, tools: Tools = TOOLS, **changes: object
) -> list[Piece | Finished]:
    """The events of an answer that says just this."""
    written = "".join(json.dumps(character) + " " for character in text)
    given = {
        "messages": [ChatMessage("user", "?")],
        "sampling": Sampling(temperature=0),
        "form": Grammar(f"start: {written}"),
        "tools": tools,
        "apart": True,
        **changes,
    }
    request = Generate(1, **given)
    events = generate(model.loaded, Sequenced(model.loaded.stepper), request, lambda: False)
    return [event for event in events if isinstance(event, Piece | Finished)]


def text_of(events: list[Piece | Finished], kind: str) -> str:
    return "".join(e.text for e in events if isinstance(e, Piece) and e.kind == kind)


def calls_of(events: list[Piece | Finished]) -> list[CallPart]:
    return [e.call for e in events if isinstance(e, Piece) and e.call is not None]


def test_each_kind_is_told_by_itself_and_every_token_once(hermes: Model) -> None:
    events = told(hermes, f"<think>Hm, so.</think>\nLet me see.\n{CALL}")
    *pieces, end = events
    assert isinstance(end, Finished)
    assert text_of(events, "thought") == "Hm, so."
    assert text_of(events, "answer") == "Let me see."
    first, *rest = calls_of(events)
    assert (first.index, first.name, first.arguments) == (0, "weather", "")
    assert re.fullmatch(r"call_[A-Za-z0-9]{24}", first.id)
    assert len(rest) > 5
    assert all((part.index, part.name, part.id) == (0, "", "") for part in rest)
    assert json.loads("".join(part.arguments for part in rest)) == GIVEN
    assert end.reason == "calls"
    n_tokens = sum(len(piece.tokens) for piece in pieces if isinstance(piece, Piece))
    assert n_tokens == end.stats.n_generated
    assert "<" not in text_of(events, "thought") + text_of(events, "answer")


def test_of_several_calls_the_first_alone_is_told_where_one_is_wanted(hermes: Model) -> None:
    now = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    one = msgspec.structs.replace(TOOLS, several=False)
    events = told(hermes, f"{CALL}\n{now}", one)
    assert [part.name for part in calls_of(events) if part.name] == ["weather"]
    assert text_of(events, "answer") == ""
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "calls"


def test_several_calls_and_text_behind(hermes: Model) -> None:
    now = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    events = told(hermes, f"{CALL}\n{now}Done.")
    parts = calls_of(events)
    assert [(part.index, part.name) for part in parts if part.name] == [(0, "weather"), (1, "now")]
    assert "".join(part.arguments for part in parts if part.index == 1) == "{}"
    assert text_of(events, "answer") == "Done."
    assert len({part.id for part in parts if part.id}) == 2


def test_a_call_that_never_closes_is_told_once(hermes: Model) -> None:
    """As a call as far as it came, or where nothing of it is known as text."""
    events = told(hermes, f"So: {CALL[:-20]}")
    assert [part.name for part in calls_of(events) if part.name] == ["weather"]
    assert text_of(events, "answer") == "So:"
    begun = CALL[: CALL.index("weather")]
    cut = told(hermes, f"So: {begun}")
    assert not calls_of(cut)
    assert text_of(cut, "answer") == f"So: {begun}"
    for end in (events[-1], cut[-1]):
        assert isinstance(end, Finished)
        assert end.reason == "length"


def test_a_form_begins_behind_the_thought_that_the_prompt_began(hermes: Model) -> None:
    """Free until its end: nobody is asked to think in JSON."""
    bias = {hermes.loaded.tokenizer.id("x"): 50.0}
    short = told(hermes, "{}", template={"think": True}, bias=bias, max_tokens=6)
    assert (text_of(short, "thought"), text_of(short, "answer")) == ("x" * 6, "")
    stopped = told(hermes, "{}", template={"think": True}, bias=bias, stop=["xxx"])
    assert isinstance(stopped[-1], Finished)
    assert stopped[-1].reason == "stop"
    ended = told(hermes, "{}", template={"think": True}, prefix="<think>\nHm.</think>")
    assert text_of(ended, "answer") == "{}"
    assert isinstance(ended[-1], Finished)
    assert ended[-1].reason == "stop"


def test_without_tools_a_call_is_text(hermes: Model) -> None:
    for tools in (Tools(), Tools(TOOLS.known, "none")):
        events = told(hermes, CALL, tools)
        assert text_of(events, "answer") == CALL
        assert not calls_of(events)
        assert isinstance(events[-1], Finished)
        assert events[-1].reason == "stop"


def test_a_family_that_knows_no_tools_calls_by_json(plain: Model) -> None:
    one = '{"name": "weather", "arguments": {"city": "B"}}'
    two = one.replace("weather", "now")
    events = told(plain, f"{one}\n{two}")
    parts = calls_of(events)
    assert [part.name for part in parts if part.name] == ["weather", "now"]
    assert text_of(events, "answer") == ""
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "calls"
    other = '{"a": 1}'
    assert text_of(told(plain, other), "answer") == other


def test_an_answer_that_goes_on(hermes: Model) -> None:
    begun = "<think>Hm."
    events = told(hermes, f"{begun} So.</think>Yes.", prefix=begun)
    assert (text_of(events, "thought"), text_of(events, "answer")) == (" So.", "Yes.")
    assert [e for e in told(hermes, "<think>Hm</think>Yes", apart=False) if isinstance(e, Piece)]


def test_not_apart_it_is_as_it_stands(hermes: Model) -> None:
    text = f"<think>Hm</think>{CALL}"
    events = told(hermes, text, apart=False)
    assert text_of(events, "answer") == text
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "calls"


@pytest.mark.parametrize("model", ["hermes", "plain"])
def test_calls_stand_beside_a_text_that_has_them(
    model: str, request: pytest.FixtureRequest
) -> None:
    """Not told apart the text is as it was written, and its calls are pieces as well."""
    text = CALL if model == "hermes" else json.dumps({"name": "weather", "arguments": GIVEN})
    events = told(request.getfixturevalue(model), text, apart=False)
    assert text_of(events, "answer") == text
    made = "".join(part.arguments for part in calls_of(events))
    assert (calls_of(events)[0].name, json.loads(made)) == ("weather", GIVEN)
    assert events[-1].reason == "calls"
    assert not calls_of(told(request.getfixturevalue(model), text, Tools(), apart=False))


@pytest.mark.parametrize("apart", [False, True])
def test_an_answer_that_goes_on_within_a_call(hermes: Model, apart: bool) -> None:
    cut = CALL.index("city") + 3
    events = told(hermes, CALL, apart=apart, prefix=CALL[:cut])
    made = "".join(part.arguments for part in calls_of(events))
    assert json.dumps(GIVEN).endswith(made)
    assert events[-1].reason == "calls"
    if not apart:
        assert calls_of(events)[0].name == "weather"
        assert json.loads(made) == GIVEN
