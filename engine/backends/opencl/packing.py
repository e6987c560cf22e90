"""Weights of a file into row tiles by kernels: from its mapped pages, or through pinned staging."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Protocol

import numpy as np

from engine.backends.opencl.buffers import OpenCLBuffer, Queue, driver_error
from engine.backends.opencl.drivers.loader import cl
from engine.backends.opencl.launch import Args, DeviceTraits, Launch
from engine.backends.opencl.launches.sizes import ints, longs
from engine.backends.opencl.shared import UncountedBuffer, in_place
from engine.backends.opencl.source import source
from engine.backends.opencl.tiles.layouts import spans
from engine.backends.opencl.tiles.schemes import SCHEMES, TILE
from engine.device.backend import (
    PLAIN,
    BufferType,
    Bytes,
    Commands,
    Event,
    Location,
    Upload,
    Where,
)
from engine.errors import CutawayError
from engine.gguf.formats import I8, Format
from engine.graph.tensor import Role, Tensor, leaf
from engine.progress import part
from engine.settings import VECTORS

PIECE = 16 << 20
"""Bytes of blocks that a launch packs: a cancelled load waits for two of them at most."""

STAGED = 8 << 20
"""The same where they are copied first: four buffers of that size, two of them pinned."""

IN_FLIGHT = 2
PER_ITEM = 16
"""Records that an item packs where it takes vectors."""

Prepare = Callable[[Sequence[tuple[Tensor, Launch]], Where], Commands]


@cache
def packing() -> str:
    """Names the bytes that packers make of weights, by the sources of the packers; and by vectors,
    so that a limit of these is a world of its own.
    """
    folder = files("engine") / "backends" / "opencl"
    modules = [folder / "packing.py", *(folder / "tiles").iterdir()]
    texts = sorted(path.read_text("utf-8") for path in modules if path.name.endswith(".py"))
    digest = sha256("\n".join([*texts, source("pack")]).encode()).hexdigest()
    return f"{VECTORS.get()}-{digest[:16]}"


def pack(out: Tensor, blocks: Tensor, fmt: Format, k: int, traits: DeviceTraits) -> Launch:
    """`out`, bytes of whole tiles, of rows of `k` elements in `blocks`, both leaves of bytes."""
    scheme, row_bytes = SCHEMES[fmt], fmt.row_bytes(k)
    rows, records = blocks.nbytes // row_bytes, k // scheme.elements
    lanes = 1 if traits.items_take_vectors else min(TILE, traits.max_work_group)
    per_item = PER_ITEM if traits.items_take_vectors else 1
    args: Args = {
        "out": out,
        "blocks": blocks,
        **ints(m=rows, records=records),
        **longs(row_bytes=row_bytes),
        **ints(per_item=per_item),
    }
    defines: dict[str, int | str] = {**scheme.packing, "LOCAL": lanes}
    if fmt.quantized:
        defines |= {"FORMAT": fmt.name.lower(), "BYTES": fmt.bytes, "PARTS": fmt.block // 32}
    size = (lanes, -(-records // per_item), -(-rows // TILE))
    return Launch("pack", "pack", args, size, (lanes, 1, 1), defines)


class BlockSource(Protocol):
    """Brings bytes to where kernels of a device read them."""

    piece: int

    def bring(self, data: Bytes) -> Location:
        """At most `piece` bytes; they stay there until the second piece after them is brought."""


class _Slot:
    """Pinned memory of the host, mapped, and as much of the device's own."""

    def __init__(self, queue: Queue, kind: BufferType, size: int) -> None:
        self._pinned = UncountedBuffer(queue, kind, size, cl.mem_flags.ALLOC_HOST_PTR)
        self.copy = UncountedBuffer(queue, kind, size, 0)
        write = cl.map_flags.WRITE
        self.host, _ = cl.enqueue_map_buffer(
            queue.now, self._pinned.memory, write, 0, (size,), np.dtype(np.uint8)
        )


