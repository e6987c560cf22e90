"""What a running answer tells of its inside: the numbers of every token, and the same answer."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from engine.inside import strip
from engine.inside.live import LiveWatch
from engine.inside.strip import ProbeStrip, summarize
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
from engine.runner.stepper import StartedStep
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
    monkeypatch.setattr(strip, "AT_ONCE", 3)
    monkeypatch.setattr(strip, "EVERY", 1e9)
    found = strips(told(model, lambda: LAYERS, n=12))
    sizes = [len(floats(one.rms, one)) for one in found]
    assert sum(sizes) == 11
    assert sizes[1:] == [3, 3, 3, 1]


@pytest.mark.parametrize("waiting", [0, 1 << 16, 1 << 30])
@pytest.mark.parametrize("fused", [True, False], ids=["fused", "unfused"])
def test_tokens_are_summed_up_together(
    tiny_path: Path, monkeypatch: pytest.MonkeyPatch, waiting: int, fused: bool
) -> None:
    """However many wait for that: each result's numbers are those of its values, cut to what is
    real, whatever sizes results have and wherever they lie.
    """
    seen: list[dict[tuple[str, int], np.ndarray]] = []
    real_add = ProbeStrip.add

    def add(self: ProbeStrip, index: int, step: StartedStep, patterns: list[str]) -> None:
        seen.append({tuple(one.key): one.values.copy() for one in step.probed()})
        real_add(self, index, step, patterns)
        assert len(self._waiting) <= max(1, waiting // self._layout.ring_bytes)  # type: ignore[union-attr]

    monkeypatch.setattr(ProbeStrip, "add", add)
    monkeypatch.setattr(strip, "EVERY", 1e9)
    monkeypatch.setattr(strip, "WAITING", waiting)
    options = EngineOptions(device="host", ctx=128, flash_attention=fused)
    wanted = [Live(probes=[".*"])] * 5 + [Live(probes=["[Qk].*", "embd"])] * 2 + [LAYERS] * 9
    asked = iter(wanted)
    with closing(load_model(tiny_path, options)) as model:
        found = strips(told(model, lambda: next(asked), n=12))
    tokens = [(one, i) for one in found for i in range(len(floats(one.rms, one)))]
    assert len(tokens) == len(seen) == 11
    for (one, i), results in zip(tokens, seen, strict=True):
        keys = [(row.name, row.occurrence) for row in one.rows]
        assert keys == list(results)
        values = [results[key].astype(np.float64) for key in keys]
        rms = [np.sqrt((v**2).mean()) for v in values]
        np.testing.assert_allclose(floats(one.rms, one)[i], rms, rtol=1e-5)
        largest = [np.abs(v).max() for v in values]
        np.testing.assert_allclose(floats(one.largest, one)[i], largest, rtol=1e-6)
        at = np.frombuffer(one.at, "<i4").reshape(-1, len(keys))[i]
        np.testing.assert_array_equal(at, [np.abs(v).argmax() for v in values])


def test_numbers_that_are_none() -> None:
    holes = np.array([np.nan, -2.0, np.inf, 2.0, -np.inf, 1.0], np.float32)
    plain = np.array([3.0, -4.0, 0.0, 0.0, 0.0, 0.0], np.float32)
    lost = np.full(6, np.nan, np.float32)
    for rows, wanted in (([plain], [1]), ([holes, plain, lost], [0, 1, 2])):
        found = summarize(np.stack(rows))
        rms = np.sqrt([3, 25 / 6, 0])
        np.testing.assert_allclose(found.rms, rms[wanted], rtol=1e-6)
        np.testing.assert_array_equal(found.largest, np.array([2, 4, 0])[wanted])
        np.testing.assert_array_equal(found.at, np.array([1, 1, 0])[wanted])
        np.testing.assert_array_equal(found.nan, np.array([1, 0, 6])[wanted])
        np.testing.assert_array_equal(found.inf, np.array([2, 0, 0])[wanted])
    assert [column.tolist() for column in summarize(np.zeros((2, 0), np.float32))] == [[0, 0]] * 5


def test_a_look_reaches_the_worker(worker: Worker, tiny_path: Path) -> None:
    """Begun without, looked at while it is written, and no longer."""
    worker.get(Load(worker.new_id(), str(tiny_path), HOST))
    number = worker.new_id()
    request = Generate(number, prompt="abc", sampling=REPEATING, max_tokens=600)
    told: list[Reply] = []

    def quiet() -> bool:
        return any(strips(told)) and all(isinstance(one, Piece) for one in told[-40:])

    for reply in worker.run(request, quiet):
        told.append(reply)
        if len(told) == 3:
            worker.send(Look(number, LAYERS))
        elif isinstance(reply, ProbedTokens):
            worker.send(Look(number, Live()))
    assert isinstance(reply, Finished)
    assert reply.reason == "cancelled"  # since it was quiet
