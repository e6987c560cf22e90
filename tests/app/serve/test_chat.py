"""OpenAI's chat completions, to the byte, over a real worker with a random model."""

import re
from pathlib import Path
from typing import Any

import pytest

from engine.protocol import Sampling
from engine.runner import load
from tests.app.serve.running import Served, events

CHAT = "/v1/chat/completions"
QUESTION = [{"role": "user", "content": "the hat on"}]
GREEDY = {"messages": QUESTION, "temperature": 0, "max_tokens": 12}


@pytest.fixture(scope="module")
def said(tiny_path: Path) -> str:
    """What the model says by itself, without a server."""
    with load(tiny_path, device="host", ctx=256) as model:
        return "".join(model.generate(QUESTION, sampling=Sampling(temperature=0), max_tokens=12))


def ask(tiny: Served, **more: Any) -> Any:
    answer = tiny.post(CHAT, GREEDY | more)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_an_answer_has_all_that_clients_read(tiny: Served, said: str) -> None:
    told = ask(tiny)
    assert re.fullmatch("chatcmpl-[0-9a-f]{24}", told.pop("id"))
    assert told.pop("created") > 1.7e9
    assert told.pop("system_fingerprint").startswith("cutaway-")
    timings, usage = told.pop("timings"), told.pop("usage")
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": said},
        "finish_reason": "length",
        "logprobs": None,
    }
    assert told == {"model": "tiny", "object": "chat.completion", "choices": [choice]}
    assert usage["completion_tokens"] == timings["predicted_n"] == 12
    assert usage["total_tokens"] == usage["prompt_tokens"] + 12
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    assert timings["cache_n"] + timings["prompt_n"] == usage["prompt_tokens"]
    assert timings["cache_n"] == cached


def test_a_stream_to_the_byte(tiny: Served, said: str) -> None:
    text = tiny.stream(CHAT, GREEDY | {"stream_options": {"include_usage": True}})
    assert text.endswith("}\n\ndata: [DONE]\n\n")
    for frame in text.removesuffix("\n\n").split("\n\n"):
        assert frame.startswith("data: ")
        assert "\n" not in frame
    first, *deltas, finish, usage, done = events(text)
    head = {key: first[key] for key in ("id", "created", "model", "system_fingerprint", "object")}
    assert text.startswith(
        f'data: {{"id":"{first["id"]}","created":{first["created"]},"model":"tiny",'
        f'"system_fingerprint":"{first["system_fingerprint"]}","object":"chat.completion.chunk",'
        '"choices":[{"index":0,"delta":{"role":"assistant","content":null},"finish_reason":null}],'
        '"usage":null}\n\n'
    )
    assert "".join(one["choices"][0]["delta"]["content"] for one in deltas) == said
    assert all(set(one["choices"][0]["delta"]) == {"content"} for one in deltas)
    assert finish["choices"] == [{"index": 0, "delta": {}, "finish_reason": "length"}]
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 12
    assert all(one["usage"] is None for one in (first, *deltas, finish))
    assert all(head.items() <= one.items() for one in (*deltas, finish, usage))
    assert done is None


def test_headers_of_a_stream(tiny: Served) -> None:
    headers = tiny.post(CHAT, GREEDY | {"stream": True}).headers
    assert headers["content-type"] == "text/event-stream; charset=utf-8"
    assert headers["cache-control"] == "no-cache"
    assert headers["x-accel-buffering"] == "no"
    assert "server" not in headers


def test_several_choices_differ_by_their_seeds(tiny: Served) -> None:
    hot = {"temperature": 2, "seed": 5, "max_tokens": 8}
    told = ask(tiny, n=3, **hot)
    texts = [choice["message"]["content"] for choice in told["choices"]]
    assert [choice["index"] for choice in told["choices"]] == [0, 1, 2]
    assert len(set(texts)) == 3
    for j, text in enumerate(texts):
        alone = ask(tiny, **hot | {"seed": 5 + j})
        assert alone["choices"][0]["message"]["content"] == text
    assert told["usage"]["completion_tokens"] == 24
    streamed = events(tiny.stream(CHAT, GREEDY | hot | {"n": 3}))[:-1]
    for j, text in enumerate(texts):
        chunks = [one["choices"][0] for one in streamed if one["choices"][0]["index"] == j]
        assert [c["delta"].get("role") for c in chunks].count("assistant") == 1
        assert "".join(c["delta"].get("content") or "" for c in chunks) == text
        assert [c["finish_reason"] for c in chunks if c["finish_reason"]] == ["length"]
    assert tiny.post(CHAT, GREEDY | {"n": 5}).json()["error"]["param"] == "n"


def test_what_ends_an_answer_is_never_shown(tiny: Served, said: str) -> None:
    whole = ask(tiny)["choices"][0]["message"]["content"]
    stop = whole[3:5]
    for stops in (stop, [stop, "", "never said"]):
        choice = ask(tiny, stop=stops)["choices"][0]
        assert choice["finish_reason"] == "stop"
        assert choice["message"]["content"] == whole[: whole.index(stop)]
    assert ask(tiny, stop="")["choices"][0]["finish_reason"] == "length"
    deltas = events(tiny.stream(CHAT, GREEDY | {"stop": stop}))[1:-2]
    told = "".join(one["choices"][0]["delta"]["content"] for one in deltas)
    assert told == whole[: whole.index(stop)]


