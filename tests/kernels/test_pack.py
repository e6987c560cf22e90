"""Row tiles made by kernels are, bit by bit, those that NumPy makes."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.backends.opencl import packing
from engine.backends.opencl.backend import OpenCLBackend
from engine.backends.opencl.buffers import OpenCLEvent
from engine.backends.opencl.drivers.device import Device, open_device
from engine.backends.opencl.drivers.loader import cl
from engine.backends.opencl.launch import DeviceTraits
from engine.backends.opencl.packing import BlockSource, InPlace, Packer, Staged
from engine.backends.opencl.tiles import layouts
from engine.backends.opencl.tiles.schemes import SCHEMES
from engine.device.backend import Bytes, Component, Location, Owner, Upload
from engine.errors import DeviceError
from engine.gguf.formats import F32, I8, Q4_K, Format
from engine.gguf.reader import open_gguf
from engine.graph.tensor import Role, Shape, leaf
from engine.memory.pools import SYSTEM
from engine.weights.load import InFile, fill
from tests.gguf_files import WIDE_FIELDS, Blocks, Draft

FORMATS = list(SCHEMES)
GUARD = 256
POISON = 0xA5


def random_bytes(fmt: Format, shape: Shape) -> Bytes:
    """Blocks of anything: what packs them moves bits and looks at none."""
    rows = shape[1] * shape[2]
    return np.random.default_rng(1).integers(0, 256, (rows, fmt.row_bytes(shape[0])), np.uint8)


def expected(fmt: Format, shape: Shape, blocks: Bytes) -> Bytes:
    """The tiles that NumPy makes."""
    return np.concatenate([piece for _, piece in layouts.pieces(fmt, shape, blocks)])


@contextmanager
def poisoned(backend: OpenCLBackend, fmt: Format, shape: Shape) -> Iterator[Location]:
    """Room for a weight's tiles between guards, no byte of it zero."""
    kind = backend.buffer_type(fmt, shape, matmul_only=True)
    size = layouts.nbytes(kind.layout, fmt, shape)
    buffer = backend.allocate(kind, size + 2 * GUARD, Owner(Component.WEIGHTS), zeros=False)
    buffer.write(0, np.full(size + 2 * GUARD, POISON, np.uint8))
    yield Location(buffer, GUARD)
    buffer.free()


def check(at: Location, tiles: Bytes) -> None:
    whole = at.buffer.read(0, tiles.size + 2 * GUARD)
    np.testing.assert_array_equal(whole[GUARD:-GUARD], tiles)
    assert (whole[:GUARD] == POISON).all()
    assert (whole[-GUARD:] == POISON).all()


def wide(fmt: Format, rows: int, matrices: int = 1) -> Shape:
    """Of some records, more than an item packs where they are small."""
    return (max(fmt.block, 32) * 3, rows, matrices, 1)


def each_define() -> list[Format]:
    """Formats of which each define of a packer has each value once, but those of one format."""
    kept, had = [], set[tuple[str, object]]()
    for fmt in FORMATS:
        blocks = leaf("blocks", I8, (fmt.row_bytes(256),), Role.INPUT)
        defines = packing.pack(blocks, blocks, fmt, 256, DeviceTraits(True, 2, 64, 1 << 15)).defines
        shared = {(name, v) for name, v in defines.items() if name not in ("FORMAT", "BYTES")}
        if not shared <= had:
            kept.append(fmt)
            had |= shared
    return kept


@pytest.mark.full_cases(
    "pocl|(?=.*other)(?=.*all)|(?=.*own)(?=.*few)"
)  # products multiply tiles of the others anyhow
@pytest.mark.parametrize("formats", [each_define(), FORMATS], ids=["few", "all"])
def test_tiles_are_those_of_numpy(either: OpenCLBackend, formats: list[Format]) -> None:
    """Whole tiles, a tail, several matrices."""
    for fmt in formats:
        for shape in (wide(fmt, 33), wide(fmt, 40, 2)):
            blocks = random_bytes(fmt, shape)
            with poisoned(either, fmt, shape) as at:
                sizes = list(either.upload([Upload(at, fmt, shape, blocks)]))
                assert sum(sizes) == blocks.size, fmt
                check(at, expected(fmt, shape, blocks))


def packer(backend: OpenCLBackend, make: Callable[..., BlockSource]) -> Packer:
    """One that takes a tile at a time."""
    source = make(backend.queue, backend.buffer_type(F32, (1, 1, 1, 1)))
    source.piece = 1
    return Packer(source, backend.prepare, backend.info.traits)


def test_a_stage_is_used_again_for_the_piece_after_the_next(backend: OpenCLBackend) -> None:
    """And one that is too small for its next piece is not."""
    stages = Staged(backend.queue, backend.buffer_type(F32, (1, 1, 1, 1)))
    sizes = (packing.STAGED, 100, 200, 50, packing.STAGED + 1)
    places = [stages.bring(np.zeros(size, np.uint8)).buffer for size in sizes]
    backend.synchronize()
    assert places[0] is places[2] is not places[1] is places[3]
    assert places[4].size > places[0].size


