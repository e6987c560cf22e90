"""Weights that an earlier load packed are mapped: the same bits, the same records, and never in the
way of a load.
"""

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from engine.backends.opencl import shared
from engine.backends.opencl.backend import OpenCLBackend
from engine.backends.opencl.drivers.loader import cl
from engine.backends.opencl.tiles.schemes import SCHEMES
from engine.device.backend import Bytes, Component, Location, Owner, Upload
from engine.errors import Cancelled, DeviceError, NoMem
from engine.kept import prepared_files
from engine.memory.pools import system_pool
from engine.runner.loading import load_model
from engine.weights.prepared.file import PreparedFile
from engine.weights.prepared.writing import write
from tests.engine.runner.failing import fail_opening, n_steps_of_opening
from tests.engine.runner.placing.preparing import (
    device,
    keep,
    logits,
    opened,
    options,
    own_files,
    path,
    refusal,
)
from tests.kernels.conftest import backend, pytest_generate_tests
from tests.kernels.test_pack import expected, random_bytes, wide

__all__ = ["backend", "device", "own_files", "path", "pytest_generate_tests"]
pytestmark = [
    pytest.mark.device,
    pytest.mark.only_linux("weights are prepared there alone"),
]
FAILING_STEPS = 6


@pytest.mark.sampled(2)
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
        assert "there are none of this file yet" in model.room.prepared.report()[0]
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
        assert (model.room.prepared.size, model.room.prepared.report()) == (0, [])
        shelf = model.close_but_weights()
    with closing(shelf), closing(load_model(path, wanted, shelf=shelf)) as model:
        assert model.room.prepared.size == 0  # taken over, mapped as they were
        assert model.room.prepared.report() == []
        np.testing.assert_array_equal(logits(model), shown)


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
                raise refusal(-38, "clCreateBuffer")
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
        assert "other bytes than were written" in model.room.prepared.report()[0]
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
        patch.setattr(pool, "sources", (lambda: (1 << 33, "system"),))
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
    steps = n_steps_of_opening(lambda: load_model(path, wanted))
    for trial in range(trials):
        error: BaseException = (DeviceError(device, "x"), MemoryError())[trial % 2]
        nth = steps // 3 + steps * 2 // 3 * trial // trials
        fail_opening(lambda: load_model(path, wanted), nth, error)
        assert not system_pool().taken, trial
    np.testing.assert_array_equal(opened(path, wanted)[2], shown)
