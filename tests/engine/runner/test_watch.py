"""Steps that are measured during an answer: every split, and the same answer."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.protocol import Finished, Generate, Piece, Sampling, StepTimes
from engine.runner import watch
from engine.runner.generate import generate
from engine.runner.loading import LoadedModel, load_model
from engine.runner.sequence import Sequenced
from engine.settings import EngineOptions
from tests.engine.runner.memory import two_devices

pytestmark = pytest.mark.device
ROOT = Path(__file__).parents[3]
ASK = Generate(1, prompt="abc", sampling=Sampling(temperature=0, seed=1), max_tokens=6)
Found = tuple[list[int], list[StepTimes]]


@pytest.fixture
def model(tiny_path: Path) -> Iterator[LoadedModel]:
    """A layer and the output block on one device, another layer on a second one."""
    one, two = two_devices()
    model = load_model(tiny_path, EngineOptions(device=one, ctx=64, place=f"0={two},out={one}"))
    yield model
    model.close()


def answer(model: LoadedModel, wanted: bool) -> Found:
    """Its tokens, and what was measured."""
    request = Generate(**{f: getattr(ASK, f) for f in ASK.__struct_fields__} | {"watch": wanted})
    sequence = Sequenced(model.stepper)
    events = list(generate(model, sequence, request, lambda: False))
    model.stepper.forget(0)
    assert isinstance(events[-1], Finished)
    ids = [i.token for e in events if isinstance(e, Piece) for i in e.tokens]
    return ids, [e for e in events if isinstance(e, StepTimes)]


def test_each_split_is_timed_and_the_answer_stays(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "EVERY", 0.0)
    plain, nothing = answer(model, False)
    ids, times = answer(model, True)
    assert ids == plain
    assert not nothing
    n_steps = len(ids) - 1  # the first token comes of the prompt
    assert len(times) == n_steps
    assert [t.n_context for t in times] == list(
        range(times[0].n_context, times[0].n_context + n_steps)
    )
    parts = [part.split for part in model.stepper.one_token().splits]
    assert len({split.backend.name for split in parts}) > 1
    for one in times:
        assert [(s.device, s.n_nodes, s.first, s.last) for s in one.splits] == [
            (p.backend.name, len(p.nodes), p.nodes[0].name, p.nodes[-1].name) for p in parts
        ]
        crossing = sum(c.source.nbytes for p in parts for c in p.copies if c.origin is not None)
        assert sum(s.copied for s in one.splits) > crossing > 0  # the inputs are copied, too
        assert min(s.compute_ns for s in one.splits) > 0
        assert all((s.copy_ns > 0) == (s.copies > 0) for s in one.splits)
        assert sum(s.compute_ns for s in one.splits) < one.step_ns
        assert sum(one.launch_ns) == sum(s.compute_ns for s in one.splits)
        assert min(one.launch_ns) > 0


def test_not_more_than_one_a_second(model: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(watch, "perf_counter", lambda: now)
    looking = watch.Watch(Sequenced(model.stepper), wanted=True)
    seen = []
    for later in (0.0, 0.5, 0.4, 0.2, 0.9, 0.2):
        now += later
        looking.start(5)()
        seen.append(len(list(looking.found())))
    assert seen == [1, 0, 0, 1, 0, 1]


def test_answers_need_no_benchmark() -> None:
    code = "import sys, engine.runner.generate; print(*sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    loaded = set(ended.stdout.split())
    assert "engine.runner.watch" in loaded
    assert not loaded & {"engine.runner.bench", "engine.runner.profile"}