@pytest.mark.parametrize("fmt", [Q4_K, F32], ids=str)
def test_two_stages_take_turns(
    either: OpenCLBackend, fmt: Format, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for a device with memory of its own; a tile that is larger than a stage makes it grow."""
    monkeypatch.setattr(packing, "STAGED", 4096)
    shape = (512, 7 * 32 + 5, 1, 1)
    blocks = random_bytes(fmt, shape)
    with poisoned(either, fmt, shape) as at:
        sizes = list(packer(either, Staged).upload([Upload(at, fmt, shape, blocks)]))
        assert (len(sizes), sum(sizes)) == (8, blocks.size)
        check(at, expected(fmt, shape, blocks))


def test_tiles_in_large_pages_and_behind_them(either: OpenCLBackend) -> None:
    """Of a weight that begins in one large page and ends in the second."""
    shape = (4096, 32 * 31 + 3, 1, 1)
    blocks = random_bytes(Q4_K, shape)
    with poisoned(either, Q4_K, shape) as at:
        list(either.upload([Upload(at, Q4_K, shape, blocks)]))
        check(at, expected(Q4_K, shape, blocks))


@pytest.mark.parametrize("pool", [SYSTEM, "pci:01:00.0"])
def test_a_gpu_in_the_systems_memory_copies_no_weights(
    backend: OpenCLBackend, monkeypatch: pytest.MonkeyPatch, pool: str
) -> None:
    """It packs them from the mapped file; one with memory of its own gets each byte once."""
    traits = replace(backend.info.traits, is_cpu=False)
    info = replace(backend.info, traits=traits, pool=pool)
    opened = OpenCLBackend(
        Device(info, open_device(backend.name).handle),
        context=backend.context,
        programs=backend.programs,
    )
    assert opened.is_integrated == (pool == SYSTEM)
    copied, copy = [0], cl.enqueue_copy

    def counting(queue: Any, to: Any, source: Any, **more: Any) -> Any:
        copied[0] += source.nbytes if isinstance(source, np.ndarray) else 0
        return copy(queue, to, source, **more)

    shape = (256, 70, 1, 1)
    blocks = random_bytes(Q4_K, shape)
    with poisoned(opened, Q4_K, shape) as at:
        monkeypatch.setattr(cl, "enqueue_copy", counting)
        list(opened.upload([Upload(at, Q4_K, shape, blocks)]))
        assert copied == [0 if pool == SYSTEM else blocks.size]
        check(at, expected(Q4_K, shape, blocks))
    opened.close()


def test_a_driver_that_takes_no_mapped_pages_gets_copies(
    backend: OpenCLBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> Location:
        raise DeviceError(backend.name, "takes no pages of a file")

    monkeypatch.setattr(packing, "in_place", refuse)
    shape = (256, 70, 1, 1)
    blocks = random_bytes(Q4_K, shape)
    with poisoned(backend, Q4_K, shape) as at:
        assert len(list(packer(backend, InPlace).upload([Upload(at, Q4_K, shape, blocks)]))) == 3
        check(at, expected(Q4_K, shape, blocks))


def test_a_pass_that_is_closed_packs_no_more(
    backend: OpenCLBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is under way is waited for: two pieces, of which none is half done."""
    shape = (256, 32 * 8, 1, 1)
    blocks = random_bytes(Q4_K, shape)
    tiles = expected(Q4_K, shape, blocks)
    with poisoned(backend, Q4_K, shape) as at:
        upload = packer(backend, InPlace).upload([Upload(at, Q4_K, shape, blocks)])
        next(upload)
        waits, wait = [], OpenCLEvent.wait
        monkeypatch.setattr(OpenCLEvent, "wait", lambda e: (waits.append(e), wait(e))[1])
        upload.close()
        assert len(waits) == 1
        done = at.buffer.read(GUARD, tiles.size).reshape(8, -1)
        np.testing.assert_array_equal(done[:2], tiles.reshape(8, -1)[:2])
        assert (done[2:] == POISON).all()


def test_a_big_endian_file_is_packed_as_the_little_endian_one(
    either: OpenCLBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even by a device so slow that it starts when it is waited for: each tensor's swapped copy is
    there until then, though the next ones were made meanwhile.
    """
    shape, rng = (256 * 4, 32, 1, 1), np.random.default_rng(2)
    weights = [leaf(f"w{i}", Q4_K, shape, Role.WEIGHT) for i in range(6)]
    blocks = [rng.integers(0, 256, (32, Q4_K.row_bytes(shape[0])), np.uint8) for _ in weights]
    wide = WIDE_FIELDS["Q4_K"]
    draft = Draft(order=">")
    for weight, data in zip(weights, blocks, strict=True):
        stored = Blocks(Q4_K.id, shape[:2], data.tobytes(), wide, Q4_K.bytes)
        draft.tensors[weight.name] = stored

    gate, wait = cl.UserEvent(either.queue.context), OpenCLEvent.wait
    opened: list[int] = []

    def open_first(event: OpenCLEvent) -> None:
        if not opened:
            gate.set_status(cl.command_execution_status.COMPLETE)
            opened.append(1)
        wait(event)

    monkeypatch.setattr(OpenCLEvent, "wait", open_first)
    with ExitStack() as stack:
        places = {w: stack.enter_context(poisoned(either, Q4_K, shape)) for w in weights}
        file = stack.enter_context(open_gguf(draft.write(tmp_path / "big.gguf")))
        cl.enqueue_barrier(either.queue.now, wait_for=[gate])
        assert sum(fill(places, lambda _: either, lambda w: InFile(file, w.name))) == sum(
            data.size for data in blocks
        )
        for weight, data in zip(weights, blocks, strict=True):
            check(places[weight], expected(Q4_K, shape, data))
