"""Runs nodes on a backend with every storage between guard bytes.

x = leaf("x", F32, (64, 3), Role.INPUT)
(got,) = run_all(backend, [ops.silu(x)], {x: values})        # values[3, 64] -> got[3, 64]
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.device.backend import Backend, Bytes, Commands, Component, Location, Owner, Upload
from engine.errors import DeviceError
from engine.graph.graph import Graph
from engine.graph.op import VIEW_OPS, Op
from engine.graph.tensor import Role, Tensor

GUARD = 256
PATTERN = (np.arange(GUARD) * 37 + 11).astype(np.uint8)
POISON = 0xFF  # every byte so: NaN as f32, f16 and bf16, -1 as i32

Array = NDArray[Any]


@dataclass(frozen=True)
class Ready:
    """Compiled nodes with their operands in place. `read` gives what a node holds."""

    commands: Commands
    read: Callable[[Tensor], Array]
    check: Callable[[], None]


def run_all(
    backend: Backend,
    wanted: Sequence[Tensor],
    values: Mapping[Tensor, Array],
    *,
    matmul_only: bool = False,
    lower: bool = True,
    fused: bool = False,
    times: int = 1,
) -> list[Array]:
    """The values of nodes, in reversed shape, computed from the leaves' `values`.

    A leaf's value has the reversed shape and its type, or is uint8 blocks where NumPy has no such
    type. `matmul_only` puts WEIGHT leaves into the device's own layout, `fused` lets all nodes
    vanish that are not wanted. Raises `DeviceError` where something else was written.
    """
    made = prepared(backend, wanted, values, matmul_only=matmul_only, lower=lower, fused=fused)
    with made as ready:
        for _ in range(times):
            ready.commands.run()
        backend.synchronize()
        ready.check()
        return [ready.read(node) for node in wanted]


@contextmanager
def prepared(
    backend: Backend,
    wanted: Sequence[Tensor],
    values: Mapping[Tensor, Array],
    *,
    matmul_only: bool = False,
    lower: bool = True,
    fused: bool = False,
) -> Iterator[Ready]:
    """Like `run_all`, before the run; the memory is freed at the end."""
    graph = Graph.of(wanted)
    placed: dict[Tensor, GuardedStorage] = {}
    try:
        for tensor in graph.leaves:
            packed = matmul_only and tensor.role is Role.WEIGHT
            placed[tensor] = GuardedStorage(backend, tensor, packed)
            placed[tensor].fill(backend, tensor, as_bytes(tensor, values[tensor]))
        nodes = tuple(t for t in graph.nodes if t.op not in VIEW_OPS)
        if lower:
            types = {tensor: place.location.buffer.type for tensor, place in placed.items()}
            nodes = backend.lower(nodes, types.get)
            if fused:
                nodes = backend.fuse(nodes, frozenset(t.storage for t in wanted))
        for tensor in nodes:
            for used in (tensor, *tensor.src):
                if used is not None and used.storage not in placed:
                    placed[used.storage] = GuardedStorage(backend, used.storage)
        written = {t.storage for t in nodes}

        def check() -> None:
            for tensor, place in placed.items():
                place.check(tensor, tensor in written)

        yield Ready(
            backend.compile(nodes, lambda t: placed[t.storage].location),
            lambda node: read(placed[node.storage].location, node),
            check,
        )
    finally:
        for place in placed.values():
            place.location.buffer.free()


def refused(
    backend: Backend, wanted: Sequence[Tensor], *, matmul_only: bool = False
) -> Tensor | None:
    """The first node that the backend does not take, its leaves lying where `run_all` puts them."""
    graph = Graph.of(wanted)
    types = {
        t: backend.buffer_type(t.fmt, t.shape, matmul_only and t.role is Role.WEIGHT)
        for t in graph.leaves
    }
    for node in graph.nodes:
        if node.op not in VIEW_OPS and not backend.supports(node, types.get):
            return node
    return None


class GuardedStorage:
    """A storage in a buffer of its own, poisoned, with guards on both sides."""

    def __init__(self, backend: Backend, tensor: Tensor, packed: bool = False) -> None:
        self._device = backend.name
        kind = backend.buffer_type(tensor.fmt, tensor.shape, packed)
        self.size = backend.allocation_size(kind, tensor.fmt, tensor.shape)
        if tensor.role is not Role.WEIGHT:
            self.size = tensor.nbytes  # an arena pads nothing
        owner = Owner(Component.GRAPH, name=tensor.name)
        buffer = backend.allocate(kind, self.size + 2 * GUARD, owner)
        self.location = Location(buffer, GUARD)
        buffer.write(0, PATTERN)
        buffer.write(GUARD, np.full(self.size, POISON, np.uint8))
        buffer.write(GUARD + self.size, PATTERN)
        self._before: Bytes = np.empty(0, np.uint8)

    def fill(self, backend: Backend, tensor: Tensor, data: Bytes) -> None:
        """Write a leaf's bytes, in the layout of the buffer."""
        rows = data.reshape(-1, tensor.fmt.row_bytes(tensor.shape[0]))
        for _ in backend.upload([Upload(self.location, tensor.fmt, tensor.shape, rows)]):
            pass
        self._before = self.location.buffer.read(GUARD, self.size)

    def check(self, tensor: Tensor, written: bool) -> None:
        """The guards are whole, and so is a leaf that no node writes."""
        whole = self.location.buffer.read(0, self.size + 2 * GUARD)
        what = tensor.name or tensor.op
        if not np.array_equal(whole[:GUARD], PATTERN):
            raise DeviceError(self._device, f"wrote before the start of {what}")
        if not np.array_equal(whole[-GUARD:], PATTERN):
            raise DeviceError(self._device, f"wrote past the end of {what}")
        is_input = tensor.op is Op.NONE and not written
        if is_input and not np.array_equal(whole[GUARD:-GUARD], self._before):
            raise DeviceError(self._device, f"changed {what}, which is only read")


def as_bytes(tensor: Tensor, value: Array) -> Bytes:
    """The bytes of a leaf's value, which must have its size."""
    if tensor.fmt.dtype is not None and value.dtype != np.uint8:
        value = value.astype(tensor.fmt.dtype)
    flat = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
    assert flat.size == tensor.nbytes, (tensor, value.shape, flat.size)
    return flat


def strided(data: Bytes, tensor: Tensor) -> Array:
    """Bytes from a tensor's first element on, as an array of reversed shape (blocks as uint8)."""
    if tensor.fmt.quantized:
        return data
    dtype = np.dtype(tensor.fmt.dtype or np.uint16)
    view = np.lib.stride_tricks.as_strided(
        data[: data.size // dtype.itemsize * dtype.itemsize].view(dtype),
        tensor.shape[::-1],
        tensor.strides[::-1],
    )
    return view.copy()


def read(at: Location, node: Tensor) -> Array:
    """The values of a node whose storage lies there."""
    return strided(at.buffer.read(at.offset + node.offset, node.nbytes), node)
