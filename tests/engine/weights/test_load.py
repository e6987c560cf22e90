"""Which weights a device may lay out for products, and what is said of those that grow."""

from engine.backends.host.backend import HostBackend
from engine.device.backend import PLAIN, REPACKED, BufferType, Component, Owner
from engine.gguf.formats import F16, F32, I32, IQ1_S, IQ3_S, Q4_0, Format
from engine.graph import ops
from engine.graph.graph import Graph
from engine.graph.tensor import Role, Tensor, leaf
from engine.weights.load import Allocation, matmul_only, repacked


def weight(name: str, fmt: Format, *shape: int) -> Tensor:
    return leaf(name, fmt, shape, Role.WEIGHT)


def names(*outputs: Tensor) -> set[str]:
    return {tensor.name for tensor in matmul_only(Graph.of(list(outputs)))}


X = leaf("x", F32, (64, 5), Role.INPUT)


def test_first_operands_count_and_nothing_else() -> None:
    w, norm, table = weight("w", Q4_0, 64, 8), weight("norm", F32, 64), weight("t", F32, 64, 5)
    assert names(ops.matmul(w, ops.rms_norm(X, norm, 1e-5)), ops.matmul(X, table)) == {"w"}


def test_one_other_use_spoils_a_weight() -> None:
    w = weight("w", F32, 64, 5)
    assert names(ops.matmul(w, X), ops.add(w, X)) == set()
    part = w.view(0, (64, 2), w.strides[1:2])
    assert names(ops.matmul(w, X), ops.matmul(part, X)) == set()


def test_experts_count() -> None:
    experts, ids = weight("w", Q4_0, 64, 8, 3), leaf("ids", I32, (2, 5), Role.INPUT)
    by_id = ops.matmul_id(experts, X.reshape(64, 1, 5), ids)
    assert names(by_id) == {"w"}
    batches = ops.matmul(experts, leaf("y", F32, (64, 5, 3), Role.INPUT))
    assert names(by_id, batches) == set()


def test_products_that_must_not_round_need_floats() -> None:
    weights = weight("q", Q4_0, 64, 8), weight("f", F16, 64, 8)
    assert names(*(ops.matmul(w, X, full_precision=True) for w in weights)) == {"f"}


def test_what_grows_is_named_with_counts_and_sizes() -> None:
    host = HostBackend()

    def held(layout: str, *tensors: tuple[Tensor, int]) -> Allocation:
        kind = BufferType("d", layout, 64, 1 << 40)
        return Allocation(host, kind, Owner(Component.WEIGHTS), tensors)

    of_iq1 = [(weight(f"{i}", IQ1_S, 1024, 1024), 2 << 20) for i in range(3)]
    plan = [
        held(PLAIN, (weight("p", Q4_0, 1024, 1024), 1 << 20)),
        held(REPACKED, of_iq1[0], (weight("i", IQ3_S, 1024, 1024), 1 << 20)),
        held(REPACKED, *of_iq1[1:]),
    ]
    assert repacked(plan[:1]) == []
    assert repacked(plan) == [
        "weights repacked for their device: IQ1_S x 3 0.6 -> 6.0 MiB, IQ3_S x 1 0.4 -> 1.0 MiB"
    ]