class Staged:
    """They go into pinned memory, and from there the device copies them into its own. Two pieces
    take turns: one is copied while the one before is packed.
    """

    piece = STAGED

    def __init__(self, queue: Queue, kind: BufferType) -> None:
        self._queue, self._kind = queue, kind
        self._slots: deque[_Slot | None] = deque([None] * IN_FLIGHT)

    def bring(self, data: Bytes) -> Location:
        """Raises `DeviceError`, `NoMem`."""
        slot = self._slots.popleft()
        try:
            if slot is None or slot.copy.size < data.size:
                slot = _Slot(self._queue, self._kind, max(STAGED, data.size))
            slot.host[: data.size] = data
            staged = slot.host[: data.size]
            cl.enqueue_copy(self._queue.now, slot.copy.memory, staged, is_blocking=False)
        except cl.Error as error:
            raise driver_error(self._kind.device, "staging weights", data.size, 0, error) from None
        finally:
            self._slots.append(slot)
        return Location(slot.copy, 0)


class InPlace:
    """The device reads them where they lie, unless its driver refuses: some take no pages of a file
    that may only be read.
    """

    piece = PIECE

    def __init__(self, queue: Queue, kind: BufferType) -> None:
        self._queue, self._kind = queue, kind
        self._staged: Staged | None = None

    def bring(self, data: Bytes) -> Location:
        """Raises `DeviceError`, `NoMem`."""
        if self._staged is None:
            try:
                return in_place(self._queue, self._kind, data, data)
            except CutawayError:
                self._staged = Staged(self._queue, self._kind)
        return self._staged.bring(data)


class Packer:
    """Fills weights of one device."""

    def __init__(self, source: BlockSource, prepare: Prepare, traits: DeviceTraits) -> None:
        self._source, self._prepare, self._traits = source, prepare, traits
        # Blocks are kept until they are packed: kernels may read them where they lie, and those of
        # a big-endian file are a swapped copy that nobody else holds.
        self._under_way: deque[tuple[Bytes, Event, Commands]] = deque()

    def upload(self, weights: Iterable[Upload]) -> Generator[int, None, None]:
        """Like `Backend.upload`."""
        try:
            for weight in weights:
                tiled = weight.to.buffer.type.layout != PLAIN
                yield from self._pack(weight) if tiled else self._write(weight)
            while self._under_way:
                yield self._finish()
        finally:
            while self._under_way:  # kernels read what the caller may take away
                with suppress(CutawayError):
                    self._finish()

    def _write(self, weight: Upload) -> Iterator[int]:
        while self._under_way:
            yield self._finish()
        flat = weight.blocks.reshape(-1)
        for start in range(0, flat.size, PIECE):
            piece = flat[start : start + PIECE]
            _touch(weight.to, start + piece.size)
            weight.to.buffer.write(weight.to.offset + start, piece)
            yield piece.size

    def _pack(self, weight: Upload) -> Iterator[int]:
        to, fmt, shape, _ = weight
        flat, scheme, k = weight.blocks.reshape(-1), SCHEMES[weight.fmt], weight.shape[0]
        for span in spans(fmt, shape, self._source.piece):
            if len(self._under_way) == IN_FLIGHT:
                yield self._finish()
            data = flat[span.start : span.start + span.rows * fmt.row_bytes(k)]
            size = -(-span.rows // TILE) * (k // scheme.elements) * scheme.record_bytes
            source = leaf("blocks", I8, (data.size,), Role.INPUT)
            out = leaf("tiles", I8, (size,), Role.INPUT)
            places = {
                source: self._source.bring(data),
                out: Location(to.buffer, to.offset + span.to),
            }
            _touch(to, span.to + size)
            with part("packing"):
                launch = pack(out, source, fmt, k, self._traits)
                commands = self._prepare([(out, launch)], places.__getitem__)
                commands.run()
                self._under_way.append((data, to.buffer.mark(), commands))

    def _finish(self) -> int:
        """Wait for the oldest piece; how many bytes it was."""
        data, event, _ = self._under_way.popleft()
        with part("waiting"):
            event.wait()
        return data.size


def _touch(to: Location, end: int) -> None:
    """Before so many bytes from there on are filled."""
    assert isinstance(to.buffer, OpenCLBuffer)
    to.buffer.touch(to.offset + end)
