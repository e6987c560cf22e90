"""A tower between two of its blocks: told of, left, and computing what it does in one go."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind

from engine.backends.opencl.drivers.device import list_devices
from engine.images.plan import Limits, Size
from engine.images.resize import normalised
from engine.protocol import Finished, Generate, Progress, Reply
from engine.runner.api import Model
from engine.runner.generate import generate
from engine.runner.pictures.compose import shown
from engine.runner.placing.graphs import worst_cases
from engine.scheduler.plan import Plan
from tests.engine.models.vision.test_goldens import KNOWN, tower_of
from tests.engine.runner.memory import held
from tests.engine.runner.pictures.seeing import (
    GREEDY,
    answer,
    bring,
    noise,
    says,
    seeing,
    sequence_of,
    viewer_of,
)
from tests.goldens.vision.store import load_cases

BLOCKS = 2
OPENCL = [pytest.param(i.name, marks=pytest.mark.device, id=i.name) for i in list_devices()]


@pytest.fixture
def model(tmp_path: Path) -> Iterator[Model]:
    """Gemma 3: a picture is one view."""
    with seeing(tmp_path, "gemma3") as model:
        yield model


@pytest.mark.each_value
@pytest.mark.full_cases("pocl:0-(?!pixtral)")  # another driver sees with one family
@pytest.mark.parametrize("family", KNOWN)
@pytest.mark.parametrize("device", ["host", *OPENCL])
def test_rows_are_the_same_to_the_bit_without_pauses(
    device: str, family: str, tmp_path: Path
) -> None:
    with tower_of(family, tmp_path, device=device, kind=Kind.F16) as running:
        seen = next(iter(load_cases(family).values())).seen[0]
        tower = running.built.tower
        plan = tower.plan(Size(*seen.picture.shape[1::-1]), Limits(one_view=len(seen.views) == 1))
        view = np.concatenate(seen.views) if plan.cross else seen.views[0]
        step = tower.inputs(normalised(view, tower.rule), plan, 0)
        p, graph = running.built.build(tower.bucket(step.n))
        (expected,) = running.planner.plan("whole", lambda: replace(graph, pauses=())).run(
            p.fill(step)
        )
        parts = running.planner.plan("parts", lambda: graph).run_in_parts(p.fill(step))
        passed = []
        while True:
            try:
                passed.append(next(parts))
            except StopIteration as end:
                (found,) = end.value
                break
    assert passed == list(range(1, len(graph.pauses) + 1))
    assert len(passed) >= tower.params.n_layer - 1  # LLaVA takes the last block but one
    assert np.array_equal(found, expected)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("device", ["host", *OPENCL])
def test_what_a_picture_needs_is_foreseen_with_its_pauses(device: str, tmp_path: Path) -> None:
    with seeing(tmp_path, "gemma3", device) as model:
        stepper = model.loaded.stepper
        foreseen = stepper.planner.outline(worst_cases(stepper.built)[-1])
        answer(model, sequence_of(model), [says(bring(model, noise(1)), "?")], n=1)
        tower = stepper.built.tower
        assert tower is not None
        n = tower.tower.worst(Limits())
        used = stepper.planner.plan(("tower", n), lambda: pytest.fail("it was never run")).outline
        assert len(used.splits) == len(foreseen.splits) > BLOCKS
        assert {name: one.chunks for name, one in used.layouts.items()} == {
            name: one.chunks for name, one in foreseen.layouts.items()
        }


def ask(model: Model, picture: np.ndarray, until: int | None = None) -> list[Reply]:
    """A question about a picture; stopped once so many blocks were told of."""
    events: list[Reply] = []

    def cancelled() -> bool:
        return until is not None and any(
            isinstance(e, Progress) and e.stage == "encode" and e.done >= until for e in events
        )

    request = Generate(
        1, messages=[says(bring(model, picture), "?")], sampling=GREEDY, max_tokens=2
    )
    for event in generate(model.loaded, sequence_of(model), request, cancelled):
        events.append(event)
    return events


def test_blocks_are_told_of_one_by_one(model: Model) -> None:
    told = [e for e in ask(model, noise(1)) if isinstance(e, Progress) and e.stage == "encode"]
    assert [(e.done, e.total) for e in told] == [(0, BLOCKS), (1, BLOCKS), (2, BLOCKS), (2, BLOCKS)]
    assert [e.block for e in told] == [(1, BLOCKS), (2, BLOCKS), (2, BLOCKS), (2, BLOCKS)]
    assert {(e.picture, e.view) for e in told} == {((1, 1), (1, 1))}


def test_blocks_of_several_views_count_on(tmp_path: Path) -> None:
    with seeing(tmp_path, "llava_next") as model:
        events = ask(model, noise(1, 56, 20))
        told = [e for e in events if isinstance(e, Progress) and e.stage == "encode"]
        (blocks,) = {e.block[1] for e in told if e.block}
        done = [e.done for e in told]
        assert done == sorted(done)
        assert set(done) == set(range(3 * blocks + 1))
        assert {e.total for e in told} == {3 * blocks}
        assert list(dict.fromkeys(e.view for e in told)) == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("device", ["host", *OPENCL])
def test_a_tower_of_one_view_is_left_between_two_blocks(
    device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What follows the first block never ends."""
    with seeing(tmp_path, "gemma3", device) as model:
        viewer = viewer_of(model)
        answer(model, sequence_of(model), [says(bring(model, noise(1)), "?")], n=1)
        before = held(model.loaded.dry)
        queue = Plan.queue

        def stuck(plan: Plan, number: int, *rest: object) -> None:
            assert not plan.outline.graph.pauses or number == 0, "it goes on"
            queue(plan, number, *rest)  # type: ignore[arg-type]

        with monkeypatch.context() as patch:
            patch.setattr(Plan, "queue", stuck)
            *events, end = ask(model, noise(2), until=1)
        assert isinstance(end, Finished)
        assert end.reason == "cancelled"
        assert [e.done for e in events if isinstance(e, Progress)] == [0, 1]
        assert end.stats.encode_s > 0
        left = shown(model.loaded.tokenizer, viewer, bring(model, noise(2)))
        assert viewer.store.take(left).done == set()
        rows = ("host", "vision", None)
        assert held(model.loaded.dry) == before | {rows: 2 * before[rows]}
        first, _ = answer(model, sequence_of(model), [says(bring(model, noise(2)), "what")])
        viewer.store.clear()
        assert first == answer(model, sequence_of(model), [says(bring(model, noise(2)), "what")])[0]
        one, _ = answer(model, sequence_of(model), [says(bring(model, noise(3)), "what")])
        assert len(one) == 8