def test_log_probabilities(tiny: Served) -> None:
    choice = ask(tiny, logprobs=True, top_logprobs=3)["choices"][0]
    content = choice["logprobs"]["content"]
    assert len(content) == 12
    for token in content:
        best = token["top_logprobs"]
        assert len(best) == 3
        assert [one["logprob"] for one in best] == sorted(
            (o["logprob"] for o in best), reverse=True
        )
        assert best[0]["logprob"] == pytest.approx(token["logprob"])  # greedy, of raw logits
        assert all(isinstance(number, int) for number in token["bytes"])
    streamed = events(tiny.stream(CHAT, GREEDY | {"logprobs": True, "top_logprobs": 3}))
    told = [t for one in streamed[1:-2] for t in one["choices"][0]["logprobs"]["content"]]
    assert [t["logprob"] for t in told] == pytest.approx([t["logprob"] for t in content])
    assert ask(tiny, logprobs=True)["choices"][0]["logprobs"]["content"][0]["top_logprobs"] == []
    hot = ask(tiny, logprobs=True, top_logprobs=3, temperature=2, seed=3, max_tokens=1)
    first = hot["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
    assert [o["logprob"] for o in first] == pytest.approx(
        [o["logprob"] for o in content[0]["top_logprobs"]]
    )


def test_an_answer_is_gone_on_with(tiny: Served) -> None:
    whole = ask(tiny)["choices"][0]["message"]["content"]
    begun = [*QUESTION, {"role": "assistant", "content": "and of"}]
    other = ask(tiny, messages=begun)
    assert other["usage"]["prompt_tokens"] > ask(tiny)["usage"]["prompt_tokens"]
    assert not other["choices"][0]["message"]["content"].startswith("and of")
    assert whole


def test_parts_nulls_and_what_is_unknown(tiny: Served, said: str) -> None:
    parts = [{"type": "text", "text": "the hat"}, {"type": "text", "text": " on"}]
    body = {
        "messages": [{"role": "user", "content": parts, "name": "somebody"}],
        "n": None, "stop": None, "tools": None, "stream": None, "logit_bias": None,
        "user": "x", "store": True, "metadata": {"a": [1]}, "max_completion_tokens": 12,
        "max_tokens": None,
    }  # fmt: skip
    assert ask(tiny, **body)["choices"][0]["message"]["content"] == said


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "boss", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        (
            {"messages": [{"role": "user", "content": [{"type": "audio"}]}]},
            "messages[0].content[0].type",
        ),
        ({"temperature": 2.5}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"top_p": -0.1}, "top_p"),
        ({"presence_penalty": 3}, "presence_penalty"),
        ({"n": 0}, "n"),
        ({"stop": ["a"] * 65}, "stop"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"logit_bias": {"x": 1}}, "logit_bias"),
        ({"logit_bias": {"7": 101}}, "logit_bias[...]"),
        ({"max_tokens": -2}, "max_tokens"),
        ({"seed": 1 << 70}, "seed"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"model": "gpt-9"}, "model"),
    ],
)  # fmt: skip
def test_what_is_out_of_range_is_named(tiny: Served, fields: dict[str, Any], param: str) -> None:
    answer = tiny.post(CHAT, GREEDY | fields | {"stream": True})
    assert answer.status_code == (404 if param == "model" else 400)
    error = answer.json()["error"]
    assert error["param"] == param
    assert error["type"] == ("not_found_error" if param == "model" else "invalid_request_error")
    assert "Traceback" not in answer.text


def test_a_prompt_that_does_not_fit_is_never_cut(tiny: Served) -> None:
    long = [{"role": "user", "content": "the hat on " * 200}]
    for stream in (False, True):
        answer = tiny.post(CHAT, GREEDY | {"messages": long, "stream": stream})
        assert answer.status_code == 400
        error = answer.json()["error"]
        assert error["code"] == "context_length_exceeded"
        assert error["n_ctx"] == 256
        assert error["n_prompt_tokens"] > 256
    near = [{"role": "user", "content": "on " * 100}]
    ends = ask(tiny, max_tokens=None, messages=near, ignore_eos=True)
    assert ends["choices"][0]["finish_reason"] == "length"
    assert 256 <= ends["usage"]["total_tokens"] <= 257


def test_an_error_names_the_requests_own_field(tiny: Served) -> None:
    cut = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "[1]"}}
    called = [{"role": "assistant", "content": None, "tool_calls": [cut]}]
    asked = {"role": "tool", "tool_call_id": "c", "content": "x"}
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    long = "the hat on " * 200
    cases: list[tuple[str, dict[str, Any], str]] = [
        (CHAT, {"logit_bias": {"99999": 1}}, "logit_bias"),
        (CHAT, {"messages": [*QUESTION, *called, asked]}, "messages"),
        (CHAT, {"messages": [{"role": "user", "content": [picture]}]}, "messages"),
        (CHAT, {"chat_template_kwargs": {"messages": 1}}, "chat_template_kwargs"),
        (CHAT, {"messages": [{"role": "user", "content": long}]}, "messages"),
        ("/v1/completions", {"prompt": long}, "prompt"),
        ("/v1/completions", {"prompt": [99999]}, "prompt"),
        ("/v1/responses", {"input": long}, "input"),
    ]
    for path, fields, param in cases:
        answer = tiny.post(path, {"model": "tiny", "messages": QUESTION} | fields)
        assert answer.status_code == 400, answer.text
        assert answer.json()["error"]["param"] == param, answer.text


def test_the_rate_shown_is_the_responses(tiny: Served) -> None:
    told = ask(tiny, max_tokens=12)
    row = tiny.serving.clients.log[-1]
    assert round(row.rate, 3) == told["timings"]["predicted_per_second"]
