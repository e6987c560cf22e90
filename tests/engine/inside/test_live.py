"""What a running answer tells of its inside: the numbers of every token, and the same answer."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from engine.inside import live
from engine.inside.live import LiveWatch
from engine.inside.summary import summarize
from engine.protocol import (
    Finished,
    Generate,
    Live,
    Load,
    Look,
    Piece,
    ProbedTokens,
    Reply,
    Sampling,
)
from engine.runner.generate import generate
from engine.runner.loading import LoadedModel, load_model
from engine.runner.sequence import Sequenced
from engine.scheduler.probes import Probes
from engine.settings import EngineOptions
from engine.worker import Worker

HOST = EngineOptions(device="host", ctx=128)
LAYERS = Live(probes=[r"l_out-\d+"])
REPEATING = Sampling(temperature=0, frequency_penalty=-100)  # an answer without an end
N = 10


@pytest.fixture
def model(tiny_path: Path) -> Iterator[LoadedModel]:
    with closing(load_model(tiny_path, HOST)) as opened:
        yield opened


def told(model: LoadedModel, looking: Callable[[], Live], n: int = N) -> list[Reply]:
    """Everything an answer tells; nothing of it stays."""
    sequence = Sequenced(model.stepper)
    request = Generate(1, prompt="abc", sampling=REPEATING, max_tokens=n)
    before = model.device.used
    watch = LiveWatch(1, sequence, False, looking)
    try:
        replies = list(generate(model, sequence, request, lambda: False, watch))
    finally:
        watch.close()
    model.stepper.forget(0)
    assert isinstance(replies[-1], Finished)
    assert model.device.used == before
    return replies


def ids(replies: list[Reply]) -> list[int]:
    return [info.token for r in replies if isinstance(r, Piece) for info in r.tokens]


def strips(replies: list[Reply]) -> list[ProbedTokens]:
    return [r for r in replies if isinstance(r, ProbedTokens)]


def floats(data: bytes, one: ProbedTokens) -> np.ndarray:
    return np.frombuffer(data, "<f4").reshape(-1, len(one.rows))


def test_every_token_is_told_in_order(model: LoadedModel) -> None:
    plain, replies = told(model, Live), told(model, lambda: LAYERS)
    assert ids(replies) == ids(plain)
    assert strips(plain) == []
    found = strips(replies)
    assert [(r.name, r.occurrence, r.layer) for r in found[0].rows] == [
        (f"l_out-{i}", 0, i) for i in range(3)
    ]
    rms = np.concatenate([floats(one.rms, one) for one in found])
    largest = np.concatenate([floats(one.largest, one) for one in found])
    at = np.concatenate([np.frombuffer(one.at, "<i4").reshape(-1, 3) for one in found])
    firsts = [one.first for one in found]
    assert firsts == list(np.cumsum([0, *(len(floats(one.rms, one)) for one in found)])[:-1])
    # The same tokens, computed at once: all but the answer's last are read.
    tokens = [*model.tokenizer.encode("abc"), *ids(plain)[:-1]]
    assert len(rms) == N - 1
    every = range(len(tokens))
    step = model.stepper.start(tokens, 0, every, probes=Probes((r"l_out-\d+",)))
    step()
    values = np.stack([one.values[1 - N :] for one in step.probed()], axis=1).astype(np.float64)
    np.testing.assert_allclose(rms, np.sqrt((values**2).mean(axis=2)), rtol=1e-3)
    np.testing.assert_allclose(largest, np.abs(values).max(axis=2), rtol=1e-3)
    np.testing.assert_array_equal(at, np.abs(values).argmax(axis=2))


def test_what_is_told_changes_while_it_is_written(model: LoadedModel) -> None:
    """Each token's numbers come once, in order, with the rows that were asked for then."""
    wanted = [Live(), LAYERS, LAYERS, Live(probes=["ffn_out-1", "embd"]), Live(), LAYERS]
    asked = iter([Live(), *wanted, *[LAYERS] * N])  # of the prompt, then of each token
    found = strips(told(model, lambda: next(asked)))
    seen = [
        (one.first + i, [row.name for row in one.rows])
        for one in found
        for i in range(len(floats(one.rms, one)))
    ]
    layers = ["l_out-0", "l_out-1", "l_out-2"]
    assert seen[:4] == [(1, layers), (2, layers), (3, ["embd", "ffn_out-1"]), (5, layers)]
    assert [number for number, _ in seen] == [1, 2, 3, 5, 6, 7, 8]


@pytest.mark.parametrize("bad", ["(", "room"])
def test_where_it_cannot_the_answer_goes_on(
    model: LoadedModel, bad: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = told(model, Live)
    if bad == "room":
        monkeypatch.setattr(model.device, "budget", model.device.used + 100)
    replies = told(model, lambda: LAYERS if bad == "room" else Live(probes=[bad]))
    assert ids(replies) == ids(plain)
    (problem,) = strips(replies)
    assert ("probes" if bad == "room" else "regular expression") in problem.problem
    assert problem.first == 0


def test_what_waits_to_be_told_is_bounded(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "AT_ONCE", 3)
    monkeypatch.setattr(live, "EVERY", 1e9)
    found = strips(told(model, lambda: LAYERS, n=12))
    sizes = [len(floats(one.rms, one)) for one in found]
    assert sum(sizes) == 11
    assert sizes[1:] == [3, 3, 3, 1]


def test_numbers_that_are_none() -> None:
    plain = np.array([[3.0, -4.0, 0.0, 0.0]], np.float32)
    holes = np.array([np.nan, -2.0, np.inf, 2.0, -np.inf, 1.0], np.float32)
    empty = np.zeros((0, 4), np.float32)
    lost = np.full(6, np.nan, np.float32)
    found = summarize([holes, plain, empty, lost])
    np.testing.assert_allclose(found.rms, [np.sqrt(3), 2.5, 0, 0], rtol=1e-6)
    np.testing.assert_array_equal(found.largest, [2, 4, 0, 0])
    np.testing.assert_array_equal(found.at, [1, 1, 0, 0])
    np.testing.assert_array_equal(found.nan, [1, 0, 0, 6])
    np.testing.assert_array_equal(found.inf, [2, 0, 0, 0])


def test_a_look_reaches_the_worker(tiny_path: Path) -> None:
    """Begun without, looked at while it is written, and no longer."""
    with Worker() as worker:
        worker.get(Load(worker.new_id(), str(tiny_path), HOST))
        number = worker.new_id()
        request = Generate(number, prompt="abc", sampling=REPEATING, max_tokens=600)
        told: list[Reply] = []

        def quiet() -> bool:
            return any(strips(told)) and all(isinstance(one, Piece) for one in told[-40:])

        for reply in worker.ask(request, quiet):
            told.append(reply)
            if len(told) == 3:
                worker.send(Look(number, LAYERS))
            elif isinstance(reply, ProbedTokens):
                worker.send(Look(number, Live()))
        assert isinstance(reply, Finished)
        assert reply.reason == "cancelled"  # since it was quiet
