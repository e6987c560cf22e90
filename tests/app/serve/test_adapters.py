"""Adapters over HTTP, as llama-server's clients scale them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.settings import EngineOptions
from tests.adapters import drawn, matrices, write_adapter
from tests.app.serve.running import Served, served

ASKED = {"prompt": "the hat on", "max_tokens": 12, "temperature": 0}


@pytest.fixture(scope="module")
def adapted(tiny_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server of a model with two adapters, the second of which is off."""
    folder = tmp_path_factory.mktemp("adapters")
    shapes = {n: s for n, s in matrices(tiny_path).items() if n.startswith("blk.")}
    lora = {}
    for seed, scale in ((1, 1.0), (2, 0.0)):
        path = write_adapter(folder / f"a{seed}.gguf", "llama", drawn(shapes, 4, seed), 8.0)
        lora[str(path)] = scale
    with served(tiny_path, EngineOptions(device="host", ctx=256, lora=lora)) as running:
        yield running


def said(tiny: Served, **more: object) -> str:
    answer = tiny.post("/v1/completions", ASKED | more)
    assert answer.status_code == 200, answer.text
    text: str = answer.json()["choices"][0]["text"]
    return text


def test_scales_for_all_and_for_one(adapted: Served) -> None:
    listed = adapted.get("/lora-adapters").json()
    assert listed == [
        {"id": 0, "path": "a1.gguf", "scale": 1.0, "name": "a1"},
        {"id": 1, "path": "a2.gguf", "scale": 0.0, "name": "a2"},
    ]
    first = said(adapted)
    second = said(adapted, lora=[{"id": 1, "scale": 1.0}])
    off = said(adapted, lora=[{"id": 0, "scale": 0.0}])
    assert len({first, second, off}) == 3
    assert said(adapted, lora=[]) == first
    chat = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 5, "temperature": 0}
    one, other = (
        adapted.post("/v1/chat/completions", chat | more).json()["choices"][0]["message"]
        for more in ({}, {"lora": [{"id": 1, "scale": 1}]})
    )
    assert one != other
    assert adapted.post("/lora-adapters", [{"id": 1, "scale": 1.0}]).json() == {"success": True}
    assert [one["scale"] for one in adapted.get("/lora-adapters").json()] == [0.0, 1.0]
    assert said(adapted) == second
    body = ASKED | {"lora": [{"id": 0, "scale": 1.0}]}
    assert adapted.post("/completion", body).json()["content"] == first
    adapted.post("/lora-adapters", [])
    assert said(adapted) == off
    adapted.post("/lora-adapters", [{"id": 0, "scale": 1.0}])
    assert said(adapted) == first


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/lora-adapters", {"id": 0}, "Expected array"),
        ("/lora-adapters", [{"id": 2, "scale": 1}], "there is no adapter 2, of 2"),
        ("/lora-adapters", [{"id": 0, "scale": 1e9}], "expected a number from -1000 to 1000"),
        ("/completion", ASKED | {"lora": [{"id": 9}]}, "lora: 9 is not valid; expected a number"),
        ("/completion", ASKED | {"lora": 1}, "Expected array"),
    ],
)
def test_what_is_refused(adapted: Served, path: str, body: object, message: str) -> None:
    answer = adapted.post(path, body)
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]


def test_a_model_without_any(tiny: Served) -> None:
    assert tiny.get("/lora-adapters").json() == []
    answer = tiny.post("/completion", ASKED | {"lora": [{"id": 0, "scale": 1.0}]})
    assert answer.status_code == 400
    assert "the model is open without adapters" in answer.json()["error"]["message"]
