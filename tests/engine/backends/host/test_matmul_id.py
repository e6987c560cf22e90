"""Products with chosen experts, column by column in float64."""

import gguf
import numpy as np
import pytest

from engine.backends.host.backend import HostBackend
from engine.gguf.formats import BF16, F16, F32, I32, MXFP4, Q4_K, Q8_0
from engine.graph import ops
from engine.graph.tensor import Role, leaf
from tests.kernels.blocks import exact, random_blocks
from tests.kernels.harness import nmse, run
from tests.kernels.values import Operands


def definition(a: np.ndarray, b: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """a [E, M, K], b [T, s, K], ids [T, U] -> [1, T, U, M]."""
    out = np.empty((1, *ids.shape, a.shape[1]))
    for t, u in np.ndindex(*ids.shape):
        out[0, t, u] = a[ids[t, u]] @ b[t, u % b.shape[1]]
    return out


@pytest.mark.parametrize("fmt", [F32, F16, BF16], ids=str)
@pytest.mark.parametrize(("used", "shared"), [(1, 1), (4, 1), (4, 4), (4, 2)])
def test_each_token_with_its_own_experts(host: HostBackend, fmt, used: int, shared: int) -> None:
    """U slots of a token read its s columns in turn; experts come twice and not at all."""
    x = Operands(40)
    a, b = x.make(fmt, 33, 7, 5), x.make(F32, 33, shared, 6)
    numbers = x.rng.integers(0, 4, (6, used))
    ids = x.put(I32, numbers)
    want = definition(x.exact(a)[0], x.exact(b)[0], numbers)
    assert nmse(run(host, ops.matmul_id(a, b, ids), x.values), want) < 1e-12


@pytest.mark.parametrize("fmt", [Q8_0, Q4_K, MXFP4], ids=str)
def test_experts_of_blocks(host: HostBackend, fmt) -> None:
    x = Operands(41)
    if fmt == MXFP4:
        numbers = x.rng.standard_normal((3 * 5, 512)).astype(np.float32)
        blocks = gguf.quantize(numbers, gguf.GGMLQuantizationType.MXFP4)
    else:
        blocks = random_blocks(x.rng, fmt, 3 * 5, 512)
    a = leaf("experts", fmt, (512, 5, 3), Role.WEIGHT)
    b, chosen = x.make(F32, 512, 1, 4), np.int32([[2, 0], [1, 2], [2, 1], [2, 0]])
    ids = x.put(I32, chosen)
    want = definition(exact(blocks, fmt).reshape(3, 5, 512), x.exact(b)[0], chosen)
    assert nmse(run(host, ops.matmul_id(a, b, ids), x.values | {a: blocks}), want) < 1e-12


def test_ids_that_name_no_expert_give_zeros(host: HostBackend) -> None:
    x = Operands(43)
    a, b = x.make(F32, 9, 4, 3), x.make(F32, 9, 1, 2)
    chosen = np.int32([[0, -1], [3, 2]])
    got = run(host, ops.matmul_id(a, b, x.put(I32, chosen)), x.values)[0]
    assert not got[[0, 1], [1, 0]].any()
    want = definition(x.exact(a)[0], x.exact(b)[0], np.maximum(chosen, 0) % 3)[0]
    assert nmse(got[[0, 1], [0, 1]], want[[0, 1], [0, 1]]) < 1e-12


def test_ids_of_a_full_order_and_permuted_columns(host: HostBackend) -> None:
    """As a router makes them: the first of every row of an argsort; b [K, s, T] of [K, T, s]."""
    x = Operands(42)
    a, scores = x.make(F32, 9, 4, 6), x.make(F32, 6, 5)
    b = x.make(F32, 9, 5, 2).permute(0, 2, 1)
    ids = ops.top_k(scores, 2)
    chosen = np.argsort(-x.exact(scores)[0, 0], axis=-1)[:, :2]
    want = definition(x.exact(a)[0], x.exact(b)[0], chosen)
    assert nmse(run(host, ops.matmul_id(a, b, ids), x.values), want) < 1e-12
