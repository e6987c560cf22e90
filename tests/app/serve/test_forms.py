"""Forms and tools over the real worker: whatever a random model says, it is what was asked for."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import httpx2
import pytest

from engine.gguf.reader import open_gguf
from engine.settings import EngineOptions
from engine.tokenizer.tokenizer import load_tokenizer
from tests.app.serve.running import Served, events, served
from tests.goldens.tiny import write_tiny

SCHEMA = {
    "type": "object",
    "properties": {"size": {"enum": ["small", "large"]}, "n": {"type": "integer", "maximum": 9}},
    "required": ["size", "n"],
    "additionalProperties": False,
}
CHAT = [{"role": "user", "content": "the hat on"}]
BODY = {"model": "tiny", "messages": CHAT, "seed": 3, "max_tokens": 150}
FUNCTION = {"name": "order", "description": "orders a hat", "parameters": SCHEMA}
TOOLS = [{"type": "function", "function": FUNCTION}]


@pytest.fixture(scope="module")
def wide_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with room for a tool's description in single bytes."""
    size = {"llama.context_length": (2048, gguf.GGUFValueType.UINT32)}
    return write_tiny(tmp_path_factory.mktemp("wide") / "wide.gguf", "llama", metadata=size)


@pytest.fixture(scope="module")
def tiny(wide_path: Path) -> Iterator[Served]:
    with served(wide_path, EngineOptions(device="host", ctx=1024, parallel=2)) as running:
        yield running


@pytest.fixture(scope="module")
def no_ends(wide_path: Path) -> dict[str, int]:
    """A bias that keeps the model from ending an answer by itself."""
    eog = load_tokenizer(open_gguf(wide_path).metadata).eog
    return {str(token): -100 for token in eog}


def fits(value: Any) -> bool:
    return set(value) == {"size", "n"} and value["size"] in ("small", "large")


def ask(tiny: Served, path: str, body: dict[str, Any]) -> Any:
    answer = tiny.post(path, body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_schema_in_each_api(tiny: Served) -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "hat", "schema": SCHEMA}}
    told = ask(tiny, "/v1/chat/completions", BODY | {"response_format": wanted})
    assert told["choices"][0]["finish_reason"] == "stop"
    assert fits(json.loads(told["choices"][0]["message"]["content"]))
    told = ask(tiny, "/api/chat", BODY | {"format": SCHEMA, "stream": False})
    assert fits(json.loads(told["message"]["content"]))
    form = {"type": "json_schema", "name": "hat", "schema": SCHEMA}
    told = ask(tiny, "/v1/responses", {"input": "hat", "text": {"format": form}})
    assert fits(json.loads(told["output"][-1]["content"][0]["text"]))
    config = {"format": {"type": "json_schema", "schema": SCHEMA}}
    told = ask(tiny, "/v1/messages", BODY | {"output_config": config})
    assert fits(json.loads(told["content"][-1]["text"]))


