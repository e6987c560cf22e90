"""Plans for steps with drafts are made while nobody waits, and a request waits for one at most."""

from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import pytest
from msgspec.structs import replace

from engine.protocol import Shutdown, Speculation
from engine.runner.api import load
from engine.runner.drafting.ahead import GUESSES
from engine.runner.drafting.economy import SIZES
from engine.scheduler import plan
from engine.worker.serve import meanwhile
from tests.engine.runner.answering.many import Fixed, Many, asked, ids
from tests.engine.runner.drafting.predicting import with_block
from tests.engine.runner.drafting.test_draft_model import Guessing

K = 3


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Each plan as it is made."""
    found: list[object] = []

    class Noted(plan.Plan):
        def __init__(self, *given: Any, **more: Any) -> None:
            super().__init__(*given, **more)
            found.append(self)

    monkeypatch.setattr(plan, "Plan", Noted)
    return found


def answer(many: Many, number: int, kind: str) -> None:
    request = asked(number, ids(3, 12) * 3, 30, speculation=Speculation(kind))
    many.ask(replace(request, bias=dict.fromkeys(ids(3, 4), 50.0)))
    many.finish()


def test_steps_with_drafts_find_their_plans(tiny_path: Path, made: list[object]) -> None:
    """After a load and after an answer; none where nobody drafts."""
    with load(tiny_path, device="host", ctx=512, spec_type="ngram") as model:
        many = Many(model, economy=Fixed(K))
        made.clear()
        assert sum(1 for _ in many.batcher.plans()) == len(made) == len(SIZES)
        assert not list(many.batcher.plans())
        answer(many, 1, "none")
        made.clear()
        answer(many, 2, "ngram")
        assert many.end(2).stats.n_drafted > 0  # type: ignore[union-attr]
        assert not made
    with load(tiny_path, device="host", ctx=512) as model:
        many = Many(model, economy=Fixed(K))
        assert not list(many.batcher.plans())
        answer(many, 1, "ngram")
        assert model.loaded.options.spec_type == "none"
        assert list(many.batcher.plans())  # somebody drafts


def test_those_of_a_block_that_predicts(tmp_path: Path, made: list[object]) -> None:
    path = with_block(tmp_path, "glm4moe")
    with load(path, device="host", ctx=128, spec_type="mtp") as model:
        many = Many(model, economy=Guessing(3))
        made.clear()
        assert sum(1 for _ in many.batcher.plans()) == len(made) == len(SIZES) + len(GUESSES)
        answer(many, 1, "none")
        made.clear()
        answer(many, 2, "mtp")
        assert many.end(2).stats.n_drafted > 0  # type: ignore[union-attr]
        assert not made


def test_a_request_waits_for_one_plan_at_most(tiny_path: Path, made: list[object]) -> None:
    """One that is there already, for none; what is left is made the next time."""
    with load(tiny_path, device="host", ctx=512, spec_type="ngram") as model:
        many, requests = Many(model, economy=Fixed(K)), SimpleQueue[Any]()
        made.clear()
        requests.put(Shutdown(1))
        assert meanwhile(requests, many.batcher.plans()) == Shutdown(1)
        assert not made

        def asking() -> Any:
            for i, _ in enumerate(many.batcher.plans()):
                if i == 2:
                    requests.put(Shutdown(2))
                yield

        assert meanwhile(requests, asking()) == Shutdown(2)
        assert len(made) == 2
        with pytest.raises(Empty):
            meanwhile(requests, many.batcher.plans())
        assert len(made) == len(SIZES)
