"""Parts of vision towers by their definitions, in NumPy float64: rows are vectors here, [T, E]."""

from math import erf

import numpy as np

Weights = dict[str, np.ndarray]


def convolved(view: np.ndarray, kernel: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    """Patches of a view [h, w, 3] under a kernel [E, 3, P, P], one by one: [T, E]."""
    size = kernel.shape[-1]
    made = [
        np.einsum("hwc,echw->e", view[y : y + size, x : x + size], kernel)
        for y in range(0, view.shape[0] - size + 1, size)
        for x in range(0, view.shape[1] - size + 1, size)
    ]
    return np.stack(made) + (0 if bias is None else bias)


def layer_norm(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps) * weight + bias


def rms_norm(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * weight


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def gelu_erf(x: np.ndarray) -> np.ndarray:
    return x / 2 * (1 + np.vectorize(erf)(x / np.sqrt(2)))


def gelu_quick(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-1.702 * x))


def silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


def attention(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, seen: np.ndarray | None = None
) -> np.ndarray:
    """q, k, v [T, H, D] -> [T, H * D]; `seen` [T, T] is who sees whom."""
    scores = np.einsum("thd,shd->hts", q, k) / np.sqrt(q.shape[-1])
    if seen is not None:
        scores = np.where(seen, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return np.einsum("hts,shd->thd", weights, v).reshape(len(q), -1)


def linear(x: np.ndarray, w: Weights, name: str) -> np.ndarray:
    """x [T, in] by `name`.weight [out, in], plus `name`.bias where there is one."""
    return x @ w[f"{name}.weight"].T + w.get(f"{name}.bias", 0)
