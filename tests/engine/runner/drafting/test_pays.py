"""Drafts end where they cost more than they gain, and come back: by a clock of scripted steps."""

from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from random import Random

import pytest

from engine.runner.answering import batcher
from engine.runner.api import load
from engine.runner.drafting import ahead
from engine.runner.drafting.ahead import Ahead
from engine.runner.drafting.drafts import Draft, Drafts
from engine.runner.drafting.economy import FORGET, LOSS, SPAN, Economy
from engine.runner.stepper import StartedStep
from tests.engine.runner.answering.many import Many, asked, ids, tiny
from tests.engine.runner.drafting.scripted import Scripted

CHEAP = {1: 1.0, 2: 1.25, 3: 1.5, 4: 1.67, 8: 2.65, 16: 6.0}
"""Seconds of steps by their rows, in units of one row."""
DEAR = {rows: float(rows) for rows in CHEAP}
EIGHT = {8: 2.65, 16: 5.3}
PLAN = 8.0
"""Seconds that a plan takes to make."""
Costs = Callable[[int], dict[int, float]]
Chance = Callable[[int], float]


class Clock:
    """Seconds that a test says have passed."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (ahead, batcher):
        monkeypatch.setattr(module, "perf_counter", clock)
    return clock


class Plans:
    """Plans by their shape, each made in PLAN seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._made = clock, set[tuple[int, ...]]()

    def is_ready(self, *shape: int) -> bool:
        return shape in self._made

    def ready(self, *shape: int) -> None:
        self._made.add(shape)
        self._clock.now += PLAN


class Random6(Drafts):
    """Drafts of six tokens of a text of 0, 1, 2..., each right by chance."""

    def __init__(self, text: list[int], economy: Economy, chance: Chance, random: Random) -> None:
        super().__init__(text, None, economy.chances)
        self._so_far, self._chance, self._random = text, chance, random
        self._right: dict[int, bool] = {}

    def _made(self, most: int, guesses: int = 0) -> Draft:
        at = len(self._so_far)
        for i in range(at, at + min(most, 6)):
            self._right.setdefault(i, self._random.random() < self._chance(i))
        return Draft([i if self._right[i] else -1 for i in range(at, at + min(most, 6))], "ngram 5")


class Writer:
    """An answer of so many tokens."""

    def __init__(self, economy: Economy, chance: Chance, n: int, random: Random) -> None:
        self.text: list[int] = []
        self.n = n
        self.drafts = Random6(self.text, economy, chance, random)

    def draft(self, guesses: int) -> Draft:
        return self.drafts.propose(self.n - len(self.text) - 1, guesses)

    def saved(self, seconds: float, per_token: float) -> None:
        self.drafts.account.add(-seconds, per_token)

    def take(self, draft: Draft) -> int:
        """How many tokens a step gave."""
        before = len(self.text)
        for drafted in [*draft.tokens, -1]:
            token = len(self.text)
            self.text.append(token)
            self.drafts.drew(token)
            if token != drafted:
                break
        return len(self.text) - before


def written(
    clock: Clock, costs: Costs, chance: Chance, n: int, n_writers: int = 1, plans: bool = False
) -> tuple[float, list[tuple[int, int]]]:
    """How many times as fast as without drafts so many tokens are written; (token, drafted) of each
    step.
    """
    economy, made = Economy(), Plans(clock)
    if not plans:
        made.is_ready = lambda *_: True  # type: ignore[method-assign]
    speculating, random = Ahead(made, economy), Random(3)  # type: ignore[arg-type]
    writers = [Writer(economy, chance, n, random) for _ in range(n_writers)]
    begun, without, steps = clock.now, 0.0, []
    while any(one.n > len(one.text) + 1 for one in writers):
        before, at = clock.now, max(len(one.text) for one in writers)
        drafts = speculating.drafts(writers, n_writers)
        n_drafted = sum(len(draft.tokens) for draft in drafts)
        clock.now += costs(at)[n_writers + n_drafted]
        n_new = sum(one.take(draft) for one, draft in zip(writers, drafts, strict=True))
        parts = [
            (one, 1 + len(d.tokens), len(d.tokens)) for one, d in zip(writers, drafts, strict=True)
        ]
        speculating.took(parts, n_new, clock.now - before)
        without += n_new * costs(at)[n_writers] / n_writers
        steps.append((at, n_drafted))
    return without / (clock.now - begun), steps


