"""Two answers side by side, by real tiny models in real engines."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from app.local_engine import LocalEngine
from app.state.pair.pair import IN_TURN, PairChoice
from app.state.presets import OwnSampling
from app.state.workbench import Workbench
from engine.protocol import (
    AnswerScored,
    ChatMessage,
    EncodedText,
    EncodeText,
    Failed,
    Load,
    Request,
    ScoreAnswer,
)
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.state.conftest import Until
from tests.goldens.tiny import write_tiny

GREEDY = OwnSampling(temperature=0.0)
WILD = OwnSampling(temperature=3.0, top_k=0, top_p=1.0, min_p=0.0, seed=4)
HOST = {"device": "host", "ctx": 256}
QUESTION = "the hat on the mat"


@pytest.fixture(scope="module")
def other_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with the tokens of the tiny one and coarser weights."""
    q4 = gguf.GGMLQuantizationType.Q4_0
    path = tmp_path_factory.mktemp("other") / "other.gguf"
    return write_tiny(path, "llama", {"ffn_": q4, "attn_": q4})


class Crowded(ScriptedEngine):
    """An engine in whose memory no second model has room."""

    def send(self, request: Request[Any]) -> None:
        if isinstance(request, Load):
            self.notify(Failed(request.id, "NoMem", "host: no room for weights"))
        else:
            super().send(request)


