"""Thoughts, answers and calls told apart, as each API's own package puts them together again.

The engine is scripted: what it says is certain, and whatever an API makes of it must be that.
"""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from app.serve.server import Serving
from app.serve.settings import ServeSettings
from engine.protocol import (
    CallPart,
    ChatMessage,
    Finished,
    Generate,
    Piece,
    Stats,
    TokenInfo,
    Tool,
    ToolCall,
)
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.serve.test_gate import LOADED, until
from tests.line.later import Later

anthropic, ollama, openai = Later("anthropic"), Later("ollama"), Later("openai")

CHAT: list[Any] = [{"role": "user", "content": "weather?"}]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
FUNCTION = {"name": "weather", "description": "tells it", "parameters": SCHEMA}
ARGUMENTS = '{"city": "Ulm"}'
SAID = [
    Piece(0, "Let me ", [TokenInfo(1)], "thought"),
    Piece(0, "think", [TokenInfo(2)], "thought"),
    Piece(0, "I ", [TokenInfo(3)]),
    Piece(0, "look.", [TokenInfo(4)]),
    Piece(0, "", [TokenInfo(5)], "call", CallPart(0, "call_1", "weather")),
    Piece(0, "", [TokenInfo(6)], "call", CallPart(0, arguments='{"city": ')),
    Piece(0, "", [TokenInfo(7)], "call", CallPart(0, arguments='"Ulm"}')),
    Piece(0, "", [TokenInfo(8)], "call", CallPart(1, "call_2", "weather", "{}")),
]


@pytest.fixture(scope="module")
def engine() -> ScriptedEngine:
    return ScriptedEngine()


@pytest.fixture(scope="module")
def serving(engine: ScriptedEngine) -> Iterator[Serving]:
    serving = Serving(engine, ServeSettings(port=0, slots=2))
    serving.start()
    serving.open("tiny", LOADED)
    yield serving
    serving.stop(0)


Ask = Callable[[Callable[[], Any]], tuple[Any, Generate]]


@pytest.fixture
def ask(engine: ScriptedEngine, serving: Serving) -> Ask:
    """What a question gives, whose answer is the script's; and what the engine was asked."""

    def asking(question: Callable[[], Any]) -> tuple[Any, Generate]:
        engine.asked.clear()
        given: list[Any] = []
        thread = threading.Thread(target=lambda: given.append(question()), daemon=True)
        thread.start()
        (request,) = until(engine, Generate, 1)
        assert isinstance(request, Generate)
        stats = Stats(9, 2, 8, 0.001, 0.01, 0.01, 0.08, 7, 17)
        pieces = [Piece(request.id, one.text, one.tokens, one.kind, one.call) for one in SAID]
        engine.say(*pieces, Finished(request.id, "calls", stats))
        thread.join(60)
        assert given, "the question failed"
        return given[0], request

    return asking


@pytest.mark.parametrize("stream", [False, True])
def test_openai(ask: Ask, serving: Serving, stream: bool) -> None:
    client = openai.OpenAI(base_url=f"{serving.address}/v1", api_key="none", max_retries=0)
    more: Any = {
        "model": "tiny",
        "messages": CHAT,
        "tools": [{"type": "function", "function": FUNCTION}],
        "tool_choice": {"type": "function", "function": {"name": "weather"}},
        "parallel_tool_calls": False,
        "reasoning_effort": "none",
    }

    def streamed() -> Any:
        with client.chat.completions.stream(**more) as events:
            return events.get_final_completion()

    told, request = ask(streamed if stream else lambda: client.chat.completions.create(**more))
    (choice,) = told.choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "I look."
    calls = [(c.id, c.function.name, c.function.arguments) for c in choice.message.tool_calls]
    assert calls == [("call_1", "weather", ARGUMENTS), ("call_2", "weather", "{}")]
    assert choice.message.reasoning_content == "Let me think"
    tools = request.tools
    assert [one.name for one in tools.known] == ["weather"]
    assert (tools.choice, tools.only, tools.several) == ("required", "weather", False)
    assert request.apart
    assert request.template == {"enable_thinking": False}


@pytest.mark.parametrize("stream", [False, True])
def test_anthropic(ask: Ask, serving: Serving, stream: bool) -> None:
    client = anthropic.Anthropic(base_url=serving.address, api_key="none", max_retries=0)
    more: Any = {
        "model": "tiny",
        "messages": CHAT,
        "max_tokens": 99,
        "tools": [{"name": "weather", "description": "tells it", "input_schema": SCHEMA}],
        "tool_choice": {"type": "any"},
        "thinking": {"type": "enabled", "budget_tokens": 2000},
    }

    def streamed() -> Any:
        with client.messages.stream(**more) as events:
            return events.get_final_message()

    raw, _ = ask(lambda: list(client.messages.create(**more, stream=True)))
    deltas = [one.delta.type for one in raw if one.type == "content_block_delta"]
    assert deltas[:4] == ["thinking_delta", "thinking_delta", "signature_delta", "text_delta"]
    told, request = ask(streamed if stream else lambda: client.messages.create(**more))
    thought, text, first, second = told.content
    assert (thought.type, thought.thinking, thought.signature) == ("thinking", "Let me think", "")
    assert (text.type, text.text) == ("text", "I look.")
    assert (first.type, first.id, first.input) == ("tool_use", "call_1", {"city": "Ulm"})
    assert (second.id, second.input) == ("call_2", {})
    assert told.stop_reason == "tool_use"
    assert told.usage.output_tokens == 8
    assert (told.usage.input_tokens, told.usage.cache_read_input_tokens) == (7, 2)
    assert request.tools.choice == "required"
    assert request.template == {"enable_thinking": True}


