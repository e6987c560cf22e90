"""Recurrent architectures as chats use them: whatever came before, a fresh context's logits."""

from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest

from engine.backends.opencl.backend import OpenCLBackend
from engine.backends.opencl.buffers import OpenCLBuffer, OpenCLEvent
from engine.errors import DeviceError, NotSupported
from engine.inside.token.examine import examine
from engine.kvcache.causal import BITS
from engine.models.kept import CHECKPOINTS, WORKING
from engine.protocol import Examine, Examined, Generate, Load, Piece, ReadCells, Sampling
from engine.runner import load
from engine.runner.api import Model
from engine.runner.generate import generate
from engine.runner.sequence import Sequenced
from engine.settings import EngineOptions
from engine.worker import Worker
from tests.engine.models.text.files import golden, write
from tests.engine.models.text.rows import ROWS, Row
from tests.engine.models.text.table import recurrent
from tests.engine.runner.failing import fail, n_steps
from tests.engine.runner.memory import drivers
from tests.kernels.harness import nmse

QUICK = ("lfm2", "qwen35", "falcon_h1")
NAMES = [
    pytest.param(row.name, marks=() if row.name in QUICK else pytest.mark.full)
    for row in recurrent.ROWS
]
N_CTX, TURN = 96, 33


@pytest.fixture(scope="module", params=NAMES)
def row(request: pytest.FixtureRequest) -> Row:
    return ROWS[request.param]


