"""Results where a source lies: bit for bit what they are in a place of their own."""

from collections.abc import Callable

import numpy as np
import pytest

from engine.backends.opencl.backend import OpenCLBackend
from engine.backends.opencl.lowering.lower import IN_PLACE
from engine.gguf.formats import F16, F32, I32
from engine.graph import ops
from engine.graph.graph import Graph
from engine.graph.op import VIEW_OPS, Op
from engine.graph.tensor import Role, Tensor
from tests.kernels.harness import Array, GuardedStorage, as_bytes, read
from tests.kernels.test_fuse import weight
from tests.kernels.values import Operands

Make = Callable[[Operands], Tensor]


def unary(make: Callable[[Tensor], Tensor]) -> list[Make]:
    return [lambda made: make(made.make(F32, 33, 70)), lambda made: make(made.make(F16, 4100, 2))]


def binary(make: Callable[[Tensor, Tensor], Tensor]) -> list[Make]:
    return [
        lambda made: make(made.make(F32, 33, 70), made.make(F32, 33, 70)),
        lambda made: make(made.make(F32, 4100, 2), made.make(F32, 4100, 2)),
    ]


def rows(make: Callable[[Operands, Tensor], Tensor]) -> list[Make]:
    return [
        lambda made: make(made, made.make(F32, 33, 70)),
        lambda made: make(made, made.make(F32, 576, 5)),
        lambda made: make(made, made.make(F32, 4100, 1)),
    ]


def add_id(made: Operands) -> Tensor:
    ids = made.put(I32, np.array([[0, 3, 1], [2, 2, 0]]))
    return ops.add_id(made.make(F32, 70, 3, 2), made.make(F32, 70, 4), ids)


def rope(made: Operands, dim: int, n_rot: int, neox: bool) -> Tensor:
    return ops.rope(made.make(F32, dim, 3, 19), made.make(F32, n_rot, 19), neox)


def softmax(made: Operands, cells: int, masked: bool) -> Tensor:
    x = made.make(F32, cells, 7, 3)
    if not masked:
        return ops.softmax(x, scale=0.3)
    spans = made.put(I32, np.array([[1, 0, 5 * t, 0] for t in range(7)]))
    places = made.put(I32, np.stack([np.ones(cells), np.arange(cells)], axis=1))
    return ops.softmax(x, spans, places, scale=0.3)


def norm_add(made: Operands, rows: int) -> Tensor:
    normed = ops.rms_norm(made.make(F32, 96, rows), made.make(F32, 96), 1e-6)
    return ops.add(normed, made.make(F32, 96, rows))


def product_add(made: Operands, m: int, rows: int) -> Tensor:
    product = ops.matmul(weight(made, 64, m), made.make(F32, 64, rows))
    return ops.add(product, made.make(F32, m, rows))


def combine_add(made: Operands) -> Tensor:
    total = ops.combine(made.make(F32, 70, 3, 5), made.make(F32, 3, 5))
    return ops.add(ops.add(made.make(F32, 70, 5), total), made.make(F32, 70, 5))


CASES: dict[Op, list[Make]] = {
    Op.ADD: binary(ops.add),
    Op.SUB: binary(ops.sub),
    Op.MUL: binary(ops.mul),
    Op.DIV: binary(ops.div),
    Op.SCALE: unary(lambda x: ops.scale(x, 0.7)),
    Op.SOFTCAP: unary(lambda x: ops.softcap(x, 3.0)),
    Op.CLAMP: unary(lambda x: ops.clamp(x, -0.4, 0.3)),
    Op.SQR: unary(ops.sqr),
    Op.SQRT: unary(lambda x: ops.sqrt(ops.sqr(x))),
    Op.SIN: unary(ops.sin),
    Op.COS: unary(ops.cos),
    Op.EXP: unary(ops.exp),
    Op.SOFTPLUS: unary(ops.softplus),
    Op.ADD_ID: [add_id],
    Op.SILU: binary(ops.silu),
    Op.GELU: binary(ops.gelu),
    Op.GELU_ERF: binary(ops.gelu_erf),
    Op.QUICK_GELU: binary(ops.quick_gelu),
    Op.RELU: binary(ops.relu),
    Op.SWIGLU_LIMIT: binary(lambda gate, up: ops.swiglu_limit(gate, up, 1.7, 0.9)),
    Op.TANH: unary(ops.tanh),
    Op.SIGMOID: unary(ops.sigmoid),
    Op.XIELU: unary(lambda x: ops.xielu(x, 0.8, 0.7, 0.5)),
    Op.RMS_NORM: rows(lambda made, x: ops.rms_norm(x, made.make(F32, x.shape[0]), 1e-5)),
    Op.LAYER_NORM: rows(
        lambda made, x: ops.layer_norm(
            x, made.make(F32, x.shape[0]), made.make(F32, x.shape[0]), 1e-5
        )
    ),
    Op.L2_NORM: rows(lambda made, x: ops.l2_norm(x, 1e-5)),
    Op.ROPE: [
        lambda made: rope(made, 64, 64, True),
        lambda made: rope(made, 64, 64, False),
        lambda made: rope(made, 50, 38, True),
        lambda made: rope(made, 50, 38, False),
    ],
    Op.SOFTMAX: [
        lambda made: softmax(made, 256, True),
        lambda made: softmax(made, 33, False),
        lambda made: softmax(made, 4100, True),
    ],
    Op.NORM_CHAIN: [lambda made: norm_add(made, 1), lambda made: norm_add(made, 70)],
    Op.COMBINE_ADD: [combine_add],
    Op.MATMUL_ADD: [
        lambda made: product_add(made, 33, 1),
        lambda made: product_add(made, 40, 9),
        lambda made: product_add(made, 96, 70),
    ],
}


def ran(backend: OpenCLBackend, made: Operands, wanted: Tensor, op: Op, at: int | None) -> Array:
    """The values of `wanted`, where the node of `op` lies on its source `at`, or on nothing."""
    graph = Graph.of([wanted])
    placed: dict[Tensor, GuardedStorage] = {}
    try:
        for tensor in graph.leaves:
            placed[tensor] = GuardedStorage(backend, tensor, tensor.role is Role.WEIGHT)
            placed[tensor].fill(backend, tensor, as_bytes(tensor, made.values[tensor]))
        types = {t: place.location.buffer.type for t, place in placed.items()}
        nodes = [t for t in graph.nodes if t.op not in VIEW_OPS]
        lowered = backend.fuse(backend.lower(nodes, types.get), frozenset([wanted.storage]))
        assert lowered[-1].op is op
        for node in lowered:
            source = None if at is None else node.src[at] if node.op is op else None
            if source is not None:
                assert at in backend.in_place(node)
                placed[node.storage] = placed[source.storage]
            if node.storage not in placed:
                placed[node.storage] = GuardedStorage(backend, node.storage)
        commands = backend.compile(lowered, lambda t: placed[t.storage].location)
        commands.run()
        backend.synchronize()
        for tensor, place in placed.items():
            place.check(tensor, written=True)
        return read(placed[wanted.storage].location, wanted)
    finally:
        for place in placed.values():
            place.location.buffer.free()


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("op", "at"), [(op, at) for op, sources in IN_PLACE.items() for at in sources]
)
def test_in_place(either: OpenCLBackend, op: Op, at: int) -> None:
    for i, make in enumerate(CASES[op]):
        made = Operands(i)
        wanted = make(made)
        want = ran(either, made, wanted, op, None)
        got = ran(either, made, wanted, op, at)
        assert np.isfinite(want.astype(np.float64)).all()
        assert np.array_equal(got, want), i
