"""Bodies of every kind: never an error of ours, always one in the API's own form."""

from typing import Any

import httpx2
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.app.serve.running import HTTP, Served

PATHS = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/rerank",
    "/v1/responses",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/api/chat",
    "/api/generate",
    "/api/embed",
    "/api/show",
    "/tokenize",
    "/detokenize",
    "/apply-template",
    "/completion",
)
WORDS = (
    "tiny",
    "user",
    "assistant",
    "system",
    "tool",
    "text",
    "the hat",
    "",
    "\0",
    "\U0001f600",
    "<s>",
)
LEAF = (
    st.none()
    | st.booleans()
    | st.integers(-3, 9)
    | st.sampled_from([1 << 40, -(1 << 70), 0.5, -1.0, 1e300])
    | st.sampled_from(WORDS)
    | st.text(max_size=5)
)
TREE = st.recursive(
    LEAF,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=3)
    ),
    max_leaves=6,
)
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(WORDS[:5]), "content": st.sampled_from(WORDS) | TREE},
    optional={
        "tool_calls": TREE,
        "tool_call_id": LEAF,
        "images": TREE,
        "thinking": LEAF,
        "type": st.sampled_from(["message", "function_call", "reasoning"]),
    },
)
FIELDS = {
    "messages": st.lists(MESSAGE, max_size=3) | TREE,
    "input": st.sampled_from(WORDS) | st.lists(st.sampled_from(WORDS), max_size=3) | TREE,
    "prompt": st.sampled_from(WORDS) | st.lists(st.integers(-1, 400), max_size=4) | TREE,
    "content": st.sampled_from(WORDS),
    "tokens": st.lists(st.integers(-1, 400), max_size=4),
    "model": st.sampled_from(["tiny", "other"]) | LEAF,
    "options": TREE,
    "stop": TREE,
    "n": st.integers(0, 5),
    "temperature": LEAF,
    "logit_bias": TREE,
    "logprobs": LEAF,
    "top_logprobs": LEAF,
    "response_format": TREE,
    "tools": TREE,
    "tool_choice": TREE,
    "system": TREE,
    "stream": st.booleans(),
    "echo": st.booleans(),
    "format": TREE,
    "think": LEAF,
    "seed": LEAF,
    "dimensions": LEAF,
    "instructions": LEAF,
    "text": TREE,
    "chat_template_kwargs": TREE,
    "reasoning_effort": LEAF,
}
FEW = {"max_tokens": 2, "max_output_tokens": 2, "n_predict": 2, "options": {"num_predict": 2}}


def refused_rightly(path: str, answer: httpx2.Response) -> None:
    """Not ours, and told as the API tells it."""
    assert answer.status_code < 500, answer.text
    assert "Traceback" not in answer.text
    if answer.status_code == 200:
        return
    told = answer.json()
    if path.startswith("/api"):
        assert isinstance(told["error"], str)
    elif path.startswith("/v1/messages"):
        assert told["type"] == "error"
        assert isinstance(told["error"]["message"], str)
    else:
        assert set(told["error"]) >= {"message", "type", "param", "code"}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("path", PATHS)
def test_fields_of_any_kind(tiny: Served, path: str) -> None:
    with httpx2.Client(base_url=tiny.url, timeout=60, verify=False) as client:

        @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
        @given(st.fixed_dictionaries({}, optional=FIELDS))
        def ask(fields: dict[str, Any]) -> None:
            answer = client.post(path, json=FEW | fields)
            refused_rightly(path, answer)
            failed = '"error"' in answer.text and "unexpected error" in answer.text
            assert not failed, (fields, answer.text)

        ask()


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/api/chat"])
def test_bytes_of_any_kind(tiny: Served, path: str) -> None:
    whole = msgspec.json.encode(
        {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]} | FEW
    )
    bodies = [whole[:n] for n in range(0, len(whole), 7)]
    bodies += [
        b"[" * 100_000,
        b'{"messages":' * 5000,
        b"\xff\xfe",
        b"null",
        b"[]",
        b"1e999",
        b'"\\ud800"',
    ]
    bodies += [b'{"messages": [{"role": "user", "content": "\\ud800"}]}', b'{"temperature": NaN}']
    kind = {"content-type": "application/json"}
    deep = b'{"a":' * 5000 + b"1" + b"}" * 5000  # in fields of any value only the depth is wrong
    for field in (b"chat_template_kwargs", b"format"):
        body = whole[:-1] + b', "' + field + b'": ' + deep + b"}"
        refused_rightly(path, HTTP.post(tiny.url + path, content=body, headers=kind))
    with httpx2.Client(base_url=tiny.url, timeout=60, verify=False) as client:
        for body in bodies:
            answer = client.post(path, content=body, headers=kind)
            assert answer.status_code == 400, (body[:50], answer.text)
            refused_rightly(path, answer)
