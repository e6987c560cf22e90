"""A change of the caches that fails anywhere: the next answer is that of a fresh context."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

import numpy as np
import pytest

from engine.backends.opencl.drivers.device import list_devices
from engine.errors import BadSetting, Cancelled, DeviceError
from engine.kvcache.causal import BITS, POSITION
from engine.protocol import Generate, Piece, Sampling
from engine.runner import load
from engine.runner.api import Model
from engine.runner.generate import generate
from engine.runner.perplexity import score
from engine.runner.sequence import Sequenced
from tests.engine.models.herons import known, write_heron
from tests.engine.runner.failing import fail, n_steps
from tests.goldens.tiny import write_tiny
from tests.kernels.harness import nmse

N_CTX, KEEP = 64, 5
TOKENS = [4 + (7 * i + i * i) % 300 for i in range(N_CTX)]
OTHER = [4 + (11 * i) % 290 for i in range(20)]
DEVICES = ["host", *[d.name for d in list_devices() if d.default][:1]]


def never() -> bool:
    return False


def compute(sequence: Sequenced, prompt: Sequence[int]) -> np.ndarray:
    """Logits behind a prompt, reusing what is cached."""
    n = sequence.reuse(prompt)
    steps = sequence.prefill(prompt[n:], never)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return np.array(end.value)


def fresh(model: Model, prompt: Sequence[int]) -> np.ndarray:
    model.loaded.built.caches.clear()
    return compute(Sequenced(model.loaded.stepper), prompt)


def check(model: Model, sequence: Sequenced, prompt: Sequence[int]) -> None:
    """Tokens are those of the caches, and an answer is what it is in a fresh context."""
    for cache in model.loaded.built.caches.caches:
        mine = cache.cells[cache.cells[:, BITS] == 1, POSITION].tolist()
        seen = cache.window or N_CTX
        assert len(set(mine)) == len(mine)
        assert set(range(max(0, len(sequence.items) - seen + 1), len(sequence.items))) <= {*mine}
    got = compute(sequence, prompt)
    assert sequence.items == list(prompt)
    assert nmse(got, fresh(model, prompt)) < 1e-5


def shift(sequence: Sequenced) -> None:
    sequence.shift(KEEP, never)


def branch(sequence: Sequenced) -> None:
    compute(sequence, TOKENS[:30] + OTHER)


def decode(sequence: Sequenced) -> None:
    sequence.reuse(TOKENS[: N_CTX - 5])
    for token in OTHER[:3]:
        sequence.append(token)


KEPT = TOKENS[:KEEP] + TOKENS[KEEP + (N_CTX - KEEP) // 2 :]
# What is done, and the prompt that comes next: it begins like what may be in the caches.
CHANGES: dict[str, tuple[Callable[[Sequenced], None], list[int]]] = {
    "shift": (shift, [*KEPT, 77, 78]),
    "branch": (branch, [*TOKENS[:30], *OTHER[:10], 77]),
    "decode": (decode, [*TOKENS[: N_CTX - 5], *OTHER[:2], 77]),
}


@pytest.fixture(
    scope="module",
    params=[
        ("gemma3", "host"),
        ("heron", "host"),
        *[("llama", device) for device in DEVICES[1:]],
    ],
)
def model(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Model]:
    architecture, device = request.param
    path = tmp_path_factory.mktemp("failing") / "tiny.gguf"
    write_heron(path) if architecture == "heron" else write_tiny(path, architecture)
    with known(), load(path, device=device, ctx=N_CTX) as model:
        yield model


def full(model: Model) -> Sequenced:
    """A sequence that fills the context."""
    model.loaded.built.caches.clear()
    sequence = Sequenced(model.loaded.stepper)
    compute(sequence, TOKENS)
    return sequence


def errors() -> Iterator[BaseException]:
    while True:
        yield DeviceError("pocl:0", "a launch failed")
        yield MemoryError()
        yield RuntimeError("a bug")


def check_failures(model: Model, change: str, new_plans: bool, trials: int) -> None:
    """At so many steps evenly, and at the first ones, where a change begins."""
    work, following = CHANGES[change]
    planner = model.loaded.stepper.planner
    work(full(model))

    def start() -> Sequenced:
        sequence = full(model)
        if new_plans:  # then plans are made while it happens, and memory may be asked for
            planner.pin({})
        return sequence

    sequence = start()
    total = n_steps(lambda: work(sequence))
    assert total > 40
    raised = errors()
    for nth in sorted({*range(1, 9), *range(1, total + 1, max(1, total // trials))}):
        sequence, error = start(), next(raised)
        came = fail(lambda s=sequence: work(s), nth, error)  # type: ignore[misc]
        assert came is None or came is error or came.__cause__ is error, (nth, came)
        check(model, sequence, following)


@pytest.mark.each_value
@pytest.mark.parametrize("change", CHANGES)
def test_a_failure_anywhere(model: Model, change: str) -> None:
    check_failures(model, change, new_plans=False, trials=12)


@pytest.mark.full
@pytest.mark.parametrize("new_plans", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_a_failure_at_each_step(model: Model, change: str, new_plans: bool) -> None:
    check_failures(model, change, new_plans, trials=150 if new_plans else 1000)


def test_what_was_scored_is_not_seen_by_the_next_answer(model: Model) -> None:
    """Scoring that is cancelled leaves its tokens in the caches; so do logits nobody reads on."""
    expected = fresh(model, OTHER)
    asked = iter([False, True])
    stepper, tokenizer = model.loaded.stepper, model.loaded.tokenizer
    scoring = score(stepper, tokenizer, "the other an" * 40, 32, 0, lambda: next(asked))
    with pytest.raises(Cancelled):
        list(scoring)
    assert nmse(compute(Sequenced(stepper), OTHER), expected) < 1e-5
    with closing(model.logits(TOKENS)) as logits:
        next(logits)
    assert nmse(compute(Sequenced(stepper), OTHER), expected) < 1e-5


def test_an_answer_that_is_left_or_cancelled(model: Model) -> None:
    """At any token, while devices compute the next one."""
    sequence = Sequenced(model.loaded.stepper)
    model.loaded.built.caches.clear()
    request = Generate(1, prompt="abc", sampling=Sampling(temperature=0), max_tokens=9)
    for n_heard in (0, 1, 4):
        with closing(generate(model.loaded, sequence, request, never)) as events:  # type: ignore[type-var]
            heard = 0
            for event in events:
                heard += isinstance(event, Piece)
                if heard == n_heard:
                    break
        check(model, sequence, [*sequence.items[:3], 77])
        model.loaded.built.caches.clear()
        sequence.items.clear()
        asked = iter([False] * n_heard)
        list(generate(model.loaded, sequence, request, lambda a=asked: next(a, True)))  # type: ignore[misc]
        check(model, sequence, [*sequence.items[:3], 77])


def test_keys_that_cannot_be_turned_are_computed_again(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    sequence = full(model)

    def broken(*_: object) -> None:
        raise DeviceError("pocl:0", "out of resources")

    with monkeypatch.context() as patch:
        patch.setattr("engine.runner.stepper.Stepper._turn", broken)
        sequence.shift(KEEP, never)
        assert sequence.items == KEPT
        check(model, sequence, [*KEPT, 77])
        sequence = full(model)
        with pytest.raises(Cancelled):
            sequence.shift(KEEP, lambda: True)
        assert sequence.items == []
        check(model, sequence, OTHER)


def test_a_shift_makes_half_the_context_free(model: Model) -> None:
    for n, keep, left in [(64, 0, 32), (64, 5, 35), (50, 0, 32), (33, 0, 32), (32, 0, 32)]:
        sequence = full(model)
        if sequence.reuse([*TOKENS[:n], 77]) < n:  # a state goes back no further
            compute(sequence, TOKENS[:n])
        sequence.shift(keep, never)
        assert len(sequence.items) == left, (n, keep)
        assert sequence.items == TOKENS[:keep] + TOKENS[n - left + keep : n]
        model.loaded.built.caches.clear()
    sequence = full(model)
    sequence.shift(N_CTX - 1, never)
    assert sequence.items == TOKENS[:-1]
    with pytest.raises(BadSetting, match="keep: 64 .*fewer.*64"):
        sequence.shift(N_CTX, never)
