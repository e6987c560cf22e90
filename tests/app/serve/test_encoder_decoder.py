"""A model whose encoder reads the prompt, served: completions and chats, and what is refused."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.runner import load
from tests.app.serve.running import HOST, Served, served
from tests.engine.models.text.files import write
from tests.engine.models.text.test_t5 import ANSWERS, by_hand

OPTIONS = replace(HOST, ctx=64, kv="f32")
SIZES = {"max_tokens": 6, "temperature": 0}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(ANSWERS[1], tmp_path_factory.mktemp("t5"))


@pytest.fixture(scope="module")
def server(path: Path) -> Iterator[Served]:
    with served(path, OPTIONS) as running:
        yield running


def test_texts_and_chats_are_answered_and_counted(path: Path, server: Served) -> None:
    """Of a chat the last message counts, behind the system's text."""
    chat = ["translate: abc", "xyz", "translate:", "and now def"]
    with load(path, device="host", kv="f32", ctx=64) as model:
        tokenizer = model.loaded.tokenizer
        prompts = [tokenizer.encode(text) for text in (chat[0], "\n\n".join(chat[2:]))]
        expected = [tokenizer.decode(by_hand(model, ids, 6)) for ids in prompts]
    roles = ("user", "assistant", "system", "user")
    messages = [{"role": role, "content": text} for role, text in zip(roles, chat, strict=True)]
    one = server.post("/v1/completions", {"prompt": chat[0], **SIZES}).json()
    several = server.post("/v1/chat/completions", {"messages": messages, **SIZES}).json()
    found = [one["choices"][0]["text"], several["choices"][0]["message"]["content"]]
    assert [text.strip() for text in found] == [text.strip() for text in expected]
    assert [each["usage"]["prompt_tokens"] for each in (one, several)] == [*map(len, prompts)]


def test_embeddings_are_refused(server: Served) -> None:
    refused = server.post("/v1/embeddings", {"input": "abc"}).json()
    assert "'embeddings' is not supported" in refused["error"]["message"]
