"""Two chats of a window are answered at once: neither waits for the other, or ends it."""

from pathlib import Path
from typing import Any

import gguf
import msgspec
import pytest

from app.state.problem import Problem
from app.state.talk.answer import Answer
from app.state.workbench import Workbench
from engine.protocol import Generate, Sampling
from engine.settings import EngineOptions
from tests.app.state.conftest import Until
from tests.goldens.tiny import write_tiny


@pytest.fixture
def tiny_bench(
    bench: Workbench, tmp_path: Path, until: Until, monkeypatch: pytest.MonkeyPatch
) -> Workbench:
    """With a model whose answers end only when they are stopped."""
    request = Answer.request

    def endless(self: Answer, *given: Any, **named: Any) -> Generate:
        return msgspec.structs.replace(request(self, *given, **named), endless=True)

    monkeypatch.setattr(Answer, "request", endless)
    length = {"llama.context_length": (1 << 14, gguf.GGUFValueType.UINT32)}
    path = write_tiny(tmp_path / "tiny.gguf", "llama", metadata=length)
    bench.open_model(path, EngineOptions(device="host", ctx=1 << 12, parallel=2, cells=0))
    until(lambda: bench.session.status == "ready")
    return bench


def begin(bench: Workbench, question: str) -> int:
    """Ask in a new chat for an answer without an end."""
    chat = bench.chat
    chat.open(None)
    chat.details.set_sampling(Sampling(temperature=0.0))
    assert chat.send(question)
    assert chat.chat_id is not None
    return chat.chat_id


def said(bench: Workbench, chat: int) -> int:
    """How many tokens the answer under way of a chat has."""
    answer = bench.chat._answering.held(chat)
    return len(answer.tokens) if answer is not None else -1


def test_a_second_chat_is_answered_beside_the_first(
    tiny_bench: Workbench, until: Until, problems: list[Problem]
) -> None:
    bench, chat = tiny_bench, tiny_bench.chat
    heard: list[bool] = []
    chat.busy_changed.connect(heard.append)
    first = begin(bench, "one")
    until(lambda: said(bench, first) > 3)
    second = begin(bench, "two")
    assert chat.busy
    until(lambda: said(bench, second) > 3)
    now = said(bench, first)
    assert now > 3  # it is still written
    until(lambda: said(bench, first) > now)
    assert bench.session.status == "answering"
    assert chat.path[0].text == "two"
    chat.stop()  # what is shown
    until(lambda: said(bench, second) < 0)
    assert not chat.busy
    assert bench.session.status == "answering"
    again = said(bench, first)
    until(lambda: said(bench, first) > again)
    chat.open(first)
    assert chat.busy
    assert chat.answering == 1
    chat.stop()
    until(lambda: not chat.busy)
    assert bench.session.status == "ready"
    assert chat.path[1].finish == "cancelled"
    assert chat.path[1].n_tokens > again
    assert not problems
    assert True in heard
    assert not heard[-1]


def test_a_chat_that_is_answered_takes_no_second_question(
    tiny_bench: Workbench, until: Until, problems: list[Problem]
) -> None:
    chat = tiny_bench.chat
    begin(tiny_bench, "one")
    assert not chat.send("two")
    assert [one.kind for one in problems] == ["Busy"]
    chat.stop()
    until(lambda: not chat.busy)


def test_all_end_with_the_engine(tiny_bench: Workbench, until: Until) -> None:
    first = begin(tiny_bench, "one")
    second = begin(tiny_bench, "two")
    until(lambda: min(said(tiny_bench, first), said(tiny_bench, second)) > 1)
    tiny_bench.session.restart()
    until(lambda: tiny_bench.session.status == "ready")
    assert [said(tiny_bench, chat) for chat in (first, second)] == [-1, -1]
    for chat in (first, second):
        tiny_bench.chat.open(chat)
        assert tiny_bench.chat.path[1].finish == "cancelled"
