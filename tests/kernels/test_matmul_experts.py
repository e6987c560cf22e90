"""Products of experts in row tiles against float64 on the dequantised weights."""

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.backends.opencl.backend import OpenCLBackend
from engine.gguf.formats import F16, F32, I32, MXFP4, Q2_K, Q4_1, Q4_K, Q6_K, Q8_0, Format
from engine.graph import ops
from engine.graph.op import Op
from engine.graph.tensor import Role, Tensor, leaf
from tests.kernels.blocks import QUANTIZED, exact, random_blocks
from tests.kernels.harness import nmse, run, run_all
from tests.kernels.values import Operands

LIMIT = 1e-6


def experts_of(
    made: Operands, fmt: Format, k: int, m: int, experts: int
) -> tuple[Tensor, NDArray[np.float64]]:
    """A weight [K, M, E], and its values [E, M, K]."""
    tensor = leaf("w", fmt, (k, m, experts), Role.WEIGHT)
    if fmt.quantized:
        blocks = random_blocks(made.rng, fmt, m * experts, k)
        values = exact(blocks, fmt)
    else:
        assert fmt is F16
        halves = made.rng.standard_normal((m * experts, k)).astype(np.float16)
        blocks, values = halves.view(np.uint8), halves.astype(np.float64)
    made.values[tensor] = blocks
    return tensor, values.reshape(experts, m, k)


def expected(
    values: NDArray[np.float64], x: NDArray[np.float64], ids: NDArray[np.int64]
) -> NDArray[np.float64]:
    """out[t, u] = values[ids[t, u]] x[t, u mod s], zeros where there is no such expert."""
    out = np.zeros((*ids.shape, values.shape[1]))
    for (t, u), expert in np.ndenumerate(ids):
        if 0 <= expert < len(values):
            out[t, u] = values[expert] @ x[t, u % x.shape[1]]
    return out


def check(
    backend: OpenCLBackend,
    made: Operands,
    fmt: Format,
    sizes: tuple[int, int, int],
    ids: NDArray[np.int64],
    step: int,
) -> None:
    """Experts (K, M, E) with ids [T, U] and x [K, step, T]."""
    w, values = experts_of(made, fmt, *sizes)
    x, wanted = made.make(F32, sizes[0], step, len(ids)), made.put(I32, ids)
    node = ops.matmul_id(w, x, wanted)
    assert backend.buffer_type(fmt, w.shape, matmul_only=True).layout != "plain"
    got = run(backend, node, made.values, matmul_only=True)
    want = expected(values, made.exact(x)[0], ids)
    assert nmse(got, want[None]) < LIMIT


def random_ids(made: Operands, tokens: int, used: int, experts: int) -> NDArray[np.int64]:
    """Different experts for each token: [T, U]."""
    return np.array([made.rng.permutation(experts)[:used] for _ in range(tokens)])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("fmt", [Q4_1, Q4_K, MXFP4, F16], ids=str)
@pytest.mark.parametrize(
    ("tokens", "used", "experts", "m"),
    [(1, 1, 1, 31), (1, 4, 8, 33), (2, 2, 9, 192), (9, 2, 4, 1), (33, 3, 5, 70), (5, 1, 2, 1000)],
)
def test_tokens_with_their_experts(
    either: OpenCLBackend, fmt: Format, tokens: int, used: int, experts: int, m: int
) -> None:
    """Few pairs are made one by one, many by expert."""
    made = Operands(tokens)
    ids = random_ids(made, tokens, used, experts)
    check(either, made, fmt, (512, m, experts), ids, step=1)


@pytest.mark.parametrize("tokens", [1, 17])
def test_each_expert_has_a_row_of_its_own(either: OpenCLBackend, tokens: int) -> None:
    made = Operands()
    check(either, made, Q8_0, (64, 40, 4), random_ids(made, tokens, 4, 4), step=4)
    check(either, made, Q8_0, (64, 40, 4), random_ids(made, tokens, 4, 4), step=2)


