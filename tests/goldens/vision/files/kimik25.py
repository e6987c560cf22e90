"""Kimi K2.5: Kimi-VL's tower, its pairs sorted by axis, and queries, keys and values joined."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.goldens.vision.files import kimivl
from tests.goldens.vision.files.kimivl import MERGE, SQUARE, TEXT, TOWER
from tests.goldens.vision.files.tower import HALF
from tests.goldens.vision.layout import File, State

__all__ = ["TEXT", "mmproj", "text"]

START, BEGIN = "<|media_start|>", "<|media_begin|>"
MOST = 140**2
VOCABULARY = replace(
    kimivl.VOCABULARY,
    special=tuple(token.replace(START, BEGIN) for token in kimivl.VOCABULARY.special),
    template=kimivl.TEMPLATE.replace(START, BEGIN),
)


def text(state: State) -> File:
    """Kimi-VL's language model, with names of its own for tokens."""
    words = kimivl.text(state)
    return File(words.architecture, dict(words.metadata) | VOCABULARY.metadata(), words.tensors)


def mmproj(state: State) -> File:
    """llama.cpp's file of the tower."""
    tensors = dict(kimivl.mmproj(state).tensors)
    for i in range(TOWER.blocks):
        for part in ("weight", "bias"):
            q, k, v = (tensors.pop(f"v.blk.{i}.attn_{letter}.{part}") for letter in "qkv")
            tensors[f"v.blk.{i}.attn_qkv.{part}"] = np.concatenate([_sorted(q), _sorted(k), v])
    square = (SQUARE, SQUARE, TOWER.width)
    tensors["v.position_embd.weight"] = tensors["v.position_embd.weight"].reshape(square)
    sizes = {"projector__scale_factor": MERGE, "image_min_pixels": 1, "image_max_pixels": MOST}
    keys = TOWER.mmproj("kimik25", TEXT.embedding, HALF, HALF, **sizes)
    return File("clip", {"clip.use_gelu": True} | keys, tensors)


def _sorted(rows: np.ndarray) -> np.ndarray:
    """Pairs of neighbours by column and row in alternation -> all by column, then all by row."""
    pairs = rows.reshape(TOWER.heads, rows.shape[0] // TOWER.heads // 4, 2, 2, -1)
    return pairs.swapaxes(1, 2).reshape(rows.shape)
