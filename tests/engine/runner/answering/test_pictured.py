"""Layers that look at pictures, many answers at once: each sees its own."""

from collections.abc import Iterator

import pytest

from engine.protocol import Finished, Generate, PicturePart
from engine.runner.answering.pace import Pace
from engine.runner.api import Model, load
from engine.runner.batch import MAX_BATCH
from engine.runner.stepper import Stepper
from tests.engine.runner.answering.many import GREEDY, Many, alone
from tests.engine.runner.pictures.seeing import bring, noise, says
from tests.goldens.vision.families import write_single

N = 4


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    path = write_single(tmp_path_factory.mktemp("pictured"), "mllama")
    with load(path, device="host", kv="f32", ctx=160, parallel=N, cells=0) as model:
        yield model


@pytest.fixture(autouse=True)
def prompts_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """How fast the machine is says nothing of who is answered with whom."""
    monkeypatch.setattr(Pace, "piece", lambda *_: MAX_BATCH)


def asked(model: Model, number: int, *shown: PicturePart, n: int = 8) -> Generate:
    message = says("what is", *shown, "here" * number)
    return Generate(number, messages=[message], sampling=GREEDY, max_tokens=n, endless=True)


def test_each_sees_its_own_picture(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """One has none, two follow each other in one; tokens of all are made in one step."""
    pictures = [bring(model, noise(3 + i)) for i in range(3)]
    requests = [
        asked(model, 1, pictures[0], n=14),
        asked(model, 2, n=14),
        asked(model, 3, pictures[1], n=14),
        asked(model, 4, pictures[0], pictures[2], n=14),
    ]
    expected = alone(model, requests)
    assert len({tuple(tokens) for tokens in expected.values()}) == N
    together, start = [], Stepper.start_together

    def counting(self, parts, *rest, **more):
        together.append(len(parts))
        return start(self, parts, *rest, **more)

    monkeypatch.setattr(Stepper, "start_together", counting)
    many = Many(model)
    for request in requests:
        many.ask(request)
    many.finish()
    assert {i: many.tokens(i) for i in expected} == expected
    assert together.count(N) > 3


def test_a_picture_is_shared_with_who_begins_with_it(model: Model) -> None:
    """Its rows are held once; who leaves takes nothing from who stays."""
    picture = bring(model, noise(9))
    requests = [asked(model, i, picture, n=20 if i == 1 else 6) for i in (1, 2, 3)]
    expected = alone(model, requests)
    many = Many(model)
    many.ask(requests[0])
    for _ in range(3):
        many.turn()
    many.ask(requests[1])
    many.ask(requests[2])
    many.turn()
    many.cancelled.add(2)
    many.finish()
    assert [many.tokens(i) for i in (1, 3)] == [expected[1], expected[3]]
    end = many.end(3)
    assert isinstance(end, Finished)
    place = next(
        i for i, token in enumerate(many.slots.sequences[0].items) if token.__class__ is not int
    )
    assert end.stats.n_cached > place


def test_where_rows_find_no_room_the_youngest_waits(model: Model) -> None:
    """More pictures are looked at than there is room for: all are answered, one after the other."""
    pictures = [bring(model, noise(20 + i)) for i in range(12)]
    requests = [asked(model, i, *pictures[3 * i - 3 : 3 * i], n=10) for i in (1, 2, 3, 4)]
    expected = alone(model, requests)
    encoded = model.loaded.built.caches.encoded
    assert encoded is not None
    many = Many(model)
    for request in requests:
        many.ask(request)
    waited = 0
    while not many.batcher.is_idle:
        many.turn()
        waited += any(not one.is_new for one in many.batcher.waiting)
    assert waited
    assert {i: many.tokens(i) for i in expected} == expected