@pytest.mark.parametrize("stream", [False, True])
def test_ollama(ask: Ask, serving: Serving, stream: bool) -> None:
    client = ollama.Client(host=serving.address)
    tools = [{"type": "function", "function": FUNCTION}]

    def question() -> Any:
        return client.chat(model="tiny", messages=CHAT, tools=tools, think=True)

    def streamed() -> Any:
        return list(client.chat(model="tiny", messages=CHAT, tools=tools, think=True, stream=True))

    told, request = ask(streamed if stream else question)
    lines = told if stream else [told]
    assert "".join(line.message.thinking or "" for line in lines) == "Let me think"
    assert "".join(line.message.content for line in lines) == "I look."
    calls = [call.function for line in lines for call in line.message.tool_calls or []]
    assert [(c.name, dict(c.arguments)) for c in calls] == [
        ("weather", {"city": "Ulm"}),
        ("weather", {}),
    ]
    assert lines[-1].done_reason == "stop"
    assert [one.name for one in request.tools.known] == ["weather"]
    assert request.template == {"enable_thinking": True}


@pytest.mark.parametrize("stream", [False, True])
def test_responses(ask: Ask, serving: Serving, stream: bool) -> None:
    client = openai.OpenAI(base_url=f"{serving.address}/v1", api_key="none", max_retries=0)
    more: Any = {"model": "tiny", "input": "weather?", "tools": [{"type": "function"} | FUNCTION]}

    def streamed() -> Any:
        with client.responses.stream(**more) as events:
            return events.get_final_response()

    told, _ = ask(streamed if stream else lambda: client.responses.create(**more))
    thought, message, first, second = told.output
    assert thought.content[0].text == "Let me think"
    assert message.content[0].text == told.output_text == "I look."
    assert (first.call_id, first.name, first.arguments) == ("call_1", "weather", ARGUMENTS)
    assert (second.call_id, second.arguments) == ("call_2", "{}")
    assert told.status == "completed"
    assert [one.status for one in told.output] == ["completed"] * 4


def test_what_was_said_goes_back_in(ask: Ask, serving: Serving) -> None:
    """A conversation with thoughts, calls and results, in each API's words, is the same chat."""
    wanted = [
        ChatMessage("user", "weather?"),
        ChatMessage("assistant", "I look.", "hm", [ToolCall("c1", "weather", '{"city":"Ulm"}')]),
        ChatMessage("tool", "rain", call_id="c1"),
        ChatMessage("user", "and now?"),
    ]
    client = openai.OpenAI(base_url=f"{serving.address}/v1", api_key="none", max_retries=0)
    call = {"name": "weather", "arguments": '{"city":"Ulm"}'}
    said: Any = [
        *CHAT,
        {"role": "assistant", "content": "I look.", "reasoning_content": "hm",
         "tool_calls": [{"id": "c1", "type": "function", "function": call}]},
        {"role": "tool", "tool_call_id": "c1", "content": "rain"},
        {"role": "user", "content": "and now?"},
    ]  # fmt: skip
    _, request = ask(lambda: client.chat.completions.create(model="tiny", messages=said))
    assert request.messages == wanted
    said = [
        *CHAT,
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": ""},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Ulm"}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": "rain"},
            {"type": "text", "text": "and now?"},
        ]},
    ]  # fmt: skip
    other = anthropic.Anthropic(base_url=serving.address, api_key="none", max_retries=0)
    _, request = ask(lambda: other.messages.create(model="tiny", messages=said, max_tokens=9))
    assert request.messages == wanted
    said = [
        {"role": "user", "content": "weather?"},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "call_id": "c1", **call},
        {"type": "function_call_output", "call_id": "c1", "output": "rain"},
        {"role": "user", "content": "and now?"},
    ]
    _, request = ask(lambda: client.responses.create(model="tiny", input=said))
    assert [one.role for one in request.messages] == ["user", "assistant", "tool", "user"]
    assert request.messages[1].calls == wanted[1].calls
    assert request.messages[2:] == wanted[2:]


def test_forms_of_answers(ask: Ask, serving: Serving) -> None:
    """Each API's way to ask for JSON is the same form."""
    client = openai.OpenAI(base_url=f"{serving.address}/v1", api_key="none", max_retries=0)
    other = anthropic.Anthropic(base_url=serving.address, api_key="none", max_retries=0)
    third = ollama.Client(host=serving.address)
    named = {"type": "json_schema", "name": "x", "schema": SCHEMA}
    asks: list[Callable[[], Any]] = [
        lambda: client.chat.completions.create(
            model="tiny",
            messages=CHAT,
            response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}},
        ),
        lambda: client.responses.create(model="tiny", input="x", text={"format": named}),
        lambda: other.messages.create(
            model="tiny",
            messages=CHAT,
            max_tokens=9,
            output_config={"format": {"type": "json_schema", "schema": SCHEMA}},
        ),
        lambda: third.chat(model="tiny", messages=CHAT, format=SCHEMA),
    ]
    import msgspec

    for one in asks:
        _, request = ask(one)
        assert request.form is not None
        assert msgspec.json.decode(request.form.text) == SCHEMA  # type: ignore[union-attr]
    _, request = ask(lambda: third.chat(model="tiny", messages=CHAT, format="json"))
    assert type(request.form).__name__ == "JsonObject"
    assert Tool("a").parameters == "{}"
