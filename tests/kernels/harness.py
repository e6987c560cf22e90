"""Runs one node on a backend between guard bytes, and measures how far it is from the truth.

x = leaf("x", F32, (64, 3), Role.INPUT)
got = run(backend, ops.silu(x), {x: values})        # values[3, 64] -> got[3, 64]
assert nmse(got, reference) < 1e-7
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.backends.base import Backend, Buffer, Bytes, Component, Location, Owner
from engine.graph.graph import Graph
from engine.graph.op import VIEW_OPS, Op
from engine.graph.tensor import Role, Tensor

GUARD = 256
PATTERN = (np.arange(GUARD) * 37 + 11).astype(np.uint8)
POISON = 0xFF  # every byte so: NaN as f32, f16 and bf16, -1 as i32

Array = NDArray[np.generic]


def run(
    backend: Backend,
    node: Tensor,
    values: Mapping[Tensor, Array],
    *,
    matmul_only: bool = False,
    lower: bool = True,
    times: int = 1,
) -> Array:
    """The values of `node`, in reversed shape, computed from the leaves' `values`.

    A leaf's value has the reversed shape and its type, or is uint8 blocks where NumPy has no such
    type. `matmul_only` puts WEIGHT leaves into the device's own layout. Every storage lies in a
    buffer of its own between guards; what is not written by the node must come out unchanged.
    """
    return run_all(backend, [node], values, matmul_only=matmul_only, lower=lower, times=times)[0]


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
    """As `run`, for several nodes of one graph; `fused` lets all others vanish."""
    graph = Graph.of(wanted)
    placed: dict[Tensor, Placed] = {}
    try:
        for tensor in graph.leaves:
            packed = matmul_only and tensor.role is Role.WEIGHT
            placed[tensor] = Placed(backend, tensor, packed)
            placed[tensor].fill(backend, tensor, as_bytes(tensor, values[tensor]))
        leaf_types = {tensor: place.location.buffer.type for tensor, place in placed.items()}
        for tensor in graph.nodes:
            if tensor.op not in VIEW_OPS:
                assert backend.supports(tensor, leaf_types.get), f"{backend.name}: {tensor}"
        nodes = tuple(t for t in graph.nodes if t.op not in VIEW_OPS)
        if lower:
            kept = frozenset(t.storage for t in wanted) if fused else None
            nodes = backend.lower(nodes, leaf_types.get, kept)
        for tensor in nodes:
            for used in (tensor, *tensor.src):
                if used is not None and used.storage not in placed:
                    placed[used.storage] = Placed(backend, used.storage)
        commands = backend.compile(nodes, lambda t: placed[t.storage].location)
        for _ in range(times):
            commands.run()
        backend.synchronize()
        written = {t.storage for t in nodes}
        for tensor, place in placed.items():
            place.check(tensor, tensor in written)
        return [read(placed[node.storage].location, node) for node in wanted]
    finally:
        for place in placed.values():
            place.location.buffer.free()


def read(at: Location, node: Tensor) -> Array:
    """The values of a node whose storage lies there."""
    return strided(at.buffer.read(at.offset + node.offset, node.nbytes), node)


class Placed:
    """A storage in a buffer of its own, poisoned, with guards on both sides."""

    def __init__(self, backend: Backend, tensor: Tensor, packed: bool = False) -> None:
        kind = backend.buffer_type(tensor.fmt, tensor.shape, packed)
        self.size = backend.allocation_size(kind, tensor.fmt, tensor.shape)
        if tensor.role is not Role.WEIGHT:
            self.size = tensor.nbytes  # an arena pads nothing
        buffer: Buffer = backend.allocate(
            kind, self.size + 2 * GUARD, Owner(Component.GRAPH, name=tensor.name)
        )
        buffer.write(0, PATTERN)
        buffer.write(GUARD, np.full(self.size, POISON, np.uint8))
        buffer.write(GUARD + self.size, PATTERN)
        self.location = Location(buffer, GUARD)
        self.before = np.empty(0, np.uint8)

    def fill(self, backend: Backend, tensor: Tensor, data: Bytes) -> None:
        """Write a leaf's bytes, in the layout of the buffer."""
        rows = data.reshape(-1, tensor.fmt.row_bytes(tensor.shape[0]))
        backend.upload(self.location, tensor.fmt, tensor.shape, rows)
        self.before = self.location.buffer.read(GUARD, self.size)

    def check(self, tensor: Tensor, written: bool) -> None:
        """The guards are whole, and so is a leaf that no node writes."""
        whole = self.location.buffer.read(0, self.size + 2 * GUARD)
        assert np.array_equal(whole[:GUARD], PATTERN), f"{tensor}: written before its start"
        assert np.array_equal(whole[-GUARD:], PATTERN), f"{tensor}: written past its end"
        if tensor.op is Op.NONE and not written:
            assert np.array_equal(whole[GUARD:-GUARD], self.before), f"{tensor}: a source changed"


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


def nmse(x: Array, ref: Array) -> float:
    """sum((x - ref)^2) / sum(ref^2) in float64; infinite where x is not a number."""
    got, want = np.asarray(x, np.float64), np.asarray(ref, np.float64)
    assert got.shape == want.shape, (got.shape, want.shape)
    if not np.isfinite(got).all():
        return float("inf")
    return float(np.square(got - want).sum() / max(np.square(want).sum(), 1e-300))


def product_error(got: Array, x: Array, w: Array) -> float:
    """NMSE of x [..., N, K] times rows w [M, K].

    Where terms cancel, their sum tells nothing about how they were rounded: it is then held against
    what terms of random signs would make.
    """
    wide, rows = np.asarray(x, np.float64), np.asarray(w, np.float64)
    want = wide @ rows.T
    sums, terms = np.square(want).sum(), (np.square(wide) @ np.square(rows).T).sum()
    return nmse(got, want) * float(sums / max(sums, terms, 1e-300))
