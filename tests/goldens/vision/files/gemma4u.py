"""Gemma 4 12B: no tower, squares of pixels become rows by norms and two matrices."""

from __future__ import annotations

import numpy as np

from tests.goldens.vision.files import gemma4
from tests.goldens.vision.layout import File, State, renamed

TEXT, VOCABULARY, text = gemma4.TEXT, gemma4.VOCABULARY, gemma4.text
PATCH, POOL, PLACES, ROWS, EPS = 4, 3, 32, 20, 1e-6
CELL = PATCH * POOL
"""Pixels along a side of a square."""

EYES = r"model\.embed_vision"
MMPROJ = (
    (rf"{EYES}\.patch_ln([12])\.(\w+)", r"v.patch_norm.\1.\2"),
    (rf"{EYES}\.pos_norm\.(\w+)", r"v.patch_norm.3.\1"),
    (rf"{EYES}\.patch_dense\.(\w+)", r"v.patch_embd.\1"),
    (rf"{EYES}\.pos_embedding", r"v.position_embd.weight"),
    (rf"{EYES}\..*\.embedding_projection\.weight", r"mm.input_projection.weight"),
)


def by_channel(values: np.ndarray) -> np.ndarray:
    """Numbers of a square's pixels [..., rows, columns, 3] in the order of channels first."""
    squares = values.reshape(*values.shape[:-1], CELL, CELL, 3)
    return np.moveaxis(squares, -1, -3).reshape(values.shape)


def mmproj(state: State) -> File:
    """llama.cpp's file of the projector."""
    tensors = dict(renamed(state, MMPROJ))
    for name in ("v.patch_norm.1.weight", "v.patch_norm.1.bias", "v.patch_embd.weight"):
        tensors[name] = by_channel(tensors[name])
    tensors["v.position_embd.weight"] = tensors["v.position_embd.weight"].transpose(1, 0, 2)
    keys = {
        "projector_type": "gemma4uv",
        "image_size": 224,
        "patch_size": PATCH,
        "embedding_length": TEXT.embedding,
        "feed_forward_length": 0,
        "block_count": 0,
        "projection_dim": TEXT.embedding,
        "attention.head_count": 0,
        "attention.layer_norm_epsilon": EPS,
        "image_mean": [0.0] * 3,
        "image_std": [1.0] * 3,
        "projector.scale_factor": POOL,
        "image_max_pixels": ROWS * CELL**2,
    }
    vision = {f"clip.vision.{key}": value for key, value in keys.items()}
    return File(
        "clip", {"general.type": "mmproj", "clip.has_vision_encoder": True} | vision, tensors
    )
