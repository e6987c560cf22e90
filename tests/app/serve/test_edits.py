"""Requests with edits of results: their own, beside others, and errors that name the field."""

import base64
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.terminal.edits import parsed
from engine.protocol import Edit, Sampling
from engine.runner import load
from tests.app.serve.running import Served, served

ASKED = {"prompt": "the hat on", "max_tokens": 12, "temperature": 0, "logprobs": 1}
VECTOR = np.linspace(-3, 3, 64).astype("<f4")
ADD = {"site": "residual", "layers": [0, 1], "op": "add", "value": 2.0}
ADD |= {"vector": base64.b64encode(VECTOR.tobytes()).decode()}
SILENT = {"site": "heads", "layers": [1], "op": "scale", "value": 0.0, "head": 2}


def said(tiny: Served, *edits: dict[str, Any]) -> str:
    body = ASKED | ({"edits": [*edits]} if edits else {})
    answer = tiny.post("/v1/completions", body)
    assert answer.status_code == 200, answer.text
    text: str = answer.json()["choices"][0]["text"]
    return text


def test_each_request_has_its_own(tiny: Served, tiny_path: Path) -> None:
    """Together they say what each says alone, and what the library says."""
    kinds: list[tuple[dict[str, Any], ...]] = [(), (ADD,), (SILENT,), (ADD, SILENT)]
    alone = [said(tiny, *edits) for edits in kinds]
    assert len(set(alone)) == len(kinds)
    with ThreadPoolExecutor(len(kinds)) as pool:
        assert [*pool.map(lambda edits: said(tiny, *edits), kinds)] == alone
    assert said(tiny) == alone[0]
    ours = [Edit.add("residual", [0, 1], VECTOR, 2.0), Edit.scale("heads", 1, by=0.0, head=2)]
    with load(tiny_path, device="host", ctx=256) as model:
        greedy = Sampling(temperature=0.0)
        text = "".join(model.generate("the hat on", max_tokens=12, sampling=greedy, edits=ours))
    assert text == alone[3]


@pytest.mark.parametrize(
    ("edit", "param", "message"),
    [
        (SILENT | {"head": 9}, "edits[0].head", "a head from 0 to 3"),
        (SILENT | {"site": "l_outt"}, "edits[0].site", "near: l_out"),
        (ADD | {"layers": [7]}, "edits[0].layers", "layers 0 to 2"),
        (ADD | {"site": "ffn_up"}, "edits[0].vector", "96 numbers"),
    ],
)
def test_errors_name_the_field(
    edit: dict[str, Any], param: str, message: str, tiny: Served
) -> None:
    answer = tiny.post("/v1/completions", ASKED | {"edits": [edit]})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["param"] == param
    assert message in error["message"]


CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "the hat on"}]}
DIALECTS = {
    "anthropic": (
        "/v1/messages",
        CHAT | {"max_tokens": 12, "temperature": 0},
        lambda made: made["content"][0]["text"],
    ),
    "ollama": (
        "/api/chat",
        CHAT | {"stream": False, "options": {"temperature": 0, "num_predict": 12}},
        lambda made: made["message"]["content"],
    ),
    "ollama generate": (
        "/api/generate",
        {"model": "tiny", "prompt": "the hat on", "stream": False}
        | {"options": {"temperature": 0, "num_predict": 12}},
        lambda made: made["response"],
    ),
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_other_interfaces_take_the_same_field(dialect: str, tiny: Served) -> None:
    """An edit that does nothing changes nothing, others change the answer as in OpenAI's chat."""
    path, body, text_of = DIALECTS[dialect]
    openai = CHAT | {"max_tokens": 12, "temperature": 0}
    said_by = {}
    for name, edits in (("plain", []), ("add", [ADD]), ("head", [SILENT])):
        answer = tiny.post(path, body | {"edits": edits})
        assert answer.status_code == 200, answer.text
        wanted = tiny.post("/v1/chat/completions", openai | {"edits": edits}).json()
        said_by[name] = text_of(answer.json())
        assert said_by[name] == wanted["choices"][0]["message"]["content"]
    assert len(set(said_by.values())) == 3
    wrong = tiny.post(path, body | {"edits": [SILENT | {"head": 9}]})
    assert wrong.status_code == 400
    assert "a head from 0 to 3" in wrong.text


def test_a_server_has_edits_of_its_own_before_those_of_a_request(tiny_path: Path) -> None:
    """They are what --edit names."""
    (own,) = parsed("heads-1.h2=scale:0")
    with served(tiny_path, edits=(own,)) as serving:
        plain, more = said(serving), said(serving, ADD)
    greedy = Sampling(temperature=0.0)
    add = Edit.add("residual", [0, 1], VECTOR, 2.0)
    with load(tiny_path, device="host", ctx=256) as model:
        for text, edits in ((plain, [own]), (more, [own, add])):
            wanted = model.generate("the hat on", max_tokens=12, sampling=greedy, edits=edits)
            assert text == "".join(wanted)
    assert plain != more


@pytest.mark.parametrize("edit", [{"site": "residual"}, SILENT | {"op": "melt"}, 3])
def test_what_is_no_edit_is_refused(edit: Any, tiny: Served) -> None:
    answer = tiny.post("/v1/completions", ASKED | {"edits": [edit]})
    assert answer.status_code == 400
    assert "edits" in str(answer.json()["error"])
