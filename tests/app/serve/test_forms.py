"""Forms and tools over the real worker: whatever a random model says, it is what was asked for."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import httpx2
import pytest

from engine.settings import EngineOptions
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
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with room for a tool's description in single bytes."""
    size = {"llama.context_length": (2048, gguf.GGUFValueType.UINT32)}
    path = write_tiny(tmp_path_factory.mktemp("wide") / "wide.gguf", "llama", metadata=size)
    with served(path, EngineOptions(device="host", ctx=1024, parallel=2)) as running:
        yield running


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


@pytest.mark.model_file
@pytest.mark.full
def test_a_real_model_calls_a_tool_in_a_stream(smollm2_path: Path) -> None:
    with served(smollm2_path) as running:
        body = BODY | {"tools": TOOLS, "tool_choice": "required"}
        told: httpx2.Response = running.post("/v1/chat/completions", body)
        (call, *_) = told.json()["choices"][0]["message"]["tool_calls"]
        assert fits(json.loads(call["function"]["arguments"]))
