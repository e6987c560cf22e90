"""Each architecture against transformers, on the tiny model of its row.

The host in float32 must agree to 1e-10: what is looser is blind to real mistakes (a deviation by
n - 1, a rounded ramp). Devices keep f16 weights and caches, or Q8_0 against the same weights
dequantised.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind

from engine.backends.opencl.launch import DeviceTraits
from engine.backends.opencl.lowering.fusions import fuse
from engine.backends.opencl.lowering.lower import lower
from engine.backends.opencl.tiles.layouts import layout_for
from engine.device.backend import PLAIN, BufferType
from engine.gguf import open_gguf
from engine.graph.op import VIEW_OPS, Op
from engine.graph.tensor import Tensor
from engine.models.build import build_model, find
from engine.runner import load
from engine.runner.api import Model
from engine.weights.load import matmul_only
from tests.engine.models.text.files import golden, write
from tests.engine.models.text.rows import ROWS, Row
from tests.engine.runner.memory import drivers, two_devices
from tests.program import ROOT
from tests.truth.compare import nmse

CPU = DeviceTraits(True, 2, 4096, 32768)
MIXED = (65, 7, 7, 7, 7, 1, 1, 1)
"""How 96 tokens enter: a long piece, short ones, single ones."""
PIECES = [(1,) * 96, (7,) * 13 + (5,), (64, 32), (65, 31)]


@pytest.fixture(params=ROWS.values(), ids=lambda row: row.name)
def row(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Row:
    """Each in turn, with its params' defaults replaced by what its file cannot say."""
    one: Row = request.param
    for name, value in one.params:
        defaults = find(one.architecture).Params.__init__.__kwdefaults__  # type: ignore[misc]
        monkeypatch.setitem(defaults, name, value)
    return one


@contextmanager
def opened(path: Path, device: str, kv: str = "f16", place: str = "") -> Iterator[Model]:
    with load(path, device=device, kv=kv, ctx=128, place=place) as model:
        yield model


def logits(model: Model, ids: np.ndarray, pieces: Sequence[int] = (96,)) -> np.ndarray:
    """[96, V] of one text that enters in pieces."""
    stepper = model.loaded.stepper
    stepper.forget(0)
    ends = np.cumsum(pieces).tolist()
    parts = zip([0, *ends[:-1]], ends, strict=True)
    steps = [stepper.step(ids[a:b].tolist(), a, range(b - a)).copy() for a, b in parts]
    return np.concatenate(steps)


def test_on_the_host(row: Row, tmp_path: Path) -> None:
    ids, want = golden(row)
    with opened(write(row, tmp_path), "host", "f32") as model:
        assert nmse(logits(model, ids[0]), want[0]) < 1e-10
        assert nmse(logits(model, ids[1], MIXED), want[1]) < 1e-10


@pytest.mark.full
@pytest.mark.parametrize("pieces", PIECES, ids=lambda pieces: str(pieces[0]))
def test_in_pieces(row: Row, pieces: Sequence[int], tmp_path: Path) -> None:
    ids, want = golden(row)
    with opened(write(row, tmp_path), "host", "f32") as model:
        for one, wanted in zip(ids, want, strict=True):
            assert nmse(logits(model, one, pieces), wanted) < 1e-10


@pytest.mark.full
def test_unfused_attention(row: Row, tmp_path: Path) -> None:
    ids, want = golden(row)
    with load(
        write(row, tmp_path), device="host", kv="f32", ctx=128, flash_attention=False
    ) as model:
        assert nmse(logits(model, ids[0], MIXED), want[0]) < 1e-10


@pytest.mark.sampled(3)
@pytest.mark.device
def test_on_a_device(row: Row, tmp_path: Path) -> None:
    ids, want = golden(row)
    with opened(write(row, tmp_path, Kind.F16), first_driver()) as model:
        assert nmse(logits(model, ids[1], MIXED), want[1]) < 1e-5


@pytest.mark.full
@pytest.mark.device
@pytest.mark.parametrize("pieces", [(96,), *PIECES], ids=lambda pieces: str(pieces[0]))
def test_on_every_device(row: Row, pieces: Sequence[int], tmp_path: Path) -> None:
    ids, want = golden(row)
    for driver in drivers():
        with opened(write(row, tmp_path, Kind.F16), driver) as model:
            for one, wanted in zip(ids, want, strict=True):
                assert nmse(logits(model, one, pieces), wanted) < 1e-5, driver


@pytest.mark.full
@pytest.mark.device
def test_quantised(row: Row, tmp_path: Path) -> None:
    """Against the same weights, dequantised."""
    ids, _ = golden(row)
    with opened(write(row, tmp_path, rounded=Kind.Q8_0), "host", "f32") as model:
        want = logits(model, ids[0])
    for driver in drivers():
        with opened(write(row, tmp_path, Kind.Q8_0), driver) as model:
            assert nmse(logits(model, ids[0], MIXED), want) < 1e-4, driver


@pytest.mark.full
@pytest.mark.device
def test_on_two_devices(row: Row, tmp_path: Path) -> None:
    """Layers by turns, so that each boundary is crossed both ways."""
    ids, want = golden(row)
    a, b = two_devices()
    path = write(row, tmp_path, Kind.F16)
    with open_gguf(path) as file:
        n_layer = build_model(file, 64, 16).n_layer
    place = ",".join(f"{i}={(a, b)[i % 2]}" for i in range(n_layer)) + f",out={a}"
    with opened(path, f"{a},{b}", place=place) as model:
        assert len({backend.name for backend in model.loaded.backends} & {a, b}) == 2
        assert nmse(logits(model, ids[1], MIXED), want[1]) < 1e-5


def launched(path: Path) -> list[str]:
    """The launches of one token, lowered and fused for a CPU of two cores, whatever is at hand."""
    with open_gguf(path) as file:
        graph = build_model(file, 128, 16).one_token
    tiled = matmul_only(graph)

    def type_of(tensor: Tensor) -> BufferType:
        layout = layout_for(tensor.fmt, tensor.shape, CPU) if tensor in tiled else PLAIN
        return BufferType("cpu", layout, 128, 1 << 30)

    nodes = [node for node in graph.nodes if node.op not in VIEW_OPS]
    kept = frozenset(output.storage for output in graph.outputs)
    lowered = fuse(lower(nodes, type_of, CPU), kept, CPU)
    return [f"{node.op} {node.name}" for node in lowered if node.op is not Op.RESULT]


@pytest.mark.sampled(4)
def test_a_decode_step_takes_so_many_launches(row: Row, tmp_path: Path) -> None:
    told = launched(write(row, tmp_path, Kind.Q8_0))
    assert len(told) == row.launches, "\n".join(told)


def test_each_row_has_a_fault_to_plant(row: Row) -> None:
    text = (ROOT / row.fault.file).read_text("utf-8")
    assert text.count(row.fault.old) == 1, row.fault


def first_driver() -> str:
    """The device of the first one; skips where there is none."""
    names = drivers()
    if not names:
        pytest.skip("no OpenCL driver")
    return names[0]
