"""A tower that fails in the middle of a picture: nothing is lost, and the next question works."""

from collections.abc import Callable, Generator, Iterator
from typing import Any

import numpy as np
import pytest

from engine.errors import DeviceError, NoMem
from engine.protocol import Render
from engine.runner.api import Model
from engine.runner.pictures.items import Item, PictureRow, Shown
from engine.runner.pictures.viewer import Encoding, Viewer
from engine.runner.prompt import encoded
from engine.runner.sequence import Sequenced
from tests.engine.runner.failing import Steps, counted
from tests.engine.runner.memory import Sizes, held
from tests.engine.runner.pictures.seeing import (
    bring,
    logits,
    noise,
    says,
    seeing,
    sequence_of,
    viewer_of,
)
from tests.truth.compare import nmse

MIDDLE = 1
"""The view that fails: the second of three."""
ERRORS = (DeviceError("pocl:0", "a launch failed"), MemoryError(), RuntimeError("a bug"))

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    """LLaVA 1.6: an overview and two tiles of a wide picture."""
    with seeing(tmp_path_factory.mktemp("failing"), "llava_next") as model:
        yield model


def chat(model: Model) -> tuple[list[Item], list[Item]]:
    """A question about one picture, and one that begins so and is about another as well."""
    a, b = (bring(model, noise(i, 56, 20)) for i in range(2))
    questions = [says(a, "what is it")], [says(a, "what is it", b)]
    loaded = model.loaded
    one, two = (
        encoded(loaded.tokenizer, loaded.template, Render(1, question), viewer_of(model))[0]
        for question in questions
    )
    return one, two


def pictures_of(items: list[Item]) -> list[Shown]:
    return list(dict.fromkeys(i.picture for i in items if isinstance(i, PictureRow)))


def compute(sequence: Sequenced, prompt: list[Item]) -> np.ndarray:
    return logits(sequence, prompt[sequence.reuse(prompt) :])


def begun(model: Model, one: list[Item]) -> Sequenced:
    """A context that holds the first question, and a store that holds its picture."""
    viewer_of(model).store.clear()
    sequence = sequence_of(model)
    compute(sequence, one)
    return sequence


def ended(work: Run, *args: object) -> Any:
    """What a generator returns in the end."""
    parts = work(*args)
    while True:
        try:
            next(parts)
        except StopIteration as end:
            return end.value


def watched(patch: pytest.MonkeyPatch, around: Callable[[Run], Run]) -> list[int]:
    """Views as they are done; the middle one's work is what `around` makes of it."""
    views: list[int] = []
    real_prepare: Run = Viewer.prepare
    real_run: Run = Viewer.run

    def prepare(viewer: Viewer, resizer: object, plan: object, view: int) -> Any:
        work = around(real_prepare) if view == MIDDLE else real_prepare
        return work(viewer, resizer, plan, view)

    def run(viewer: Viewer, ready: Any, *rest: object) -> Generator[Encoding, None, np.ndarray]:
        yield from ()
        work = around(ended) if ready.view == MIDDLE else ended
        rows: np.ndarray = work(real_run, viewer, ready, *rest)
        views.append(ready.view)
        return rows

    patch.setattr(Viewer, "prepare", prepare)
    patch.setattr(Viewer, "run", run)
    return views


def check(model: Model, sequence: Sequenced, before: Sizes, rows: np.ndarray) -> None:
    """What was there is there: rows, files, items, memory; of the new picture its first view."""
    _, two = chat(model)
    seen, new = pictures_of(two)
    viewer = viewer_of(model)
    viewer.album.check([seen.digest, new.digest])
    assert viewer.store.has(seen)
    assert not viewer.store.has(new)
    assert np.array_equal(viewer.store.take(seen).rows, rows)
    assert viewer.store.take(new).done == {0}
    assert sequence.items == two[: len(sequence.items)]
    assert pictures_of(sequence.items) == [seen]
    added = new.starts[-1] * viewer.store.width * 4
    key = ("host", "vision", None)
    assert held(model.loaded.dry) == before | {key: before[key] + added}


def check_next(model: Model, sequence: Sequenced, two: list[Item], views: list[int]) -> None:
    """The question is answered as in a fresh context, with the views that were missing."""
    found = compute(sequence, two)
    assert views == [0, 1, 2]
    viewer_of(model).store.clear()
    assert nmse(found, compute(sequence_of(model), two)) < 1e-9


@pytest.mark.sampled(2)
@pytest.mark.parametrize("share", [0, 0.3, 0.6, 1])
def test_a_failure_in_the_middle_of_the_second_view_of_three(
    model: Model, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a share of its steps: resizing, cutting, the tower's nodes, reading the rows."""
    one, two = chat(model)
    steps = Steps()

    def around(real: Run) -> Run:
        def run(*args: object) -> Any:
            with counted(steps):
                return real(*args)

        return run

    views = watched(monkeypatch, around)
    compute(begun(model, one), two)
    assert views == [0, 1, 2] * 2
    total = steps.count // 2
    assert total > 100
    for error in ERRORS:
        sequence = begun(model, one)
        before = held(model.loaded.dry)
        rows = viewer_of(model).store.take(pictures_of(one)[0]).rows.copy()
        steps.count, steps.nth, steps.error = 0, 1 + int(share * (total - 10)), error
        views.clear()
        with pytest.raises(type(error)) as raised:
            compute(sequence, two)
        assert raised.value is error
        assert views == [0]
        check(model, sequence, before, rows)
        check_next(model, sequence, two, views)


def test_no_room_for_the_arena_of_the_second_view_of_three(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is given back before that view, and refused once."""
    one, two = chat(model)
    planner, pool = model.loaded.stepper.planner, model.loaded.backends[-1].pool
    refusals: list[int] = []

    def around(real: Run) -> Run:
        def run(*args: object) -> Any:
            with monkeypatch.context() as patch:
                if not refusals:
                    planner.close()
                    refusals.append(pool.used)
                    patch.setattr(pool, "limit", pool.used)
                return real(*args)

        return run

    sequence = begun(model, one)
    before = held(model.loaded.dry)
    rows = viewer_of(model).store.take(pictures_of(one)[0]).rows.copy()
    views = watched(monkeypatch, around)
    with pytest.raises(NoMem, match="graph"):
        compute(sequence, two)
    assert views == [0]
    left = {key: size for key, size in before.items() if key[1] not in ("graph", "staging")}
    check(model, sequence, left, rows)
    check_next(model, sequence, two, views)
    assert held(model.loaded.dry).keys() == before.keys()
