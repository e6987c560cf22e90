"""What a load gets ready: the first prompt builds nothing, and runs first where drivers need it."""

from contextlib import closing
from pathlib import Path

import pytest

from engine.backends.opencl import backend as opencl
from engine.backends.opencl.drivers.device import list_devices
from engine.runner.loading import SHORT_PROMPT, load_model
from engine.runner.stepper import Stepper
from engine.scheduler.plan import Planner
from engine.settings import EngineOptions

DEVICES = [info.name for info in list_devices()]
pytestmark = [pytest.mark.device, pytest.mark.skipif(not DEVICES, reason="no OpenCL driver")]


@pytest.mark.parametrize("late", [False, True])
def test_the_first_prompt_finds_its_plan(
    tiny_path: Path, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    """And ran in the load where the driver may compile late, else a token alone did."""
    family = "" if late else DEVICES[0].partition(":")[0]
    monkeypatch.setattr(opencl, "COMPILES_EARLY", family or "no driver")
    ran, step = [], Stepper.step

    def note(stepper: Stepper, tokens: list[int], *rest: object) -> object:
        ran.append(len(tokens))
        return step(stepper, tokens, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Stepper, "step", note)
    with closing(load_model(tiny_path, EngineOptions(device=DEVICES[0], ctx=256))) as model:
        assert ran == ([1, SHORT_PROMPT] if late else [1])

        def refuse(*_: object) -> None:
            raise AssertionError("a plan is made")

        monkeypatch.setattr(Planner, "_compiled", refuse)
        tokens = [1 + i % 5 for i in range(SHORT_PROMPT)]
        assert model.stepper.step(tokens, 0, [SHORT_PROMPT - 1]).shape[0] == 1
        assert model.stepper.step([1], SHORT_PROMPT, [0]).shape[0] == 1
