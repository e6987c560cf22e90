"""Weights that still lie right are taken over by the next load: no others are, none are lost."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind
from numpy.typing import NDArray

from engine.backends.opencl.backend import OpenCLBackend
from engine.backends.opencl.drivers.device import list_devices
from engine.errors import Cancelled, DeviceError, NoMem
from engine.memory.pools import system_pool
from engine.runner.loading import LoadedModel, load_model
from engine.runner.placing.shelf import WeightShelf
from engine.settings import EngineOptions
from tests.engine.runner.failing import fail, n_steps
from tests.engine.runner.memory import foreseen, held, two_devices
from tests.goldens.tiny import write_tiny

pytestmark = pytest.mark.device
KINDS = {"ffn_": Kind.Q8_0, "attn": Kind.Q4_0}
TOKENS = [5, 9, 200, 31, 77, 12]


@pytest.fixture(scope="module")
def device() -> str:
    found = [d.name for d in list_devices() if d.default and d.traits.is_cpu]
    if not found:
        pytest.skip("needs an OpenCL driver")
    return found[0]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_tiny(tmp_path / "m.gguf", "llama", KINDS)


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before = dict(system_pool().taken)
    yield
    assert system_pool().taken == before


def logits(model: LoadedModel) -> NDArray[np.float32]:
    return np.array(model.stepper.step(TOKENS, 0, [len(TOKENS) - 1]))


def fresh(path: Path, options: EngineOptions) -> NDArray[np.float32]:
    with closing(load_model(path, options)) as model:
        return logits(model)


def reopened(path: Path, first: EngineOptions, then: EngineOptions) -> tuple[list[str], set[str]]:
    """A model opened by `first`, then by `then`: it answers as if it were opened anew and holds
    what was foreseen. Names of the weights that were filled again, and of those on devices.
    """
    with closing(load_model(path, first)) as model:
        logits(model)
        shelf = model.close_but_weights()
    with closing(shelf), closing(load_model(path, then, shelf=shelf)) as model:
        assert shelf.size == 0
        assert held(model.dry) == foreseen(model.dry)
        np.testing.assert_array_equal(logits(model), fresh(path, then))
        weights = [t for one in model.dry.weights for t, _ in one.tensors]
        return [t.name for t in weights if t not in model.room.filled], {t.name for t in weights}


def test_another_context_packs_nothing(path: Path, device: str) -> None:
    options = EngineOptions(device=device, ctx=64)
    for then in (options, replace(options, ctx=32), replace(options, kv="f32")):
        assert reopened(path, options, then)[0] == []


def test_a_layer_elsewhere_is_the_only_one_that_is_packed(path: Path) -> None:
    one, two = two_devices()
    options = EngineOptions(device=f"{one},{two}", ctx=64, place=f"0-1={one},2={two},out={one}")
    again, weights = reopened(path, options, replace(options, place=f"0={one},1-2={two},out={one}"))
    assert sorted(again) == sorted(name for name in weights if name.startswith("blk.1."))
    again, weights = reopened(path, options, EngineOptions(device=one, ctx=64, threads=1))
    assert set(again) == weights


def test_a_file_that_was_written_since_is_packed_again(path: Path, device: str) -> None:
    options = EngineOptions(device=device, ctx=64)
    with closing(load_model(path, options)) as model:
        shelf = model.close_but_weights()
    other = {"blk.0.attn_norm.weight": np.full(64, 2.0, np.float32)}
    again = write_tiny(path.with_suffix(".new"), "llama", KINDS, tensors=other)
    again.replace(path)
    with closing(shelf), closing(load_model(path, options, shelf=shelf)) as model:
        assert not model.room.filled
        np.testing.assert_array_equal(logits(model), fresh(path, options))


def test_another_file_frees_what_was_kept(path: Path, device: str, tmp_path: Path) -> None:
    options = EngineOptions(device=device, ctx=64)
    other = write_tiny(tmp_path / "other.gguf", "gemma3", KINDS)
    with closing(load_model(path, options)) as model:
        shelf = model.close_but_weights()
    with closing(shelf), closing(load_model(other, options, shelf=shelf)) as model:
        assert (shelf.size, model.room.filled) == (0, set())
        assert held(model.dry) == foreseen(model.dry)


def test_what_does_not_fit_or_is_cancelled_leaves_nothing(path: Path, device: str) -> None:
    options = EngineOptions(device=device, ctx=64)
    for then, cancelled, error in (
        (replace(options, budget={device: 1 << 16}), lambda: False, NoMem),
        (replace(options, place="attn_q=host"), lambda: True, Cancelled),
    ):
        with closing(load_model(path, options)) as model:
            shelf = model.close_but_weights()
        with closing(shelf), pytest.raises(error):
            load_model(path, then, cancelled=cancelled, shelf=shelf)
        assert not system_pool().taken


def test_a_model_that_cannot_be_closed_leaves_no_weights(
    path: Path, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(self: OpenCLBackend) -> None:
        raise DeviceError(self.name, "was lost")

    model = load_model(path, EngineOptions(device=device, ctx=64))
    with monkeypatch.context() as patch:
        patch.setattr(OpenCLBackend, "synchronize", lost)
        with pytest.raises(DeviceError):
            model.close_but_weights()
    assert not system_pool().taken


@pytest.mark.parametrize("trials", [4, pytest.param(300, marks=pytest.mark.full)])
def test_whatever_fails_on_the_way_nothing_is_left(path: Path, device: str, trials: int) -> None:
    """Any step between an open model and the next one raises: the pools are empty, and a load
    answers as ever.
    """
    options = EngineOptions(device=device, ctx=64)
    shown = fresh(path, options)

    def change() -> None:
        with (
            closing(load_model(path, options)) as model,
            closing(model.close_but_weights()) as shelf,
        ):
            load_model(path, replace(options, ctx=32), shelf=shelf).close()

    steps = n_steps(change)
    for trial in range(trials):
        error: BaseException = (DeviceError(device, "x"), MemoryError())[trial % 2]
        fail(change, steps // 3 + steps * 2 // 3 * trial // trials, error)
        assert not system_pool().taken, trial
    np.testing.assert_array_equal(fresh(path, options), shown)
    assert WeightShelf().size == 0
