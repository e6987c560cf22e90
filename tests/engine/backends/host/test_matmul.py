"""Matrix products against einsum in float64 over the package's own dequantised weights."""

import gguf
import numpy as np
import pytest

from engine.backends.host.backend import HostBackend
from engine.backends.host.operations import matmul
from engine.gguf.formats import BF16, F16, F32, Format, by_name
from engine.graph import ops
from engine.graph.tensor import Role, leaf
from tests.kernels.harness import nmse, run

BLOCKS = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"]


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """out[m, n] = sum_k a[k, m] b[k, n], batches of a repeated for groups of b, all reversed."""
    a = np.repeat(np.repeat(a, b.shape[0] // a.shape[0], 0), b.shape[1] // a.shape[1], 1)
    return np.einsum("zymk,zynk->zynm", a.astype(np.float64), b.astype(np.float64))


def random_blocks(fmt: Format, rows: int, columns: int) -> np.ndarray:
    """Blocks with any bits but for the scales, which are ordinary halves."""
    rng = np.random.default_rng(4)
    kind = gguf.GGMLQuantizationType[fmt.name]
    try:
        return gguf.quantize(rng.standard_normal((rows, columns)).astype(np.float32), kind)
    except NotImplementedError:
        blocks = rng.integers(0, 256, (rows * columns // fmt.block, fmt.bytes), np.uint8)
        halves = rng.uniform(0.001, 0.01, (len(blocks), 2)).astype(np.float16).view(np.uint8)
        if fmt.name == "Q6_K":
            blocks[:, -2:] = halves[:, :2]
        else:
            blocks[:, :4] = halves
        return blocks.reshape(rows, -1)


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize(("k", "m", "n"), [(256, 1, 1), (512, 33, 3)])
def test_block_formats(host: HostBackend, name: str, k: int, m: int, n: int) -> None:
    fmt = by_name(name)
    a, b = leaf("a", fmt, (k, m), Role.WEIGHT), leaf("b", F32, (k, n), Role.INPUT)
    blocks = random_blocks(fmt, m, k)
    weights = gguf.dequantize(blocks, gguf.GGMLQuantizationType[name])
    x = np.random.default_rng(5).standard_normal((1, 1, n, k)).astype(np.float32)
    got = run(host, ops.matmul(a, b), {a: blocks, b: x})
    assert nmse(got, product(weights[None, None], x)) < 1e-12


@pytest.mark.parametrize(
    ("a_shape", "b_shape"),
    [
        ((1, 1), (1, 1)),
        ((7, 3), (7, 5)),
        ((7, 3, 2), (7, 5, 6)),
        ((5, 4, 2, 3), (5, 1, 4, 6)),
    ],
    ids=str,
)
@pytest.mark.parametrize("fmt", [F32, F16, BF16], ids=str)
def test_batches_are_grouped(
    host: HostBackend, fmt: Format, a_shape: tuple[int, ...], b_shape: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(6)
    a, b = leaf("a", fmt, a_shape, Role.CACHE), leaf("b", F32, b_shape, Role.INPUT)
    w = rng.integers(-8, 9, a.shape[::-1]).astype(np.float32)  # exact in every type
    stored = (w.view(np.uint32) >> 16).astype(np.uint16) if fmt == BF16 else w.astype(fmt.dtype)
    x = rng.standard_normal(b.shape[::-1]).astype(np.float32)
    got = run(host, ops.matmul(a, b), {a: stored.view(np.uint8), b: x})
    assert nmse(got, product(w, x)) < 1e-12


def test_operands_may_be_permuted_views(host: HostBackend) -> None:
    """The scores of unfused attention: k [D, K, C] and q [D, H, T] with heads moved to dim 2."""
    rng = np.random.default_rng(7)
    k, q = leaf("k", F16, (8, 2, 9), Role.CACHE), leaf("q", F32, (8, 6, 5), Role.INPUT)
    x, y = (rng.standard_normal(t.shape[::-1]).astype(t.fmt.dtype) for t in (k, q))
    first_cells = k.view(0, (8, 2, 7), (16, 32)).permute(0, 2, 1)
    got = run(host, ops.matmul(first_cells, q.permute(0, 2, 1)), {k: x, q: y})
    want = product(x[:, :7].transpose(0, 2, 1, 3), y.transpose(0, 2, 1, 3))
    assert nmse(got, want) < 1e-12


def test_weights_are_taken_in_panels(host: HostBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matmul, "_PANEL_BYTES", 3 * 4 * 64)  # three rows, the last panel shorter
    rng = np.random.default_rng(8)
    a, b = leaf("a", F32, (64, 7), Role.WEIGHT), leaf("b", F32, (64, 2), Role.INPUT)
    w, x = (rng.standard_normal(t.shape[::-1]).astype(np.float32) for t in (a, b))
    assert nmse(run(host, ops.matmul(a, b), {a: w, b: x}), product(w, x)) < 1e-12