@pytest.mark.parametrize("tokens", [2, 40])
def test_ids_of_no_expert_make_zeros(either: OpenCLBackend, tokens: int) -> None:
    made = Operands()
    ids = made.rng.integers(-1, 5, (tokens, 2))
    ids[1] = -1, 4
    check(either, made, Q6_K, (256, 33, 4), ids, step=1)


def test_all_tokens_want_one_expert(either: OpenCLBackend) -> None:
    made = Operands()
    check(either, made, Q2_K, (256, 33, 4), np.full((21, 1), 2), step=1)


def test_ids_that_are_a_part_of_others(either: OpenCLBackend) -> None:
    """As the first of all experts in order."""
    made = Operands()
    w, values = experts_of(made, Q4_1, 64, 40, 6)
    order = random_ids(made, 19, 6, 6)
    x, ids = made.make(F32, 64, 1, 19), made.put(I32, order)
    node = ops.matmul_id(w, x, ids.view(4, (2, 19), ids.strides[1:2]))
    want = expected(values, made.exact(x)[0], order[:, 1:3])
    assert nmse(run(either, node, made.values, matmul_only=True), want[None]) < LIMIT


@pytest.mark.parametrize("fmt", QUANTIZED, ids=str)
def test_every_format(backend: OpenCLBackend, fmt: Format) -> None:
    made = Operands()
    check(backend, made, fmt, (256, 40, 3), random_ids(made, 9, 2, 3), step=1)


def test_products_of_the_same_choice_share_panels_and_groups(backend: OpenCLBackend) -> None:
    made = Operands()
    weights = [experts_of(made, Q4_1, 64, 40, 4)[0] for _ in range(2)]
    x, ids = made.make(F32, 64, 1, 8), made.put(I32, random_ids(made, 8, 2, 4))
    nodes = [ops.matmul_id(w, x, ids) for w in weights]
    kinds = {w: backend.buffer_type(w.fmt, w.shape, matmul_only=True) for w in weights}
    lowered = [t.op for t in backend.lower(nodes, kinds.get)]
    assert lowered == [Op.QUANTIZE, Op.GROUP_IDS, Op.MATMUL_EXPERTS, Op.MATMUL_EXPERTS]
    assert backend.lower(nodes, lambda t: None) == tuple(nodes)


@pytest.mark.parametrize("tiled", [True, False])
@pytest.mark.parametrize("tokens", [1, 24])
def test_only_the_chosen_are_read(either: OpenCLBackend, tokens: int, tiled: bool) -> None:
    """The others hold no numbers."""
    made = Operands()
    weights = made.make(F16, 64, 40, 6, role=Role.WEIGHT)
    made.values[weights][[1, 4]] = np.nan
    chosen = np.array([0, 2, 3, 5])[random_ids(made, tokens, 2, 4)]
    node = ops.matmul_id(weights, made.make(F32, 64, 1, tokens), made.put(I32, chosen))
    assert np.isfinite(run(either, node, made.values, matmul_only=tiled)).all()


@pytest.mark.parametrize("tokens", [1, 3, 24])
@pytest.mark.parametrize("m", [40, 33])
def test_each_expert_has_a_bias(either: OpenCLBackend, tokens: int, m: int) -> None:
    """In the same launch; ids of no expert make zeros."""
    made = Operands()
    w, values = experts_of(made, MXFP4, 64, m, 4)
    x, bias = made.make(F32, 64, 1, tokens), made.make(F32, m, 4)
    chosen = random_ids(made, tokens, 2, 4)
    chosen[0, 1] = -1
    ids = made.put(I32, chosen)
    product = ops.matmul_id(w, x, ids)
    node = ops.add_id(product, bias, ids)
    kinds = {w: either.buffer_type(w.fmt, w.shape, matmul_only=True)}
    lowered = either.fuse(either.lower([product, node], kinds.get), frozenset([node.storage]))
    assert [t.op for t in lowered][-1] is Op.MATMUL_EXPERTS
    want = expected(values, made.exact(x)[0], chosen)
    added = np.where((chosen >= 0)[..., None], made.exact(bias)[0, 0][chosen], 0)
    (got,) = run_all(either, [node], made.values, matmul_only=True, fused=True)
    assert nmse(got, (want + added)[None]) < LIMIT
