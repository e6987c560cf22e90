"""Lfm2VlForConditionalGeneration: a picture of one view, and one of four squares and the whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from transformers import Lfm2VlConfig, Lfm2VlForConditionalGeneration, PreTrainedModel

from tests.goldens.vision.files.lfm2 import (
    CELL,
    HIDDEN,
    KINDS,
    MERGE,
    SIDE,
    TAPS,
    TEXT,
    TOWER,
    VOCABULARY,
)
from tests.goldens.vision.files.tower import HALF
from tests.goldens.vision.references.common import (
    Reference,
    Shown,
    eager,
    merged_logits,
    overview,
    parts,
    replaced,
    tiles,
    words,
)

IMAGE = "<image>"
EDGE = 4 * CELL
ONE, MANY = (7 * CELL, 2 * CELL), (2 * EDGE, 2 * EDGE)
"""Sizes of pictures: one that stays as it is, and one of two by two squares."""


def _model() -> PreTrainedModel:
    text = TEXT.config(VOCABULARY) | {
        "norm_eps": TEXT.eps,
        "layer_types": list(KINDS),
        "conv_L_cache": TAPS,
        "block_auto_adjust_ff_dim": False,
    }
    text = {key: value for key, value in text.items() if key not in ("head_dim", "rms_norm_eps")}
    vision = TOWER.config() | {"num_patches": SIDE**2, "vision_use_head": False}
    config = Lfm2VlConfig(
        text_config=text | {"model_type": "lfm2"},
        vision_config=vision | {"model_type": "siglip2_vision_model"},
        image_token_id=VOCABULARY.id(IMAGE),
        projector_hidden_size=HIDDEN,
        downsample_factor=MERGE,
        tie_word_embeddings=False,
    )
    return eager(Lfm2VlForConditionalGeneration, config)


def _views(picture: np.ndarray) -> np.ndarray:
    height, width = picture.shape[:2]
    if (width, height) != MANY:
        return picture[None]
    whole = overview(picture, EDGE, Image.Resampling.BILINEAR)
    return np.concatenate([tiles(picture, EDGE), whole])


def _rows(model: Any, shown: Shown) -> Tensor:
    n_views, channels, height, width = shown.pixels.shape
    size = TOWER.patch
    rows, columns = height // size, width // size
    cut = shown.pixels.reshape(n_views, channels, rows, size, columns, size)
    patches = cut.permute(0, 2, 4, 3, 5, 1).reshape(n_views, rows * columns, -1)
    shapes = torch.tensor([[rows, columns]] * n_views)
    mask = torch.ones(n_views, rows * columns, dtype=torch.int32)
    return torch.cat(list(model.get_image_features(patches, shapes, mask).pooler_output))


def _expand(text: str, pictures: Sequence[np.ndarray]) -> str:
    return replaced(text, IMAGE, [_mark(picture) for picture in pictures])


def _mark(picture: np.ndarray) -> str:
    if picture.shape[:2] != MANY:
        return f"<|image_start|>{IMAGE * (picture.size // 3 // CELL**2)}<|image_end|>"
    square = IMAGE * (EDGE // CELL) ** 2
    named = [f"<|img_row_{row}_col_{col}|>{square}" for row in (1, 2) for col in (1, 2)]
    return f"<|image_start|>{''.join(named)}<|img_thumbnail|>{square}<|image_end|>"


REFERENCE = Reference(
    model=_model,
    vocabulary=VOCABULARY,
    cases={
        "one": parts(words(1), ONE, words(2)),
        "many": parts(words(1), MANY, "and " + words(1), ONE, words(1)),
    },
    placeholder=IMAGE,
    mean=HALF,
    std=HALF,
    views=_views,
    expand=_expand,
    rows=_rows,
    logits=merged_logits(_rows, VOCABULARY.id(IMAGE)),
    gains={"[qk]_layernorm": 1.8, "position": 1.0},
    seed=2,
)
