"""Many answers at once say what each says alone, whatever comes and goes meanwhile."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import pytest

from engine.errors import DeviceError
from engine.protocol import Finished, Progress
from engine.runner.answering.batcher import Broken
from engine.runner.answering.pace import EVERY, LEAST, LONG, TIMES, Pace
from engine.runner.api import Model, load
from engine.runner.batch import MAX_BATCH, Patience
from engine.runner.stepper import Stepper
from tests.engine.runner.answering.many import Many, alone, asked, ids, tiny
from tests.goldens.tiny import write_tiny

pytestmark = pytest.mark.full_cases(r"\[gemma3")

N, CTX = 16, 96
IDS = ids(17, 4000)


def prompts(n: int, shared: int = 0) -> list[list[int]]:
    """Different lengths; all begin with so many that are the same."""
    return [IDS[:shared] + IDS[100 + 40 * i : 100 + 40 * i + 5 + 3 * i] for i in range(n)]


@pytest.fixture(scope="module", params=["llama", "gemma3", "qwen35", "mamba2"])
def model(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Model]:
    """Full caches, windows of 8, recurrent states beside attention and alone."""
    with load(
        tiny(tmp_path_factory.mktemp("many"), request.param),
        device="host",
        kv="f32",
        ctx=CTX,
        parallel=N,
        cells=0,
    ) as model:
        yield model


@pytest.mark.each_value
@pytest.mark.full_cases(r"\[mamba2")  # states and attention in turn: qwen35, falcon_h1
@pytest.mark.parametrize("shared", [0, 40])
def test_sixteen_at_once_say_what_each_says_alone(model: Model, shared: int) -> None:
    requests = [asked(i, text) for i, text in enumerate(prompts(N, shared), 1)]
    expected = alone(model, requests)
    many = Many(model)
    for i, request in enumerate(requests):
        many.ask(request)
        if i % 5 == 4:
            many.turn()
    many.finish()
    assert {i: many.tokens(i) for i in expected} == expected
    cached = [many.end(i).stats.n_cached for i in expected]  # type: ignore[union-attr]
    if model.loaded.built.caches.states.n_slots == 0:
        assert sum(n >= shared for n in cached[1:]) == N - 1
    assert all(many.end(i).reason == "length" for i in expected)  # type: ignore[union-attr]


def test_equal_prompts_in_flight_are_read_once(model: Model) -> None:
    text = IDS[:80]
    expected = alone(model, [asked(1, text, 4)])[1]
    many = Many(model)
    for i in range(1, 5):
        many.ask(asked(i, text, 4))
    many.finish()
    assert [many.tokens(i) for i in range(1, 5)] == [expected] * 4
    read = [sum(e.done == e.total for e in many.told[i] if isinstance(e, Progress)) for i in (1, 2)]
    assert read == [1, 1]
    if model.loaded.built.caches.states.n_slots == 0:
        assert [many.end(i).stats.n_cached for i in range(1, 5)] == [0, 79, 79, 79]  # type: ignore[union-attr]


@pytest.mark.sampled(2)
@pytest.mark.full_cases(r"\[mamba2")  # states and attention in turn: qwen35, falcon_h1
def test_shifts_and_cancels_in_between(model: Model) -> None:
    """Contexts that get full forget and go on, others end early: nobody else notices."""
    requests = [asked(i, text, 30 + 9 * i) for i, text in enumerate(prompts(8), 1)]
    expected = alone(model, requests)
    many = Many(model)
    for request in requests:
        many.ask(request)
    leavers = {2: 5, 5: 17, 7: 40}
    for turn in range(400):
        many.cancelled |= {number for number, when in leavers.items() if turn == when}
        if many.batcher.is_idle:
            break
        many.turn()
    for number, tokens in expected.items():
        end = many.end(number)
        assert isinstance(end, Finished)
        if number in leavers:
            assert end.reason == "cancelled"
            said = many.tokens(number)
            assert said == tokens[: len(said)]
        else:
            assert many.tokens(number) == tokens
    assert sum(many.end(i).stats.n_shifts for i in expected) > 1  # type: ignore[union-attr]


def test_nobody_goes_on_from_what_has_seen_forgotten_tokens(tmp_path: Path) -> None:
    """After a shift what is left has seen what is gone, of somebody else: it is not shared."""
    path = write_tiny(tmp_path / "tiny.gguf", "llama")
    with load(path, device="host", kv="f32", ctx=CTX, parallel=2, cells=0) as model:
        forgetting, after = asked(1, IDS[:90], 40), asked(2, IDS[:30], 6)
        many = Many(model)
        many.ask(forgetting)
        many.finish()
        (held,) = (one.items for one in many.slots.sequences if one.items)
        follower = asked(3, [*held[:40]], 6)  # as the shifted one begins
        many.ask(after)
        many.ask(follower)
        many.finish()
        assert {i: many.tokens(i) for i in (2, 3)} == alone(model, [after, follower])


def test_when_cells_run_out_the_youngest_waits_and_goes_on(tmp_path: Path) -> None:
    """Three contexts want twice the cells that there are: all end with what they say alone."""
    path = write_tiny(tmp_path / "tiny.gguf", "llama")
    with load(path, device="host", kv="f32", ctx=256, parallel=3, cells=256) as model:
        requests = [asked(i, IDS[i * 60 : i * 60 + 50], 110) for i in (1, 2, 3)]
        expected = alone(model, requests)
        many = Many(model)
        has_room = many.batcher.room.admits  # once, nobody foresees it
        many.batcher.room.admits = lambda others, one: one.is_new or has_room(others, one)  # type: ignore[method-assign]
        for request in requests:
            many.ask(request)
        waited = 0
        while not many.batcher.is_idle:
            many.turn()
            waited += any(not one.is_new for one in many.batcher.waiting)
        assert waited
        assert {i: many.tokens(i) for i in expected} == expected


def test_who_would_not_fit_waits_for_room(tmp_path: Path) -> None:
    with load(
        write_tiny(tmp_path / "t.gguf", "llama"), device="host", ctx=256, parallel=3
    ) as model:
        many = Many(model)
        for i in (1, 2, 3):
            many.ask(asked(i, IDS[i * 60 : i * 60 + 75], 40))
        many.turn()
        assert [len(many.batcher.running), len(many.batcher.waiting)] == [2, 1]
        many.finish()
        assert [len(many.tokens(i)) for i in (1, 2, 3)] == [40] * 3


def test_an_endless_answer_keeps_nobody_waiting(tmp_path: Path) -> None:
    """It has all cells from time to time; when it forgets half of them, another begins."""
    with load(
        write_tiny(tmp_path / "t.gguf", "llama"), device="host", kv="f32", ctx=256, parallel=2
    ) as model:
        second = asked(2, IDS[100:120], 5)
        expected = alone(model, [second])[2]
        many = Many(model)
        many.ask(asked(1, IDS[:20], 2000))
        while len(many.tokens(1)) < 100:
            many.turn()
        many.ask(second)
        many.turn()
        while not isinstance((many.told[2] or [None])[-1], Finished):
            many.turn()
        assert many.tokens(2) == expected
        assert many.batcher.running
        assert len(many.tokens(1)) < 500


def test_a_step_that_fails_ends_those_in_it_and_nobody_else(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = [asked(i, text, 12) for i, text in enumerate(prompts(4), 1)]
    expected = alone(model, requests)
    for name in ("start_together", "finish"):
        many = Many(model)
        for request in requests[:3]:
            many.ask(request)
        for _ in range(3):
            many.turn()
        with monkeypatch.context() as patch:
            _fail(patch, many.model.loaded.stepper, name)
            many.turn()
        assert all(isinstance(many.end(i), Broken) for i in (1, 2, 3))
        many.ask(requests[3])
        many.finish()
        assert many.tokens(4) == expected[4]


def _fail(patch: pytest.MonkeyPatch, stepper: Stepper, name: str) -> None:
    """Steps cannot be started, or not be finished."""
    start = stepper.start_together

    def broken(*given: Any, **more: Any) -> Any:
        if name == "start_together":
            raise DeviceError("host", "it broke", -5)
        step = start(*given, **more)
        patch.setattr(step.plan, "finish", _broken)
        return step

    patch.setattr(stepper, "start_together", broken)


def _broken(*_: object) -> None:
    raise DeviceError("host", "it broke", -5)


def test_one_whose_words_fail_ends_alone(model: Model) -> None:
    requests = [asked(i, text, 9) for i, text in enumerate(prompts(3), 1)]
    expected = alone(model, requests)
    many = Many(model)
    answers = [many.ask(request) for request in requests]
    for _ in range(4):
        many.turn()
    answers[1].drawing.sampler.sample = lambda *_: 1 / 0  # type: ignore[method-assign,assignment]
    many.finish()
    assert isinstance(many.end(2), Broken)
    assert [many.tokens(i) for i in (1, 3)] == [expected[i] for i in (1, 3)]


def long_path(folder: Path) -> Path:
    """A model that was trained for 4096 tokens."""
    length = (4096, gguf.GGUFValueType.UINT32)
    return write_tiny(folder / "tiny.gguf", "llama", metadata={"llama.context_length": length})


def test_writing_goes_on_while_a_long_prompt_is_read(tmp_path: Path) -> None:
    """A step has everyone's token: never two steps without one, and no piece beyond the pace."""
    with load(
        write_tiny(tmp_path / "t.gguf", "llama"), device="host", ctx=2048, parallel=2
    ) as model:
        many = Many(model)
        many.ask(asked(1, IDS[:20], 60))
        many.turn()
        many.ask(asked(2, IDS[100:1400], 5))
        while not many.tokens(2):
            before = len(many.tokens(1))
            many.turn()
            if not isinstance(many.told[1][-1], Finished):
                assert len(many.tokens(1)) == before + 1


