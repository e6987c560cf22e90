"""What a load gets ready: the first token, and the first prompt where drivers need it; else the
plan of a short prompt is made in the first idle moment.
"""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine.backends.opencl import backend as opencl
from engine.backends.opencl.drivers.device import list_devices
from engine.device.backend import Commands
from engine.models.build import BuiltModel, StepShape
from engine.runner.batch import MAX_BATCH
from engine.runner.loading import SHORT_PROMPT, load_model
from engine.runner.stepper import Stepper
from engine.settings import EngineOptions
from engine.worker.answering import AnswersAtOnce

DEVICES = [info.name for info in list_devices()]
pytestmark = [pytest.mark.device, pytest.mark.skipif(not DEVICES, reason="no OpenCL driver")]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The plans that are made."""
    found: list[object] = []
    compiled = opencl.OpenCLBackend.compile

    def note(backend: opencl.OpenCLBackend, *given: Any) -> Commands:
        found.append(given[0])
        return compiled(backend, *given)

    monkeypatch.setattr(opencl.OpenCLBackend, "compile", note)
    return found


@pytest.mark.parametrize("late", [False, True])
def test_the_first_prompt_finds_its_plan(
    tiny_path: Path, monkeypatch: pytest.MonkeyPatch, made: list[object], late: bool
) -> None:
    """And ran in the load where the driver may compile late, else a token alone did."""
    family = "" if late else DEVICES[0].partition(":")[0]
    monkeypatch.setattr(opencl, "COMPILES_EARLY", family or "no driver")
    ran, step = [], Stepper.step

    def note(stepper: Stepper, tokens: list[int], *rest: object, **more: object) -> object:
        ran.append(len(tokens))
        return step(stepper, tokens, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Stepper, "step", note)
    with closing(load_model(tiny_path, EngineOptions(device=DEVICES[0], ctx=256))) as model:
        assert ran == ([1, SHORT_PROMPT] if late else [1])
        assert len(made) == len(ran)
        answers = AnswersAtOnce(model, lambda reply: None, *3 * [lambda request: None])  # type: ignore[arg-type]
        assert len(list(answers.plans())) == (not late)
        assert len(made) == 2
        tokens = [1 + i % 5 for i in range(SHORT_PROMPT)]
        assert model.stepper.step(tokens, 0, [SHORT_PROMPT - 1]).shape[0] == 1
        assert model.stepper.step([1], SHORT_PROMPT, [0]).shape[0] == 1
        assert len(made) == 2


def test_none_is_made_for_a_prompt_that_is_not_the_first(
    tiny_path: Path, made: list[object]
) -> None:
    """An answer that did not wait has made its own."""
    with closing(load_model(tiny_path, EngineOptions(device=DEVICES[0], ctx=256))) as model:
        plans = model.plans()
        model.stepper.step([1, 2, 3], 0, [2])
        before = len(made)
        assert not list(plans)
        assert len(made) == before


def test_the_host_needs_no_plan_ahead(tiny_path: Path, made: list[object]) -> None:
    with closing(load_model(tiny_path, EngineOptions(device="host", ctx=256))) as model:
        assert not list(model.plans())
        assert not made


def test_each_graph_is_built_once(tiny_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One token's by the widths and the layouts, and by its plan; the largest batch's."""
    built, build = [], BuiltModel.build

    def note(model: BuiltModel, shape: StepShape, *rest: bool) -> object:
        built.append(shape.n_tokens)
        return build(model, shape, *rest)

    monkeypatch.setattr(BuiltModel, "build", note)
    with closing(load_model(tiny_path, EngineOptions(device=DEVICES[0], ctx=256))):
        assert built == [1, MAX_BATCH, 1]
