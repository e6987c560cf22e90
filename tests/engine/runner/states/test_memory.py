"""What recurrent states take, where they lie, and that they go along when their layer moves."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.models.kept import CHECKPOINTS, WORKING, Both, State
from engine.runner.loading import load_model
from engine.runner.placing.move import move
from engine.runner.sequence import Sequenced
from engine.runner.stepper import Stepper
from engine.settings import EngineOptions
from tests.engine.models.herons import LAYERS, by_definition, is_leaky, known, write_heron
from tests.engine.models.text.files import write
from tests.engine.models.text.rows import ROWS
from tests.engine.runner.memory import check_every_refusal, foreseen, held, two_devices
from tests.goldens.tiny import Draws, E
from tests.kernels.harness import nmse

TOKENS = Draws(9).ids(40).tolist()
STATES = ("recurrent state", "checkpoints")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with known():
        yield write_heron(tmp_path_factory.mktemp("states") / "heron.gguf")


def test_it_takes_what_was_foreseen_to_the_byte(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = EngineOptions(device="host", ctx=64)
    with closing(load_model(path, options)) as model:
        assert foreseen(model.dry) == held(model.dry)
        leaky = {i for i in range(LAYERS) if is_leaky(i)}
        for component, slots in zip(STATES, (WORKING, CHECKPOINTS), strict=True):
            sizes = {i: n for (_, c, i), n in held(model.dry).items() if c == component}
            assert sizes == dict.fromkeys(leaky, slots * E * 4)
        assert {i for _, c, i in held(model.dry) if c == "cache"} == {1}
    check_every_refusal(path, options, monkeypatch)


@pytest.mark.device
def test_states_lie_with_their_layers_on_two_devices(path: Path) -> None:
    one, two = two_devices()
    options = EngineOptions(device=f"{one},{two}", ctx=64, place=f"0-1={one},2-3={two},out={two}")
    with closing(load_model(path, options)) as model:
        assert foreseen(model.dry) == held(model.dry)
        states = {(d, i) for d, c, i in held(model.dry) if c in STATES}
        assert states == {(one, 0), (two, 2), (two, 3)}
        assert nmse(_in_two(model.stepper), by_definition(np.array(TOKENS[:40]))) < 1e-5


def _in_two(stepper: Stepper) -> np.ndarray:
    step = stepper.step
    return np.concatenate([step(TOKENS[at : at + 20], at, range(20)).copy() for at in (0, 20)])


@pytest.mark.device
def test_a_state_moves_with_its_layer(path: Path) -> None:
    one, two = two_devices()
    options = EngineOptions(device=f"{one},{two}", ctx=64, place=f"0-3={one},out={one}")
    with closing(load_model(path, options)) as model:
        sequence = Sequenced(model.stepper)
        for token in TOKENS[:20]:
            sequence.append(token)
        sequence.keep()
        for token in TOKENS[20:-1]:
            sequence.append(token)
        moved = move(model, replace(options, place=f"0-1={one},2-3={two},out={one}"))
        slots = (WORKING + CHECKPOINTS) * E * 4
        assert moved.copied_bytes >= 2 * slots
        assert foreseen(model.dry) == held(model.dry)
        wanted = by_definition(np.array(TOKENS))
        assert nmse(sequence.append(TOKENS[-1]), wanted[-1]) < 1e-5
        assert sequence.reuse(TOKENS[:25]) == 20
        assert nmse(sequence.append(TOKENS[20]), wanted[20]) < 1e-5


@pytest.mark.parametrize("name", ["lfm2", "qwen35", "falcon_h1", "mamba"])
def test_states_take_what_their_shapes_say(name: str, tmp_path: Path) -> None:
    path = write(ROWS[name], tmp_path)
    with closing(load_model(path, EngineOptions(device="host", ctx=64))) as model:
        mine = foreseen(model.dry)
        assert mine == held(model.dry)
        for i, shape in enumerate(model.built.model.kept()):
            state = shape.state if isinstance(shape, Both) else shape
            floats = 0
            if isinstance(state, State):
                floats = (state.kernel - 1) * state.channels + state.size
            assert mine.get(("host", STATES[0], i), 0) == WORKING * floats * 4
            assert mine.get(("host", STATES[1], i), 0) == CHECKPOINTS * floats * 4
        assert any(component == STATES[0] for _, component, _ in mine)