def test_two_prompts_are_read_in_turn(tmp_path: Path) -> None:
    """A short prompt waits for one piece of a long one, not for all of it."""
    with load(long_path(tmp_path), device="host", ctx=2048, parallel=2, cells=0) as model:
        many = Many(model)
        many.ask(asked(1, IDS[: 3 * MAX_BATCH], 2))
        many.turn()
        many.ask(asked(2, IDS[2100:2130], 2))
        many.turn()
        many.turn()
        assert not many.batcher.running[1].is_reading
        assert many.batcher.running[0].is_reading
        many.finish()


def test_the_pace_knows_what_each_step_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of steps that read, alone and beside an answer that is written, as of those that write."""
    taken: list[tuple[int, int]] = []
    took = Pace.took

    def noted(pace: Pace, n_writing: int, n_read: int, *more: Any) -> None:
        taken.append((n_writing, n_read))
        took(pace, n_writing, n_read, *more)

    monkeypatch.setattr(Pace, "took", noted)
    with load(long_path(tmp_path), device="host", ctx=2048, parallel=2, cells=0) as model:
        many = Many(model)
        many.ask(asked(1, IDS[:600], 40))
        many.turn()
        many.turn()
        many.turn()
        many.ask(asked(2, IDS[2000:2200], 2))
        many.finish()
    assert taken[:3] == [(0, MAX_BATCH), (0, 600 - MAX_BATCH), (1, 0)]
    assert sum(read for writing, read in taken if writing) == 200
    assert len(taken) > 40


def test_the_pace_follows_what_slow_steps_take() -> None:
    """A piece is as long as its step may be slower; and with the tokens written fills a plan."""
    pace = Pace(Patience(0, on_cpu=True))
    assert pace.piece(0, [900]) == MAX_BATCH
    for _ in range(5):
        pace.took(3, 0, 0.10)
    for _ in range(30):
        n = pace.piece(3, [900])
        pace.took(3, n, 0.08 + 0.005 * n)
    assert 10 <= pace.piece(3, [900]) <= 24  # 0.18 s
    pace.took(3, 0, 0.10)
    for _ in range(30):
        pace.took(3, pace.piece(3, [900]), 1.0)
    assert pace.piece(3, [900]) <= 2 * LEAST
    assert {pace.piece(n, [900]) + n for n in range(1, 9)} <= {4, 6, 8, 12}


def test_steps_that_were_slow_for_a_while_are_known_to_be_quick_again() -> None:
    """One without a piece now and then tells."""
    pace = Pace(Patience(0, on_cpu=True))
    for _ in range(9):
        pace.took(3, 0, 0.10)
    read = [pace.piece(3, [900])]
    while len(read) < 20 * EVERY:
        pace.took(3, read[-1], 0.005 + 0.0005 * read[-1])
        read.append(pace.piece(3, [900]))
    assert 0 not in read[: EVERY - 1]
    assert sum(n > 0 for n in read[-4 * EVERY :]) < 8


def quick_steps(pace: Pace, pending: list[int], n: int) -> list[tuple[int, float]]:
    """What so many steps read beside three that write, each in 0.005 s, and how long they took."""
    taken = []
    for _ in range(n):
        read = min(pace.piece(3, pending), sum(pending))
        seconds = 0.005 + (0.004 + 0.0005 * read if read else 0)
        pace.took(3, read, seconds, len(pending))
        taken.append((read, seconds))
    return taken


def test_where_steps_are_quick_a_long_prompt_takes_one_in_many() -> None:
    """So the time between tokens is as usual for 19 in 20; the prompt has its share of the time."""
    pace = Pace(Patience(0, on_cpu=True))
    quick_steps(pace, [], 5)
    quick_steps(pace, [9000], 200)  # it learns what a piece takes
    taken = quick_steps(pace, [9000], 640)
    longer = [seconds for read, seconds in taken if read]
    assert 640 // EVERY - 1 <= len(longer) < 0.05 * 640
    long = max(LONG, TIMES * 0.005)
    assert all(0.5 * long < seconds < 1.5 * long for seconds in longer)
    assert sum(longer) > 0.4 * sum(seconds for _, seconds in taken)


def test_where_steps_are_quick_short_prompts_wait_for_their_own_time() -> None:
    """One of ten tokens goes at once, others a few steps later; many have more of the time."""
    pace = Pace(Patience(0, on_cpu=True))
    quick_steps(pace, [], 5)
    quick_steps(pace, [9000], 200)
    quick_steps(pace, [], EVERY)
    assert quick_steps(pace, [10], 1)[0][0] == 10
    quick_steps(pace, [9000], 1)
    waited = [read for read, _ in quick_steps(pace, [10], 8)]
    assert any(waited)
    few, many = (sum(r for r, _ in quick_steps(pace, [20] * n, 640)) for n in (1, 6))
    assert many > 1.5 * few