def share(steps: list[tuple[int, int]], begin: int, end: int) -> float:
    """Of the steps between two tokens, those with drafts."""
    found = [drafted > 0 for at, drafted in steps if begin <= at < end]
    return sum(found) / len(found)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("plans", [False, True])
@pytest.mark.parametrize("chance", [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0])
def test_never_slower_by_more_than_it_may_cost(clock: Clock, chance: float, plans: bool) -> None:
    """Whatever a row costs and however often drafts are right, with plans to be made or not."""
    for costs in (CHEAP, DEAR):
        ratio, _ = written(clock, lambda _, t=costs: t, lambda _: chance, 2000, plans=plans)
        assert ratio >= 1 - LOSS
    for table in (EIGHT, {8: 1.0, 16: 2.0}):
        ratio, _ = written(clock, lambda _, t=table: t, lambda _: chance, 500, 8, plans)
        assert ratio >= 1 - LOSS


def test_what_pays_is_drafted(clock: Clock) -> None:
    """The design's rates: 1.77 at 0.8 and 2.5 at 0.95, of which trying and plain steps take some;
    eight writers gain where steps of 16 rows are as cheap.
    """
    for chance, least in ((0.8, 1.6), (0.95, 2.0)):
        assert written(clock, lambda _: CHEAP, lambda _, c=chance: c, 2000)[0] > least
    ratio, steps = written(clock, lambda _: {8: 1.0, 16: 1.2}, lambda _: 0.9, 500, 8)
    assert ratio > 1.4
    assert {drafted for _, drafted in steps} == {0, 8}


def test_it_stops_when_drafts_are_wrong_and_comes_back(clock: Clock) -> None:
    ratio, steps = written(
        clock, lambda _: CHEAP, lambda i: 0.05 if 700 <= i < 1400 else 0.95, 2100
    )
    assert ratio > 1.3
    assert share(steps, 0, 700) > 0.9
    assert share(steps, 750, 1400) < 0.05
    assert share(steps, 1400 + SPAN, 2100) > 0.9


@pytest.mark.parametrize("n_writers", [1, 2])
def test_it_stops_when_rows_get_dear_and_comes_back(clock: Clock, n_writers: int) -> None:
    """As with other work beside: what a step took then is not believed for ever."""
    first, last = 600, 1400

    def costs(at: int) -> dict[int, float]:
        return DEAR if first <= at < last else CHEAP

    ratio, steps = written(clock, costs, lambda _: 0.9, 3000, n_writers)
    assert ratio > 1.15
    assert share(steps, 0, first) > 0.9
    assert share(steps, first + 100, last) < 0.05
    assert share(steps, last + 2 * FORGET, 3000) > 0.8


def test_other_work_beside_for_one_step_changes_little(clock: Clock) -> None:
    """One step in two hundred takes twenty times as long."""
    calls = iter(range(10**6))

    def costs(_: int) -> dict[int, float]:
        factor = 20.0 if next(calls) % 199 == 7 else 1.0
        return {rows: factor * one for rows, one in CHEAP.items()}

    _, steps = written(clock, costs, lambda _: 0.9, 3000)
    assert share(steps, 100, 3000) > 0.8


def test_the_batcher_counts_the_seconds_of_its_steps(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Right drafts of a real model: computed while rows are cheap, no more once they are dear."""
    with load(tiny(tmp_path, "llama"), device="host", ctx=400, kv="f32") as model:
        request, stepper = asked(1, ids(7, 12), 240), model.loaded.stepper
        plain = Many(model)
        plain.ask(request)
        plain.finish()
        script, costs, sizes = plain.tokens(1), [CHEAP], []
        start = stepper.start_together

        def timed(parts: list[object], *others: object, **more: object) -> StartedStep:
            rows = sum(len(part.tokens) for part in parts)  # type: ignore[attr-defined]
            sizes.append(rows)
            clock.now += costs[0].get(rows, 1.0)
            if sum(sizes) > 150:
                costs[0] = DEAR
            return start(parts, *others, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(stepper, "start_together", timed)
        many = Many(model, economy=Economy())
        drawing = many.ask(request).drawing
        drawing.drafts = Scripted(drawing.seen, script, lambda i: i % 9 == 8, 100)
        many.finish()
    assert many.tokens(1) == script
    runs = [(drafted, len(list(some))) for drafted, some in groupby(n > 1 for n in sizes[1:])]
    assert any(drafted and n >= 4 for drafted, n in runs)
    assert not runs[-1][0]
    assert runs[-1][1] > 60