@pytest.fixture(scope="module")
def path(row: Row, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(row, tmp_path_factory.mktemp("recurrent"))


@pytest.fixture(scope="module")
def model(path: Path) -> Iterator[Model]:
    with load(path, device="host", kv="f32", ctx=N_CTX) as model:
        model.loaded.tokenizer.eog = frozenset()
        yield model


def never() -> bool:
    return False


def compute(sequence: Sequenced, prompt: Sequence[int], turn: int = 0) -> np.ndarray:
    """Logits behind a prompt, reusing what can be."""
    steps = sequence.prefill(prompt[sequence.reuse(prompt, turn) :], never)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return np.array(end.value)


def fresh(model: Model, prompt: Sequence[int]) -> np.ndarray:
    model.loaded.built.caches.clear()
    return compute(Sequenced(model.loaded.stepper), prompt)


def begun(model: Model, ids: Sequence[int]) -> Sequenced:
    """A question of 40 tokens that turns at 33, and 8 of an answer."""
    model.loaded.built.caches.clear()
    sequence = Sequenced(model.loaded.stepper)
    compute(sequence, ids[:40], TURN)
    for token in ids[40:48]:
        sequence.append(token)
    return sequence


def check(model: Model, sequence: Sequenced, prompt: Sequence[int]) -> None:
    """What is held are the items, and an answer is what it is in a fresh context."""
    for cache in model.loaded.built.caches.caches:
        assert np.count_nonzero(cache.cells[:, BITS]) >= len(sequence.items)
    got = compute(sequence, prompt)
    assert sequence.items == list(prompt)
    assert nmse(got, fresh(model, prompt)) < 1e-9


@pytest.fixture
def texts(row: Row) -> list[list[int]]:
    ids: list[list[int]] = golden(row)[0].tolist()
    return ids


def test_the_next_question_goes_on_from_the_turn(
    model: Model, row: Row, texts: list[list[int]]
) -> None:
    """Of the question that was asked, and as transformers go on."""
    one, other = texts
    sequence = begun(model, one)
    branch = [*one[:TURN], *other[:20]]
    assert sequence.reuse(branch, TURN) == TURN
    check(model, sequence, branch)
    sequence = begun(model, one)
    again = one[:70]
    assert sequence.reuse(again) == 48
    wanted = golden(row)[1][0]
    for at in range(48, 70):
        assert nmse(sequence.append(one[at]), wanted[at]) < 1e-10
    assert sequence.reuse([*one[:69], 5]) == 69  # the step before
    assert nmse(sequence.append(one[69]), wanted[69]) < 1e-10


@pytest.mark.sampled(3)
def test_a_failure_anywhere(model: Model, texts: list[list[int]]) -> None:
    """Of going back to the turn, reading on and writing two tokens."""
    one, other = texts

    def work(sequence: Sequenced) -> None:
        compute(sequence, [*one[:TURN], *other[:9]], TURN)
        sequence.append(other[9])
        sequence.append(other[10])

    following = [*one[:TURN], *other[:6], 7]
    sequence = begun(model, one)
    total = n_steps(lambda: work(sequence))
    errors = cycle([DeviceError("host", "a launch failed"), MemoryError(), RuntimeError("a bug")])
    for nth in sorted({*range(1, 9), *range(1, total, max(1, total // 10))}):
        sequence, error = begun(model, one), next(errors)
        came = fail(lambda s=sequence: work(s), nth, error)  # type: ignore[misc]
        assert came is None or came is error or came.__cause__ is error, (nth, came)
        check(model, sequence, following)


def test_a_cancelled_answer_leaves_no_trace(model: Model) -> None:
    sequence = Sequenced(model.loaded.stepper)
    for n_heard in (0, 1, 4):
        model.loaded.built.caches.clear()
        sequence.items.clear()
        request = Generate(1, prompt="abc", sampling=Sampling(temperature=0), max_tokens=9)
        asked = iter([False] * n_heard)
        told = list(generate(model.loaded, sequence, request, lambda a=asked: next(a, True)))  # type: ignore[misc]
        assert sum(isinstance(reply, Piece) for reply in told) <= n_heard
        check(model, sequence, [*sequence.items[:3], 7])


def test_a_full_context_is_read_again(model: Model, texts: list[list[int]]) -> None:
    one, _ = texts
    model.loaded.built.caches.clear()
    sequence = Sequenced(model.loaded.stepper)
    compute(sequence, one)
    gone = sequence.shift(4, never)
    left = [*one[:4], *one[4 + len(gone) :]]
    recurrent_too = model.loaded.built.caches.states.n_slots > 0
    assert recurrent_too
    assert sequence.items == left
    check(model, sequence, [*left, 7])


def test_what_has_no_attention_tells_the_rest(tmp_path: Path) -> None:
    with load(write(ROWS["mamba"], tmp_path), device="host", ctx=N_CTX) as model:
        sequence = Sequenced(model.loaded.stepper)
        ask = Examine(1, prompt="abcdef", attention_layers=[], lens=True)
        *_, told = examine(model.loaded, sequence, ask, never)
        assert isinstance(told, Examined)
        assert told.attention is None
        assert told.lens is not None
        ask = Examine(1, prompt="abcdef", attention_layers=[])
        with pytest.raises(NotSupported, match="attention of a model without any"):
            list(examine(model.loaded, sequence, ask, never))


@pytest.mark.device
def test_on_a_device(row: Row, texts: list[list[int]], path: Path) -> None:
    """A turn, a branch and a step that is undone, against transformers."""
    one, other = texts
    wanted = golden(row)[1][0]
    with load(path, device=drivers()[0], ctx=N_CTX) as model:
        sequence = begun(model, one)
        compute(sequence, [*one[:TURN], *other[:20]])
        sequence = begun(model, one)
        sequence.append(other[0])
        assert sequence.reuse(one[:49]) == 48
        for at in range(48, 60):
            assert nmse(sequence.append(one[at]), wanted[at]) < 1e-5


# Each failure at one of two with attention between states.
@pytest.mark.each_value
@pytest.mark.full_cases(r"\[(qwen35-(compile|read)|falcon_h1-(wait|start))")
@pytest.mark.device
@pytest.mark.parametrize("part", ["start_write", "read", "compile", "wait"])
def test_each_transfer_plan_and_wait_refused(
    row: Row, texts: list[list[int]], path: Path, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of going back to the turn, reading on and writing a token, whose plans are made anew."""
    one, other = texts
    following = [*one[:TURN], *other[:6], 7]
    parts = {"compile": OpenCLBackend, "wait": OpenCLEvent}
    whose: type = parts.get(part, OpenCLBuffer)
    real, counts = getattr(whose, part), {"now": 0, "refuse": 0}

    def refusing(*args: object) -> object:
        counts["now"] += 1
        if counts["now"] == counts["refuse"]:
            raise DeviceError("pocl:0", "out of resources")
        return real(*args)

    with load(path, device=drivers()[0], ctx=N_CTX) as model:
        wanted = fresh(model, following)

        def work(refuse: int) -> Sequenced:
            sequence = begun(model, one)
            model.loaded.stepper.planner.pin({})  # forgets its plans
            counts.update(now=0, refuse=refuse)
            try:
                compute(sequence, [*one[:TURN], *other[:9]], TURN)
                sequence.append(other[9])
            except DeviceError:
                assert refuse
            finally:
                total, counts["refuse"] = counts["now"], 0
            counts["now"] = total
            return sequence

        with monkeypatch.context() as patch:
            patch.setattr(whose, part, refusing)
            work(0)
            total = counts["now"]
            assert total > 0
            for nth in range(1, total + 1):
                assert nmse(compute(work(nth), following), wanted) < 1e-9, nth


def test_a_worker_tells_of_its_slots(worker: Worker, path: Path) -> None:
    options = EngineOptions(device="host", ctx=N_CTX)
    worker.get(Load(worker.new_id(), str(path), options))
    greedy = Sampling(temperature=0)
    asked = Generate(worker.new_id(), prompt="abcdefgh", sampling=greedy, max_tokens=4)
    stats = worker.get(asked).stats
    (slots,) = [c for c in worker.get(ReadCells(worker.new_id())).caches if c.kept]
    bits, last, kept = (
        np.frombuffer(raw, "<i4") for raw in (slots.bits, slots.positions, slots.kept)
    )
    assert len(bits) == WORKING + CHECKPOINTS
    assert last[bits != 0].max() == stats.n_context - 1
    assert set(last[kept != 0]) == {stats.n_prompt - 2}  # the last token opens the answer
    again = Generate(worker.new_id(), prompt="abcdefgh", sampling=greedy, max_tokens=4)
    assert worker.get(again).stats.n_cached == stats.n_prompt - 1
