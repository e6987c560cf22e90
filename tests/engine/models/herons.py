"""Heron (architectures/heron.py) as tiny random files, and what it computes, in float64."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import gguf
import numpy as np

from engine.models import text
from engine.runner.batch import MAX_BATCH
from tests.goldens.tiny import Draws, E, V, byte_level_vocabulary, write_tiny

LAYERS, H, K, D, F, EPS, BASE, RATE = 4, 4, 2, 16, 96, 1e-5, 1e4, 0.97
FOLDER = Path(__file__).parent / "architectures"
CHAT = (
    "{% for m in messages %}{{ '<' + m.role + '>' + m.content + '|' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}"
)


def is_leaky(i: int) -> bool:
    return i % 3 != 1


def tensors() -> dict[str, np.ndarray]:
    """In the order and orientation of the file."""
    draws = Draws(11)
    made = {
        "token_embd.weight": draws.matrix(V, E, gain=4),
        "output.weight": draws.matrix(V, E, gain=3),
        "output_norm.weight": draws.norm(E),
    }
    distance = np.arange(MAX_BATCH)[:, None] - np.arange(MAX_BATCH)
    for i in range(LAYERS):
        made[f"blk.{i}.attn_norm.weight"] = draws.norm(E)
        if is_leaky(i):
            for name in ("leak_v", "leak_out"):
                made[f"blk.{i}.{name}.weight"] = draws.matrix(E, E)
            within = np.where(distance >= 0, RATE ** np.maximum(distance, 0), 0)
            made[f"blk.{i}.leak_within.weight"] = within.astype(np.float32)
            made[f"blk.{i}.leak_before.weight"] = (RATE ** np.arange(1, MAX_BATCH + 1))[
                :, None
            ].astype(np.float32)
        else:
            for name, rows, columns in (
                *(("attn_q", H * D, E), ("attn_k", K * D, E), ("attn_v", K * D, E)),
                ("attn_output", E, H * D),
            ):
                made[f"blk.{i}.{name}.weight"] = draws.matrix(rows, columns, gain=1.3)
        made[f"blk.{i}.ffn_norm.weight"] = draws.norm(E)
        for name, rows, columns in (("gate", F, E), ("up", F, E), ("down", E, F)):
            made[f"blk.{i}.ffn_{name}.weight"] = draws.matrix(rows, columns)
    return made


def write_heron(path: Path, n_ctx_train: int = 512) -> Path:
    """A file of it."""

    def write(writer: gguf.GGUFWriter) -> None:
        writer.add_context_length(n_ctx_train)
        writer.add_embedding_length(E)
        writer.add_block_count(LAYERS)
        writer.add_head_count(H)
        writer.add_head_count_kv(K)
        writer.add_layer_norm_rms_eps(EPS)
        byte_level_vocabulary(writer)
        for name, values in tensors().items():
            writer.add_tensor(name, values)

    chat = {"tokenizer.chat_template": (CHAT, gguf.GGUFValueType.STRING)}
    return write_tiny(path, "heron", write=write, metadata=chat)


@contextmanager
def known() -> Iterator[None]:
    """The engine knows the test's architectures."""
    before = list(text.__path__)
    text.__path__ = [*before, str(FOLDER)]
    try:
        yield
    finally:
        text.__path__ = before
        sys.modules.pop(f"{text.__name__}.heron", None)
        text.__dict__.pop("heron", None)


def by_definition(tokens: np.ndarray) -> np.ndarray:
    """Logits [T, V]."""
    w = {name.removesuffix(".weight"): t.astype(np.float64) for name, t in tensors().items()}
    x, n = w["token_embd"][tokens], len(tokens)
    for i in range(LAYERS):
        block = {k.removeprefix(f"blk.{i}."): t for k, t in w.items() if k.startswith(f"blk.{i}.")}
        h = _normed(x, block["attn_norm"])
        x = x + (_leaked if is_leaky(i) else _attended)(h, block, n)
        h = _normed(x, block["ffn_norm"])
        gate = h @ block["ffn_gate"].T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ block["ffn_up"].T)) @ block["ffn_down"].T
    return _normed(x, w["output_norm"]) @ w["output"].T


def _leaked(h: np.ndarray, block: dict[str, np.ndarray], n: int) -> np.ndarray:
    v, y = h @ block["leak_v"].T, np.zeros((n, E))
    state = np.zeros(E)
    for t in range(n):
        state = RATE * state + v[t]
        y[t] = state
    return y @ block["leak_out"].T


def _attended(h: np.ndarray, block: dict[str, np.ndarray], n: int) -> np.ndarray:
    q = _turned((h @ block["attn_q"].T).reshape(n, H, D))
    k = _turned((h @ block["attn_k"].T).reshape(n, K, D)).repeat(H // K, 1)
    v = (h @ block["attn_v"].T).reshape(n, K, D).repeat(H // K, 1)
    scores = np.einsum("thd,shd->hts", q, k) / np.sqrt(D)
    scores = np.where(np.tri(n, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return np.einsum("hts,shd->thd", weights, v).reshape(n, H * D) @ block["attn_output"].T


def _normed(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + EPS) * weight


def _turned(x: np.ndarray) -> np.ndarray:
    angle = np.arange(len(x))[:, None] * BASE ** (-2 * np.arange(D // 2) / D)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    a, b = x[..., : D // 2], x[..., D // 2 :]
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], -1)
