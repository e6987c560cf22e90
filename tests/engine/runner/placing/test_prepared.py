"""Weights that an earlier load packed are mapped: the same bits, the same records, and never in the
way of a load.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Event
from time import monotonic, sleep
from types import SimpleNamespace

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind
from numpy.typing import NDArray

from engine import kept
from engine.backends.base import Bytes, Component, Location, Owner, Upload
from engine.backends.opencl import buffers, shared
from engine.backends.opencl.backend import OpenCLBackend
from engine.backends.opencl.drivers.loader import cl
from engine.backends.opencl.tiles.schemes import SCHEMES
from engine.errors import Cancelled, DeviceError, NoMem
from engine.gguf import open_gguf
from engine.graph.tensor import Role, leaf
from engine.kept import prepared_files
from engine.memory.pools import system_pool
from engine.protocol import Load, Move
from engine.runner.loading import LoadedModel, load_model
from engine.runner.placing.move import move
from engine.settings import EngineOptions
from engine.weights.load import Allocation, InFile
from engine.weights.prepared import use
from engine.weights.prepared.file import PreparedFile
from engine.weights.prepared.store import WHOLE
from engine.weights.prepared.writing import write
from engine.worker.handlers import HANDLERS
from engine.worker.keeping import Keeping
from engine.worker.service import Service
from tests.engine.runner.failing import fail, n_steps
from tests.engine.runner.memory import foreseen, held, two_devices
from tests.goldens.tiny import write_tiny
from tests.kernels.conftest import backend, pytest_generate_tests
from tests.kernels.test_pack import expected, random_bytes, wide

__all__ = ["backend", "pytest_generate_tests"]
pytestmark = pytest.mark.device
KINDS = {"ffn_": Kind.Q8_0, "attn": Kind.Q4_0}
TOKENS = [5, 9, 200, 31, 77, 12]
FAILING_STEPS = 6


@pytest.fixture(autouse=True)
def own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In a folder of the test's, small buffers too; and nothing is left in the pools."""
    monkeypatch.setattr(kept, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(buffers, "LARGE", 1)
    before = dict(system_pool().taken)
    yield
    assert system_pool().taken == before


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_tiny(tmp_path / "m.gguf", "llama", KINDS)


def options(device: str) -> EngineOptions:
    return EngineOptions(device=device, ctx=64, prepared=1)


def logits(model: LoadedModel) -> NDArray[np.float32]:
    return np.array(model.stepper.step(TOKENS, 0, [len(TOKENS) - 1]))


def keep(model: LoadedModel) -> str:
    """Write what it holds; why not."""
    keeping = Keeping(model, Event())
    assert keeping.has_ended(60)
    return keeping.problem


def opened(path: Path, wanted: EngineOptions) -> tuple[int, int, NDArray[np.float32], list[str]]:
    """Its bytes that were prepared, all of its weights', its logits, and what is said of it."""
    with closing(load_model(path, wanted)) as model:
        assert held(model.dry) == foreseen(model.dry)
        size = sum(one.size for one in model.dry.weights)
        return model.room.prepared.size, size, logits(model), model.room.prepared.told()


def test_all_formats_lie_there_as_numpy_packs_them(backend: OpenCLBackend, tmp_path: Path) -> None:
    """Packed by the device, written, mapped, and read by it."""
    packed, made = {}, {}
    for fmt in SCHEMES:
        shape = wide(fmt, 40, 2)
        blocks, kind = random_bytes(fmt, shape), backend.buffer_type(fmt, shape, True)
        size = backend.allocation_size(kind, fmt, shape)
        made[fmt.name] = backend.allocate(kind, size, Owner(Component.WEIGHTS), zeros=False)
        list(backend.upload([Upload(Location(made[fmt.name], 0), fmt, shape, blocks)]))
        packed[fmt.name] = kind, expected(fmt, shape, blocks)
    for _ in write(tmp_path / "all.weights", made, 1 << 40, lambda: True):
        pass
    for buffer in made.values():
        buffer.free()
    found = PreparedFile(tmp_path / "all.weights")
    for name, (kind, tiles) in packed.items():
        data = found.data(found.entries[name])
        np.testing.assert_array_equal(data[: tiles.size], tiles, name)
        buffer = backend.hold(kind, data, Owner(Component.WEIGHTS))
        np.testing.assert_array_equal(buffer.read(0, tiles.size), tiles, name)
        with pytest.raises(DeviceError):
            buffer.write(0, tiles)
        buffer.free()


def test_the_next_load_maps_them_and_answers_the_same(backend: OpenCLBackend, path: Path) -> None:
    """Whatever the context; a driver takes what another one packed."""
    wanted = options(backend.name)
    with closing(load_model(path, wanted)) as model:
        shown = logits(model)
        assert "there are none of this file yet" in model.room.prepared.told()[0]
        assert keep(model) == ""
    for then in (wanted, replace(wanted, ctx=32)):
        taken, size, again, told = opened(path, then)
        assert taken == size
        np.testing.assert_array_equal(again, shown)
        assert "weights that were prepared: " in told[0]
    assert opened(path, replace(wanted, prepared=0))[::3] == (0, [])
    with closing(load_model(path, wanted)) as model:
        before = prepared_files()
        assert keep(model) == ""
        assert prepared_files() == before  # all is there
        model.room.prepared.put_back()
        assert (model.room.prepared.size, model.room.prepared.told()) == (0, [])
        shelf = model.close_but_weights()
    with closing(shelf), closing(load_model(path, wanted, shelf=shelf)) as model:
        assert model.room.prepared.size == 0  # taken over, mapped as they were
        assert model.room.prepared.told() == []
        np.testing.assert_array_equal(logits(model), shown)


@pytest.fixture
def device() -> str:
    return two_devices()[0]


def test_another_file_or_packing_is_packed_anew(
    path: Path, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = options(device)
    with closing(load_model(path, wanted)) as model:
        keep(model)
    with monkeypatch.context() as patch:
        patch.setattr("engine.backends.opencl.backend.packing", lambda: "auto-other")
        assert opened(path, wanted)[0] == 0
    other = {"blk.0.attn_norm.weight": np.full(64, 2.0, np.float32)}
    write_tiny(path.with_suffix(".new"), "llama", KINDS, tensors=other).replace(path)
    taken, _, shown, _ = opened(path, wanted)
    assert taken == 0
    np.testing.assert_array_equal(shown, opened(path, replace(wanted, prepared=0))[2])


def test_a_model_that_was_changed_meanwhile_is_not_kept(path: Path, device: str) -> None:
    with closing(load_model(path, options(device))) as model:
        path.touch()
        assert "was changed since it was opened" in keep(model)
    assert not prepared_files()


def test_another_placement_takes_what_is_there(path: Path) -> None:
    """And what it packed is kept with the rest."""
    one, two = two_devices()
    whole = options(f"{one},{two}")
    with closing(load_model(path, replace(whole, place=f"0-1={one},2=host,out=host"))) as model:
        keep(model)
    then = replace(whole, place=f"0={one},1={two},2={one},out={two}")
    with closing(load_model(path, then)) as model:
        layers = {t.name[:5] for t in model.room.was_prepared}
        assert layers == {"blk.0", "blk.1"}
        shown = logits(model)
        keep(model)
    taken, size, again, _ = opened(path, then)
    assert taken == size
    np.testing.assert_array_equal(again, shown)


def test_layers_move_from_there_and_back(path: Path) -> None:
    one, two = two_devices()
    wanted = replace(options(f"{one},{two}"), place=f"0-2={one},out={one}")
    with closing(load_model(path, wanted)) as model:
        shown = logits(model)
        keep(model)
    with closing(load_model(path, wanted)) as model:
        assert model.room.prepared.size
        for place in (f"0={one},1-2={two},out={one}", "0-2=host,out=host", wanted.place):
            move(model, replace(wanted, place=place))
            assert held(model.dry) == foreseen(model.dry)
        np.testing.assert_array_equal(logits(model), shown)
        assert keep(model) == ""


def test_moved_layers_are_written_as_they_lie_then(path: Path) -> None:
    """The writing before has ended by then: it would keep memory that is given back."""
    one, two = two_devices()
    wanted = replace(options(f"{one},{two}"), place=f"0-1={one},2=host,out=host")
    service = Service(lambda reply: None, set())
    HANDLERS[Load](service, Load(1, str(path), wanted))
    first = service.keeping
    HANDLERS[Move](service, Move(2, replace(wanted, place=f"0={one},1-2={two},out={one}")))
    assert first.has_ended(0)
    assert not prepared_files()
    assert service.keeping.has_ended(60)
    written = PreparedFile(prepared_files()[0].path).entries
    model, _ = service.model
    moved = {one: model.room.placed[one.tensors[0][0]].buffer for one in model.dry.weights}
    assert written.keys() == use.keepable(moved, model.opened.stored).keys()
    service.close_model()
    assert service.keeping is None


def test_a_device_that_does_not_take_them_packs(
    path: Path, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(load_model(path, options(device))) as model:
        shown = logits(model)
        keep(model)

    class Refusing(cl.Buffer):
        """What may only be read, as some drivers do."""

        def __init__(self, context: cl.Context, flags: int, size: int, data: Bytes | None) -> None:
            if data is not None and not data.flags.writeable:
                record = cl._cl._ErrorRecord(msg="", code=-38, routine="clCreateBuffer")
                raise cl.LogicError(record)
            super().__init__(context, flags, size, data)

    fake = SimpleNamespace(Buffer=Refusing, Error=cl.Error, mem_flags=cl.mem_flags)
    monkeypatch.setattr(shared, "cl", fake)
    taken, _, again, told = opened(path, options(device))
    assert (taken, len(told)) == (0, 1)
    assert "mapping weights failed" in told[0]
    assert not system_pool().taken
    np.testing.assert_array_equal(again, shown)


def test_a_wrong_file_is_packed_again_and_replaced(path: Path, device: str) -> None:
    with closing(load_model(path, options(device))) as model:
        shown = logits(model)
        keep(model)
    (file,) = prepared_files()
    data = bytearray(file.path.read_bytes())
    data[PreparedFile(file.path).entries.popitem()[1].start] ^= 1
    file.path.unlink()
    file.path.write_bytes(data)
    with closing(load_model(path, options(device))) as model:
        assert "other bytes than were written" in model.room.prepared.told()[0]
        np.testing.assert_array_equal(logits(model), shown)
        keep(model)
    taken, size, again, _ = opened(path, options(device))
    assert taken == size
    np.testing.assert_array_equal(again, shown)


def test_mapped_weights_are_not_counted_as_free_memory(
    path: Path, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system says that a file's pages are free; what an open model holds is not."""
    pool = system_pool()
    with closing(load_model(path, options(device))) as model:
        keep(model)
    with monkeypatch.context() as patch:
        patch.setattr(pool, "asks", (lambda: (1 << 33, "system"),))
        pool.measure()
        limit, left = pool.limit, pool.left
        with closing(load_model(path, options(device))) as model:
            pool.measure()
            prepared = model.room.prepared.size
            assert prepared > 1 << 16
            assert (pool.limit, pool.free().size) == (
                limit + pool.used - prepared,  # what was packed the machine counts as used
                (1 << 33) - prepared,
            )
            assert pool.left == left - prepared
        assert pool.in_files == 0
    pool.measure()


def test_no_room_and_cancel_leave_nothing(path: Path, device: str) -> None:
    wanted = options(device)
    with closing(load_model(path, wanted)) as model:
        keep(model)
    with pytest.raises(NoMem):
        load_model(path, replace(wanted, budget={device: 1 << 16}))
    with pytest.raises(Cancelled):
        load_model(path, wanted, cancelled=lambda: True)
    assert not system_pool().taken
    told: list[tuple[int, int]] = []
    with closing(load_model(path, wanted, lambda stage, *n: told.append(n))):
        of_load = [n for n in told if n[1] == told[0][1]]
        assert of_load[0][0] == 0
        assert of_load[-1][0] == of_load[-1][1] > 0


@pytest.mark.parametrize("trials", [FAILING_STEPS, pytest.param(300, marks=pytest.mark.full)])
def test_whatever_fails_on_the_way_nothing_is_left(path: Path, device: str, trials: int) -> None:
    wanted = options(device)
    with closing(load_model(path, wanted)) as model:
        shown = logits(model)
        keep(model)
    steps = n_steps(lambda: load_model(path, wanted).close())
    for trial in range(trials):
        error: BaseException = (DeviceError(device, "x"), MemoryError())[trial % 2]
        nth = steps // 3 + steps * 2 // 3 * trial // trials
        fail(lambda: load_model(path, wanted).close(), nth, error)
        assert not system_pool().taken, trial
    np.testing.assert_array_equal(opened(path, wanted)[2], shown)


def test_writing_waits_for_leisure_and_ends_with_the_model(path: Path, device: str) -> None:
    """A busy engine is never idle: not a byte is written, and nobody waits for the end."""
    with closing(load_model(path, options(device))) as model:
        idle = Event()
        keeping = Keeping(model, idle)
        keeping.stop()
        assert not prepared_files()
        keeping = Keeping(model, idle)
        idle.set()
        deadline = monotonic() + 60
        while not any(one.path.suffix == WHOLE for one in prepared_files()):
            assert monotonic() < deadline
            sleep(0.001)
        keeping.stop()


def test_keys_tell_what_a_buffer_holds(
    backend: OpenCLBackend, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other packing, format, shape, name or file, and whichever device or layer."""
    another = write_tiny(path.with_name("other.gguf"), "llama", KINDS)
    with (
        closing(load_model(path, options(backend.name))) as model,
        open_gguf(another) as other_file,
    ):
        file = model.file
        one = model.dry.weights[0]

        def key(wanted: Allocation, stored: InFile) -> str:
            return use.key_of(wanted, lambda tensor: stored)

        stored = InFile(file, "a")
        (tensor, size), *_ = one.tensors
        of_one = replace(one, tensors=((tensor, size),))
        same = replace(of_one, owner=Owner(Component.WEIGHTS, 77), type=replace(one.type))
        assert key(of_one, stored) == key(same, stored)
        was = key(of_one, stored)
        other = leaf("x", tensor.fmt, (tensor.shape[0], 2, 1, 1), Role.WEIGHT)
        others = [
            key(replace(of_one, tensors=((tensor, size + 64),)), stored),
            key(replace(of_one, tensors=((other, size),)), stored),
            key(replace(of_one, type=replace(one.type, layout="other")), stored),
            key(of_one, InFile(file, "b")),
            key(of_one, InFile(other_file, "a")),
        ]
        monkeypatch.setattr(one.backend, "packing", "auto-other")
        assert len({*others, was, key(of_one, stored)}) == 7
