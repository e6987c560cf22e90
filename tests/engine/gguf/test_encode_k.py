"""Our encoder of K-quants, read by the gguf package, against the best that a format can hold."""

import gguf
import numpy as np
import pytest

from engine.gguf.encode_k import encode_k
from engine.gguf.formats import by_name

K_QUANTS = ["Q4_K", "Q5_K", "Q6_K"]


def weights(kind: str) -> np.ndarray:
    rng = np.random.default_rng(5)
    made = rng.standard_normal((8, 512)).astype(np.float32) * np.float32(0.02)
    if kind == "shifted":
        made += np.float32(0.03)
    elif kind == "outliers":
        made[:, ::97] *= 12
    elif kind == "sparse":
        made[rng.random(made.shape) < 0.7] = 0
    return made


def decoded(values: np.ndarray, name: str = "Q4_K") -> np.ndarray:
    blocks = encode_k(values, by_name(name))
    return np.asarray(gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[name]))


def nmse(values: np.ndarray, other: np.ndarray) -> float:
    off = np.square((other - values).astype(np.float64)).sum()
    return float(off / np.square(values.astype(np.float64)).sum())


def best(values: np.ndarray) -> float:
    """NMSE with the best of 60 x 60 scales and minima for each 32 weights, not of 6 bits."""
    off = 0.0
    for part in values.astype(np.float64).reshape(-1, 32):
        low, high = min(part.min(), 0.0), part.max()
        least = np.inf
        for bottom in np.linspace(0.6, 1.05, 60) * low if low < 0 else [0.0]:
            for step in np.linspace(0.6, 1.05, 60) * (high - low) / 15:
                codes = np.clip(np.rint((part - bottom) / max(step, 1e-30)), 0, 15)
                least = min(least, float(np.square(codes * step + bottom - part).sum()))
        off += least
    return off / float(np.square(values.astype(np.float64)).sum())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["normal", "shifted", "outliers", "sparse"])
def test_the_error_is_near_the_least(kind: str) -> None:
    """Within 30 % of it, which spends scales of full precision and weighs all numbers alike, and
    below that of Q4_0, which has as many bits.
    """
    values = weights(kind)
    found = nmse(values, decoded(values))
    some = values[:1]
    assert nmse(some, decoded(some)) < 1.3 * best(some)
    other = gguf.GGMLQuantizationType.Q4_0
    plain = gguf.quants.dequantize(gguf.quants.quantize(values, other), other)
    assert found < nmse(values, plain)


def test_what_the_format_holds_is_kept() -> None:
    """All codes, scales and minima of 6 bits are packed where the package reads them."""
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 16, (4, 8, 32))
    codes[..., 0], codes[..., 1] = 0, 15  # so that the range is known
    scales, minima = rng.integers(1, 64, (2, 4, 8))
    scales[:, 3], minima[:, 5] = 63, 63
    values = (scales[..., None] * codes * 2.0**-6 - minima[..., None] * 2.0**-4).astype(np.float32)
    np.testing.assert_allclose(
        decoded(values.reshape(4, 256)).reshape(values.shape), values, atol=2e-2
    )


@pytest.mark.parametrize("name", K_QUANTS)
def test_zeros_and_constants(name: str) -> None:
    values = np.zeros((1, 256), np.float32)
    np.testing.assert_array_equal(decoded(values, name), values)
    values[:] = -0.5
    np.testing.assert_allclose(decoded(values, name), values, rtol=2e-2)
    values[:] = 0.5
    np.testing.assert_allclose(decoded(values, name), values, rtol=2e-2)
