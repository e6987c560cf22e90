"""Chats with a recurrent model: what a state has read is what a fresh context would have read."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.backends.opencl.drivers.device import list_devices
from engine.models.kept import SLOTS
from engine.protocol import ChatMessage, Finished, Generate, Piece, Progress, Reply, Sampling
from engine.runner import load
from engine.runner.api import Model
from engine.runner.bench import fill
from engine.runner.generate import generate
from engine.runner.sequence import Sequenced
from tests.engine.models.herons import LAYERS, by_definition, is_leaky, known, write_heron
from tests.goldens.tiny import Draws, E
from tests.kernels.harness import nmse

DEVICES = ["host", *[d.name for d in list_devices() if d.default][:1]]
N_CTX = 256
TOKENS = Draws(9).ids(96).tolist()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with known():
        yield write_heron(tmp_path_factory.mktemp("states") / "heron.gguf")


@pytest.fixture(scope="module")
def model(path: Path) -> Iterator[Model]:
    with load(path, device="host", ctx=N_CTX, kv="f32") as model:
        model.loaded.tokenizer.eog = frozenset()
        yield model


@pytest.fixture
def sequence(model: Model) -> Sequenced:
    model.loaded.built.caches.clear()
    return Sequenced(model.loaded.stepper)


def never() -> bool:
    return False


def pieces(total: int, size: int) -> Iterator[tuple[int, int]]:
    for start in range(0, total, size):
        yield start, min(size, total - start)


@pytest.mark.parametrize("device", DEVICES)
def test_it_computes_what_it_defines_in_pieces_of_any_size(path: Path, device: str) -> None:
    """Pieces of 7 and 65 are padded."""
    wanted = by_definition(np.array(TOKENS))
    with load(path, device=device, ctx=N_CTX, kv="f32") as model:
        stepper = model.loaded.stepper
        for size in (96, 1, 7, 64, 65):
            stepper.forget(0)
            rows = [
                stepper.step(TOKENS[at : at + n], at, range(n)).copy()
                for at, n in pieces(len(TOKENS), size)
            ]
            assert nmse(np.concatenate(rows), wanted) < (1e-10 if device == "host" else 1e-5), size


def events(model: Model, sequence: Sequenced, request: Generate) -> tuple[list[int], Finished]:
    found: list[Reply] = list(generate(model.loaded, sequence, request, never))
    end = found[-1]
    assert isinstance(end, Finished)
    return [t.token for e in found if isinstance(e, Piece) for t in e.tokens], end


def chat(*contents: str, **options: object) -> Generate:
    roles = ["user", "assistant"]
    messages = [ChatMessage(roles[i % 2], text) for i, text in enumerate(contents)]
    greedy = Sampling(temperature=0)
    return Generate(1, messages=messages, sampling=greedy, max_tokens=12, **options)  # type: ignore[arg-type]


def check_as_fresh(model: Model, sequence: Sequenced, request: Generate) -> Finished:
    """The answer is that of a fresh context, and so are the logits that would follow it."""
    told, end = events(model, sequence, request)
    items = list(sequence.items)
    got = sequence.append(99)
    model.loaded.built.caches.clear()
    other = Sequenced(model.loaded.stepper)
    wanted, _ = events(model, other, request)
    assert told == wanted
    assert items == other.items
    assert nmse(got, other.append(99)) < 1e-9
    return end


def test_the_next_question_parts_before_the_opening_of_the_answer(
    model: Model, sequence: Sequenced
) -> None:
    """Its template writes the answer anew: another text than was generated."""
    first, _ = events(model, sequence, chat("one of the others"))
    assert len(first) == 12
    opening = model.loaded.tokenizer.encode("<assistant>", add_special=False)
    before = len(sequence.items) - 11 - len(opening)  # the last token of an answer is not computed
    assert sequence.turn == before
    asked = chat("one of the others", "not what it said", "and now")
    assert check_as_fresh(model, sequence, asked).stats.n_cached == before


def test_an_answer_again_and_one_that_is_continued(model: Model, sequence: Sequenced) -> None:
    tokens, _ = events(model, sequence, chat("one of the others"))
    turn = sequence.turn
    again = check_as_fresh(model, sequence, chat("one of the others"))
    assert again.stats.n_cached == turn
    model.loaded.built.caches.clear()
    sequence = Sequenced(model.loaded.stepper)
    events(model, sequence, chat("one of the others"))
    text = model.loaded.tokenizer.decode(tokens[:5])
    continued = chat("one of the others", prefix=text, prefix_tokens=tokens[:5])
    assert check_as_fresh(model, sequence, continued).stats.n_cached == turn


def test_an_answer_that_stays_is_not_read_again(model: Model, sequence: Sequenced) -> None:
    """What follows the last token of the answer goes on from the state behind it."""
    request = Generate(1, prompt="the other", sampling=Sampling(temperature=0), max_tokens=9)
    events(model, sequence, request)
    held = list(sequence.items)
    assert sequence.reuse([*held, 5, 6]) == len(held)


def test_an_edit_far_back_resumes_from_a_state_on_the_way(
    model: Model, sequence: Sequenced, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.runner.sequence.CHECKPOINT_EVERY", 16)
    for _ in sequence.prefill(TOKENS, never):
        pass
    states = model.loaded.built.caches.states
    assert sorted(states.read[states.kept].tolist()) == [16, 32, 48, 64, 80, 96]
    for _ in sequence.prefill(TOKENS[:20], never):  # further: those used longest ago go
        pass
    assert sorted(states.read[states.kept].tolist()) == [48, 64, 80, 96, 112]
    edited = [*TOKENS[:90], 5, 6, 7]
    n = sequence.reuse(edited)
    assert n == 80
    steps = sequence.prefill(edited[n:], never)
    got = _last(steps)
    model.loaded.built.caches.clear()
    wanted = _last(Sequenced(model.loaded.stepper).prefill(edited, never))
    assert nmse(got, wanted) < 1e-10


def _last(steps: object) -> np.ndarray:
    while True:
        try:
            next(steps)  # type: ignore[call-overload]
        except StopIteration as end:
            return np.array(end.value)


def test_a_full_context_is_read_again_and_says_so(model: Model, sequence: Sequenced) -> None:
    request = Generate(
        1, prompt="abc", sampling=Sampling(temperature=0), max_tokens=N_CTX + 20, when_full="shift"
    )
    found = list(generate(model.loaded, sequence, request, never))
    end = found[-1]
    assert isinstance(end, Finished)
    assert end.reason == "length"
    assert end.stats.n_shifts == 1
    (note,) = end.stats.notes
    assert "128 tokens were forgotten and 128 read again" in note
    begun = next(i for i, e in enumerate(found) if isinstance(e, Piece))
    reading = [e for e in found[begun:] if isinstance(e, Progress)]
    assert [(e.stage, e.done, e.total) for e in reading] == [("prefill", 128, 128)]
    items = list(sequence.items)
    got = sequence.append(99)
    model.loaded.built.caches.clear()
    wanted = _last(Sequenced(model.loaded.stepper).prefill([*items, 99], never))
    assert nmse(got, wanted) < 1e-9


def test_a_benchmark_at_a_depth_reads_it_once(model: Model, sequence: Sequenced) -> None:
    fill(model.loaded, sequence, 40, never)
    for token in range(20):
        sequence.append(token)
    read = []
    begin = sequence.begin
    sequence.begin = lambda *a, **k: read.append(1) or begin(*a, **k)  # type: ignore[func-returns-value, method-assign]
    fill(model.loaded, sequence, 40, never)
    assert not read
    assert len(sequence.items) == 40


def test_slots_are_rows_of_their_leaves(model: Model) -> None:
    states = model.loaded.built.states
    assert [state is not None for state in states] == [is_leaky(i) for i in range(LAYERS)]
    assert all(t.dims == (E, SLOTS) for s in states if s for t in s.leaves)