@pytest.fixture(scope="module")
def one_bench(qapp: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    """A bench for all tests of this module; no thread is left after it."""
    before, folder = set(threading.enumerate()), tmp_path_factory.mktemp("bench")
    engine = LocalEngine()
    bench = Workbench(engine, folder / "config", folder / "data", start=LocalEngine)
    yield bench
    bench.close()
    engine.close()
    assert set(threading.enumerate()) <= before


@pytest.fixture
def tiny(one_bench: Workbench, tiny_path: Path, other_path: Path, until: Until) -> Workbench:
    """The tiny model is open on the host, with a new chat; answers have an end."""
    one_bench.chat.open(None)
    return opened(one_bench, tiny_path, other_path, until)


def opened(bench: Workbench, tiny_path: Path, other_path: Path, until: Until) -> Workbench:
    for path in (tiny_path, other_path):
        bench.preferences.update_model(str(path), **HOST)
    if bench.session.path != tiny_path:
        bench.open_model(tiny_path)
    until(lambda: bench.session.status == "ready")
    limits = bench.chat.details.limits
    for path in (tiny_path, other_path):
        bench.preferences.update_model(
            str(path), limits=type(limits)(max_tokens=12, stop_loops=False)
        )
    return bench


@pytest.fixture
def crowded(
    qapp: object, tmp_path: Path, tiny_path: Path, other_path: Path, until: Until
) -> Iterator[Workbench]:
    """As `tiny`, where two models do not fit the memory."""
    before = set(threading.enumerate())
    engine = LocalEngine()
    bench = Workbench(engine, tmp_path / "config", tmp_path / "data", start=Crowded)
    yield opened(bench, tiny_path, other_path, until)
    bench.close()
    engine.close()
    assert set(threading.enumerate()) <= before


def scored(bench: Workbench, reader: Path, number: int, until: Until) -> list[float]:
    """A side's answer as the window's engine scores it with a model, asked for by hand."""
    assert bench.pair.sides is not None
    side = bench.pair.sides[number]
    if bench.session.path != reader:
        bench.open_model(reader)
        until(lambda: bench.session.status == "ready")
    tokens: list[EncodedText] = []
    told: list[AnswerScored] = []
    assert side.message is not None
    bench.client.send(EncodeText(0, side.message.text), tokens.append)
    until(lambda: tokens)
    messages = [ChatMessage(m.role, m.text) for m in bench.chat.path[:-1]]
    bench.client.send(ScoreAnswer(0, messages=messages, tokens=tokens[0].tokens), told.append)
    until(lambda: told)
    found: list[float] = np.frombuffer(told[0].logprobs, "<f4").tolist()
    return found


def test_two_settings_are_answered_at_once_by_one_engine(tiny: Workbench, until: Until) -> None:
    path, chat, pair = tiny.session.path, tiny.chat, tiny.pair
    assert path is not None
    assert pair.send(QUESTION, PairChoice(path, GREEDY), PairChoice(path, WILD))
    assert len(chat.writers.answers) == 2
    assert [m.role for m in chat.path] == ["user", "assistant"]
    until(lambda: not pair.busy)
    assert pair.sides is not None
    assert pair.problem == pair.note == ""
    left, right = pair.sides
    assert left.message is not None
    assert right.message is not None
    assert chat.siblings(left.message) == [left.message, right.message]
    assert chat.path[-1] is left.message
    assert left.message.text != right.message.text
    assert left.message.n_tokens == right.message.n_tokens == 12
    for side in pair.sides:
        assert side.words
        assert all(word.own == word.other for word in side.words)
    parted = pair.parted
    assert parted is not None
    greedy, wild = left.words[parted[0]], right.words[parted[1]]
    assert greedy.own > wild.own  # the likeliest word against another one


def test_two_models_answer_in_two_engines_and_read_each_other(
    tiny: Workbench, other_path: Path, until: Until
) -> None:
    path, pair = tiny.session.path, tiny.pair
    assert path is not None
    pair.show(True)
    assert pair.send(QUESTION, PairChoice(path, GREEDY), PairChoice(other_path, GREEDY))
    until(lambda: not pair.busy)
    assert pair.problem == pair.note == ""
    assert pair.sides is not None
    left, right = pair.sides
    assert left.message is not None
    assert right.message is not None
    assert (left.message.model, right.message.model) == ("tiny", "other")
    assert tiny.session.path == path
    assert right.scored is not None
    assert np.allclose(right.scored.logprobs, scored(tiny, path, 1, until), atol=1e-4)
    assert left.scored is not None
    assert pair.second is not None
    assert pair.second.status == "ready"
    assert np.allclose(left.scored.logprobs, scored(tiny, other_path, 0, until), atol=1e-4)
    pair.show(False)
    second = pair.second
    until(lambda: second.status == "idle")


def test_where_memory_lacks_they_answer_in_turn(
    crowded: Workbench, other_path: Path, until: Until
) -> None:
    path, pair = crowded.session.path, crowded.pair
    assert path is not None
    assert pair.send(QUESTION, PairChoice(path, GREEDY), PairChoice(other_path, GREEDY))
    until(lambda: not pair.busy)
    assert pair.problem == ""
    assert pair.note == IN_TURN
    assert pair.sides is not None
    left, right = pair.sides
    assert left.message is not None
    assert right.message is not None
    assert (left.message.model, right.message.model) == ("tiny", "other")
    assert left.message.n_tokens == right.message.n_tokens == 12
    assert crowded.session.path == path  # the first model is open again
    assert right.scored is not None
    assert np.allclose(right.scored.logprobs, scored(crowded, path, 1, until), atol=1e-4)


def test_one_side_is_stopped_and_the_other_goes_on(tiny: Workbench, until: Until) -> None:
    path, chat, pair = tiny.session.path, tiny.chat, tiny.pair
    assert path is not None
    limits = chat.details.limits
    chat.details.set_limits(type(limits)(max_tokens=120, stop_loops=False))
    assert pair.send(QUESTION, PairChoice(path, GREEDY), PairChoice(path, WILD))
    assert pair.sides is not None
    left, right = pair.sides
    until(lambda: len(right.tokens) > 2)
    pair.stop(1)
    until(lambda: right.ended)
    assert right.message is not None
    assert right.message.finish == "cancelled"
    until(lambda: not pair.busy)
    assert left.message is not None
    assert left.message.finish == "length"
    assert pair.problem == ""


def test_a_side_branches_and_is_compared_anew(
    tiny: Workbench, other_path: Path, until: Until
) -> None:
    path, chat, pair = tiny.session.path, tiny.chat, tiny.pair
    assert path is not None
    pair.show(True)
    assert pair.send(QUESTION, PairChoice(path, GREEDY), PairChoice(other_path, GREEDY))
    until(lambda: not pair.busy)
    assert pair.sides is not None
    before, right = chat.path[-1], pair.sides[1]
    first = right.message
    assert first is not None
    other = next(o for o in right.tokens[3].top if o.token != right.tokens.ids[3])
    assert pair.branch(1, 3, other)
    until(lambda: not pair.busy)
    assert right.message is not None
    assert right.message is not first
    assert right.message.model == "other"
    assert right.tokens.ids[:4] == [*chat.tokens_of(first).ids[:3], other.token]
    assert right.scored is not None
    assert chat.path[-1] is before  # the path shown stays
    assert pair.problem == ""


def test_what_cannot_be_opened_is_said_and_the_first_answer_stays(
    tiny: Workbench, tmp_path: Path, until: Until
) -> None:
    path, pair = tiny.session.path, tiny.pair
    assert path is not None
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF and nothing else")
    assert pair.send(QUESTION, PairChoice(path, GREEDY), PairChoice(broken, GREEDY))
    until(lambda: pair.problem and not tiny.chat.busy)
    assert "broken.gguf" in pair.problem
    assert tiny.chat.path[-1].n_tokens == 12
    assert not pair.busy


def test_another_chat_ends_the_comparison_and_not_the_answers(
    tiny: Workbench, until: Until
) -> None:
    path, chat, pair = tiny.session.path, tiny.chat, tiny.pair
    assert path is not None
    assert pair.send(QUESTION, PairChoice(path, GREEDY), PairChoice(path, WILD))
    here = chat.chat_id
    chat.open(None)
    assert pair.sides is None
    until(lambda: not chat.writers.answers)
    chat.open(here)
    finished = [m.finish for m in chat.siblings(chat.path[-1])]
    assert finished == ["length", "length"]
