"""What an answer computes when: the next token while one is told, and nothing for nobody."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.errors import DeviceError
from engine.protocol import Finished, Generate, Piece, Reply, Sampling
from engine.runner.api import Model, load
from engine.runner.generate import generate
from engine.runner.sequence import Sequenced
from engine.scheduler.plan import Plan

N = 5


class Asked:
    """A model, a sequence, and how many tokens were begun one by one."""

    def __init__(self, model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
        self.loaded, self.sequence = model.loaded, Sequenced(model.loaded.stepper)
        self.begun = 0
        self.cancelled = False
        start = self.sequence.stepper.start_together

        def counting(parts, *rest, **more):
            [part] = parts
            self.begun += len(part.tokens) == 1 and bool(self.sequence.items)
            return start(parts, *rest, **more)

        monkeypatch.setattr(self.sequence.stepper, "start_together", counting)

    def answer(self, **changes: object) -> Iterator[Reply]:
        sampling = Sampling(temperature=0)
        request = Generate(1, **{"prompt": "abcd", "sampling": sampling, "max_tokens": N} | changes)
        return generate(self.loaded, self.sequence, request, lambda: self.cancelled)


@pytest.fixture
def asked(tiny_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    with load(tiny_path, device="host", ctx=64) as model:
        yield Asked(model, monkeypatch)


def ids_of(events: list[Reply]) -> list[int]:
    return [info.token for e in events if isinstance(e, Piece) for info in e.tokens]


def test_the_next_token_is_on_its_way_while_one_is_told(asked: Asked) -> None:
    begun = [asked.begun for event in asked.answer() if isinstance(event, Piece) and event.tokens]
    assert begun == [1, 2, 3, 4, 4]  # after the last one nobody wants another
    assert asked.begun == N - 1


def test_who_stops_listening_leaves_a_whole_context(asked: Asked) -> None:
    whole = ids_of(list(asked.answer()))
    asked.sequence.reuse([0, 0])
    events = asked.answer()
    heard: list[Reply] = []
    while len(ids_of(heard)) < 2:
        heard.append(next(events))
    events.close()
    assert asked.sequence.items[-2:] == whole[:2]
    assert ids_of(list(asked.answer())) == whole


def test_a_stop_text_and_cancelling_leave_a_whole_context(asked: Asked) -> None:
    events = list(asked.answer())
    whole, texts = ids_of(events), [e.text for e in events if isinstance(e, Piece)]
    stop = next(text for text in texts if text)
    *_, end = asked.answer(stop=[stop])
    assert isinstance(end, Finished)
    assert (end.reason, end.matched) == ("stop", stop)
    assert end.stats.n_context == len(asked.sequence.items)
    assert ids_of(list(asked.answer())) == whole
    for event in (events := asked.answer()):
        asked.cancelled = isinstance(event, Piece)
    asked.cancelled = False
    assert isinstance(event, Finished)
    assert event.reason == "cancelled"
    assert ids_of(list(asked.answer())) == whole


def test_a_step_that_fails_on_the_way_is_told_and_undone(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ids_of(list(asked.answer()))
    asked.sequence.reuse([0, 0])
    finish, asked.begun = Plan.finish, 0

    def vanishing(plan: Plan, *args: Any) -> Any:
        done = finish(plan, *args)
        if asked.begun == 3:
            raise DeviceError("host", "it is gone")
        return done

    monkeypatch.setattr(Plan, "finish", vanishing)
    with pytest.raises(DeviceError, match="gone"):
        list(asked.answer())
    assert asked.sequence.items[-2:] == whole[:2]
    monkeypatch.undo()
    assert ids_of(list(asked.answer())) == whole