def test_a_tool_that_must_be_called(tiny: Served) -> None:
    body = BODY | {"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False}
    choice = ask(tiny, "/v1/chat/completions", body)["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    (call,) = choice["message"]["tool_calls"]
    assert call["function"]["name"] == "order"
    assert fits(json.loads(call["function"]["arguments"]))
    chunks = events(tiny.stream("/v1/chat/completions", body))[:-1]
    parts = [p for c in chunks for p in c["choices"][0]["delta"].get("tool_calls", [])]
    assert [bool(part.get("id")) for part in parts] == [True] + [False] * (len(parts) - 1)
    text = "".join(part["function"].get("arguments", "") for part in parts)
    assert fits(json.loads(text))
    tool = {"name": "order", "input_schema": SCHEMA}
    one = {"type": "any", "disable_parallel_tool_use": True}
    told = ask(tiny, "/v1/messages", BODY | {"tools": [tool], "tool_choice": one})
    assert told["stop_reason"] == "tool_use"
    assert fits(told["content"][-1]["input"])


@pytest.mark.parametrize(
    "form",
    [
        {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nothing"}}},
        {
            "type": "json_schema",
            "json_schema": {"name": "x", "schema": {"$ref": "http://e.example"}},
        },
        {"type": "json_schema", "json_schema": {"name": "x", "schema": [1]}},
    ],
)
def test_schemas_that_cannot_be_kept(tiny: Served, form: dict[str, Any]) -> None:
    answer = tiny.post("/v1/chat/completions", BODY | {"response_format": form, "stream": True})
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_a_named_function_is_called_once(tiny: Served, no_ends: dict[str, int]) -> None:
    """Though the model would rather go on."""
    more = TOOLS + [{"type": "function", "function": FUNCTION | {"name": "other"}}]
    named = {"type": "function", "function": {"name": "order"}}
    body = BODY | {"tools": more, "tool_choice": named, "logit_bias": no_ends}
    for seed in range(3):
        choice = ask(tiny, "/v1/chat/completions", body | {"seed": seed})["choices"][0]
        (call,) = choice["message"]["tool_calls"]
        assert choice["finish_reason"] == "tool_calls", "no other is begun and cut"
        assert call["function"]["name"] == "order"
        assert fits(json.loads(call["function"]["arguments"]))
    chunks = events(tiny.stream("/v1/chat/completions", body))[:-1]
    parts = [p for c in chunks for p in c["choices"][0]["delta"].get("tool_calls", [])]
    assert "".join(part["function"].get("name", "") for part in parts) == "order"
    tool = {"name": "order", "input_schema": SCHEMA}
    wanted = {"tools": [tool], "tool_choice": {"type": "tool", "name": "order"}}
    told = ask(tiny, "/v1/messages", BODY | wanted)
    assert [block["type"] for block in told["content"]] == ["tool_use"]


@pytest.mark.parametrize("strict", [None, True])
def test_objects_are_closed_unless_a_schema_says_otherwise(
    tiny: Served, no_ends: dict[str, int], wide_path: Path, strict: bool | None
) -> None:
    """Though the model would rather write more keys than close the object."""
    brace = load_tokenizer(open_gguf(wide_path).metadata).id("}")
    on = {"logit_bias": {**no_ends, str(brace): -100}}
    plain = {key: value for key, value in SCHEMA.items() if key != "additionalProperties"}
    wanted = {"name": "hat", "schema": plain, "strict": strict}
    form = {"type": "json_schema", "json_schema": wanted}
    for seed in range(4):
        body = BODY | on | {"response_format": form, "seed": seed}
        choice = ask(tiny, "/v1/chat/completions", body)["choices"][0]
        assert choice["finish_reason"] == "stop"
        assert fits(json.loads(choice["message"]["content"]))
    tool = {"type": "function", "function": {"name": "order", "parameters": plain}}
    body = BODY | on | {"tools": [tool], "tool_choice": "required", "parallel_tool_calls": False}
    (call,) = ask(tiny, "/v1/chat/completions", body)["choices"][0]["message"]["tool_calls"]
    assert fits(json.loads(call["function"]["arguments"]))


def test_calls_that_the_limit_cuts_are_told_once(tiny: Served, no_ends: dict[str, int]) -> None:
    body = BODY | {"tools": TOOLS, "tool_choice": "required", "logit_bias": no_ends}
    for most in (40, 60, 90, 120):
        choice = ask(tiny, "/v1/chat/completions", body | {"max_tokens": most})["choices"][0]
        message = choice["message"]
        assert choice["finish_reason"] == "length"
        for call in message.get("tool_calls", []):
            assert fits(json.loads(call["function"]["arguments"]))
        assert not message["content"], message
        chunks = events(tiny.stream("/v1/chat/completions", body | {"max_tokens": most}))[:-1]
        assert not any(chunk["choices"][0]["delta"].get("content") for chunk in chunks)
        told = ask(tiny, "/api/chat", body | {"options": {"num_predict": most}, "stream": False})
        assert not told["message"]["content"] or not told["message"].get("tool_calls")


def test_a_call_that_the_limit_cuts_is_in_no_response(tiny: Served) -> None:
    """Clients parse the arguments of each call that a response has."""
    tool = {"tools": [{"type": "function", **FUNCTION}], "tool_choice": "required"}
    body = {"input": CHAT, "model": "tiny", "max_output_tokens": 30, "temperature": 0} | tool
    told = events(tiny.stream("/v1/responses", body))
    (begun,) = [e for e in told if e["type"] == "response.function_call_arguments.done"]
    with pytest.raises(json.JSONDecodeError):
        json.loads(begun["arguments"])
    assert told[-1]["type"] == "response.incomplete"
    assert told[-1]["response"]["output"] == []
    assert ask(tiny, "/v1/responses", body)["output"] == []


BAD_GRAMMARS = {
    "undefined": ("root ::= foo", "'foo' not found"),
    "no root": ('other ::= "a"', "'root'"),
    "without end": ('root ::= "a" root', "never ends"),
    "alternatives": ("root ::= " + " | ".join(f'"w{i}"' for i in range(20_000)), "20001 items"),
}


@pytest.mark.parametrize("case", BAD_GRAMMARS)
def test_a_bad_grammar_is_the_clients_fault(tiny: Served, case: str) -> None:
    grammar, reason = BAD_GRAMMARS[case]
    answer = tiny.post("/v1/chat/completions", BODY | {"grammar": grammar})
    assert answer.status_code == 400, answer.text
    assert reason in answer.json()["error"]["message"]
    if case != "alternatives":  # which only the model's own words show
        answer = tiny.post("/v1/chat/completions", BODY | {"grammar": grammar, "stream": True})
        assert answer.status_code == 400, "before a stream begins"


def test_a_schema_of_too_many_properties_is_the_clients_fault(tiny: Served) -> None:
    schema = {"type": "object", "properties": {f"k{i}": {"type": "null"} for i in range(3000)}}
    answer = tiny.post("/api/chat", BODY | {"format": schema, "stream": False})
    assert answer.status_code == 400, answer.text
    # On a machine that is busy the limit of seconds is reached before that of items.
    assert re.search(r"items|takes more than 5 s", answer.json()["error"])


def test_a_stop_string_inside_a_form_is_a_stop(tiny: Served) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "hat", "schema": SCHEMA}}
    body = BODY | {"response_format": form, "stop": ["{"]}
    assert ask(tiny, "/v1/chat/completions", body)["choices"][0]["finish_reason"] == "stop"


@pytest.mark.model_file
@pytest.mark.full
def test_a_real_model_calls_a_tool_in_a_stream(smollm2_path: Path) -> None:
    with served(smollm2_path) as running:
        body = BODY | {"tools": TOOLS, "tool_choice": "required"}
        told: httpx2.Response = running.post("/v1/chat/completions", body)
        (call, *_) = told.json()["choices"][0]["message"]["tool_calls"]
        assert fits(json.loads(call["function"]["arguments"]))
