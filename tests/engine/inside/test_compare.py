"""Each result of a step against the host: a kernel with a fault is found where it is."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from engine.backends.opencl import backend as opencl
from engine.backends.opencl import program
from engine.errors import BadSetting, Cancelled, NoMem
from engine.inside.compare import compare
from engine.protocol import Compare, Compared, ComparedResult, Load
from engine.runner.loading import LoadedModel, load_model
from engine.runner.sequence import Sequenced
from engine.settings import EngineOptions
from engine.worker import Worker
from tests.goldens.tiny import ARCHITECTURES, write_tiny
from tests.kernels.conftest import pytest_generate_tests

__all__ = ["pytest_generate_tests"]

TEXT = "The capital of France is Paris, and that of Germany is Berlin. What do people eat there?"
SOURCE = program.source


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> str:
    """A device of every driver in turn."""
    return str(request.param)


def compared(path: Path, device: str, text: str = TEXT, **options: object) -> Compared:
    with closing(load_model(path, EngineOptions(device=device, ctx=128, **options))) as model:
        return of(model, text)


def of(model: LoadedModel, text: str = TEXT) -> Compared:
    sequence, held = Sequenced(model.stepper), model.device.used
    *_, last = compare(model, sequence, Compare(1, prompt=text), lambda: False)
    assert isinstance(last, Compared)
    assert sequence.items == []
    assert model.device.used == held
    return last


def found(told: Compared) -> ComparedResult:
    assert told.first is not None, max(told.rows, key=lambda row: row.error / row.most)
    assert not any(row.problem for row in told.rows[: told.first])
    return told.rows[told.first]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("architecture", "kv"), [*((name, "f16") for name in ARCHITECTURES), ("gemma3", "q8_0")]
)
def test_a_device_that_is_right(architecture: str, kv: str, backend: str, tmp_path: Path) -> None:
    """Every layer's results and both of its caches, for a prompt and for a token."""
    told = compared(write_tiny(tmp_path / "tiny.gguf", architecture), backend, kv=kv)
    assert told.first is None, told.rows[told.first]
    for phase in ("prefill", "decode"):
        names = [row.name for row in told.rows if row.phase == phase]
        for layer in range(3):
            assert {f"cache_k_l{layer}", f"cache_v_l{layer}", f"l_out-{layer}"} <= set(names)
        assert names[-1] == "result_output"
    assert all(row.device == backend for row in told.rows if row.ops != ["rows"])
    assert all(row.launches and row.ops for row in told.rows)
    # The device does round: nothing is compared with itself.
    assert sum(row.error > 0 for row in told.rows) > len(told.rows) / 2


def test_two_devices(tmp_path: Path) -> None:
    from tests.engine.runner.memory import two_devices

    first, second = two_devices()
    path = write_tiny(tmp_path / "tiny.gguf", "llama")
    told = compared(path, f"{first},{second}", place=f"0={first},1-2={second},out={first}")
    assert told.first is None
    assert {row.device for row in told.rows if row.layer == 1} == {second}


FAULTS = {
    "norm": (
        "0.0f, part) / n0 + eps)",
        "0.0f, part) / (n0 + 9) + eps)",
        "prefill",
        "Qcur-0",
        "norm_chain",
    ),
    "rope": ("head.cosines + pair)", "head.sines + pair)", "prefill", "Qcur-0", "rope_store"),
    # The kernel of few tokens alone.
    "scale": (" * a->scale;", " * a->scale * 1.2f;", "decode", "kqv_out-0", "attention"),
    "activation": ("(1.0f + exp(-", "(1.3f + exp(-", "prefill", "l_out-0", "matmul_gated"),
}


@pytest.fixture
def break_kernels(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[bool]]:
    """Puts a fault into every kernel built from now on; what is returned tells if it got in."""

    def put(fault: str) -> list[bool]:
        right, wrong, *_ = FAULTS[fault]
        touched: list[bool] = []

        def source(family: str) -> str:
            text = SOURCE(family)
            touched.append(right in text)
            return text.replace(right, wrong)

        monkeypatch.setattr(program, "source", source)
        monkeypatch.setattr(opencl, "_kept", {})  # kernels of other tests, which are right
        return touched

    return put


@pytest.mark.sampled(2)
@pytest.mark.device
@pytest.mark.parametrize("fault", FAULTS)
def test_a_kernel_with_a_fault_is_the_first_that_deviates(
    fault: str, tmp_path: Path, break_kernels: Callable[[str], list[bool]]
) -> None:
    *_, phase, name, launch = FAULTS[fault]
    touched = break_kernels(fault)
    row = found(compared(write_tiny(tmp_path / "tiny.gguf", "llama"), "intel:0"))
    assert any(touched)
    assert (row.phase, row.name) == (phase, name)
    assert launch in row.launches
    assert "NMSE" in row.problem


@pytest.mark.full
@pytest.mark.model_file
@pytest.mark.device
@pytest.mark.parametrize(
    ("model", "fault"),
    [
        ("smollm2_path", "scale"),
        pytest.param("gemma3_path", "activation", marks=pytest.mark.full),
    ],
)
def test_in_real_models(
    model: str,
    fault: str,
    request: pytest.FixtureRequest,
    break_kernels: Callable[[str], list[bool]],
) -> None:
    """What is found is in the first layer, and right kernels deviate nowhere."""
    path, text = request.getfixturevalue(model), TEXT[:30]
    assert compared(path, "intel:0", text).first is None
    break_kernels(fault)
    row = found(compared(path, "intel:0", text))
    assert row.layer == 0
    assert FAULTS[fault][-1] in row.launches


def test_what_cannot_be_compared_and_what_goes_wrong(
    tiny_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(load_model(tiny_path, EngineOptions(device="host", ctx=64))) as model:
        with pytest.raises(BadSetting, match="two tokens"):
            of(model, "a")
        sequence = Sequenced(model.stepper)
        with pytest.raises(Cancelled):
            list(compare(model, sequence, Compare(1, prompt=TEXT), lambda: True))
        assert sequence.items == []

        def refuse(*_: object) -> None:
            raise NoMem("host", "staging", 1, 0)

        with monkeypatch.context() as patch:
            patch.setattr("engine.scheduler.rings.Rings.grow", refuse)
            with pytest.raises(NoMem):
                of(model)
        assert of(model).first is None
        assert not np.any(model.built.caches.caches[0].cells[:, 0])


def test_a_worker_compares(worker: Worker, tiny_path: Path) -> None:
    worker.get(Load(worker.new_id(), str(tiny_path), EngineOptions(device="host", ctx=64)))
    told = worker.get(Compare(worker.new_id(), prompt=TEXT))
    assert told.first is None
    assert {row.phase for row in told.rows} == {"prefill", "decode"}
