"""LlavaNextForConditionalGeneration: a wide picture, a tall and a square one.

None fills its canvas but the square one, so that lines and columns of padding are taken off. No
picture needs to be resized but for its overview.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from transformers import LlavaNextConfig, LlavaNextForConditionalGeneration, PreTrainedModel
from transformers.models.llava_next.modeling_llava_next import unpad_image

from tests.goldens.vision.files.llava_next import PINPOINTS, TEXT, TOWER, VOCABULARY
from tests.goldens.vision.files.tower import CLIP_MEAN, CLIP_STD
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

SIDE, PATCHES = TOWER.side, TOWER.side // TOWER.patch
IMAGE = "<image>"


def _model() -> PreTrainedModel:
    config = LlavaNextConfig(
        text_config=TEXT.config(VOCABULARY) | {"model_type": "llama"},
        vision_config=TOWER.config()
        | {"model_type": "clip_vision_model", "hidden_act": "quick_gelu"},
        image_token_index=VOCABULARY.id(IMAGE),
        image_grid_pinpoints=[list(point) for point in PINPOINTS],
        tie_word_embeddings=False,
    )
    return eager(LlavaNextForConditionalGeneration, config)


def _canvas(height: int, width: int) -> tuple[int, int]:
    return -(-height // SIDE) * SIDE, -(-width // SIDE) * SIDE


def _views(picture: np.ndarray) -> np.ndarray:
    """The overview first; tiles of the picture in the middle of a black canvas."""
    height, width = picture.shape[:2]
    canvas = np.zeros((*_canvas(height, width), 3), np.uint8)
    y, x = (canvas.shape[0] - height) // 2, (canvas.shape[1] - width) // 2
    canvas[y : y + height, x : x + width] = picture
    return np.concatenate([overview(picture, SIDE, Image.BICUBIC), tiles(canvas, SIDE)])


def _count(picture: np.ndarray) -> int:
    """Rows of a picture: the overview's, and lines with a row behind each."""
    size = picture.shape[:2]
    height, width = (side // TOWER.patch for side in _canvas(*size))
    grid = unpad_image(torch.zeros(1, height, width), size)
    return PATCHES**2 + grid.shape[1] * (grid.shape[2] + 1)


def _expand(text: str, pictures: Sequence[np.ndarray]) -> str:
    return replaced(text, IMAGE, [IMAGE * _count(picture) for picture in pictures])


def _rows(model: Any, shown: Shown) -> Tensor:
    sizes = torch.tensor([[shown.height, shown.width]])
    return model.get_image_features(shown.pixels[None], image_sizes=sizes).pooler_output[0]


REFERENCE = Reference(
    model=_model,
    vocabulary=VOCABULARY,
    cases={
        "wide": parts((2 * SIDE, 20), words(1)),
        "two": parts((18, 2 * SIDE), words(1), (2 * SIDE, 2 * SIDE), words(1)),
    },
    placeholder=IMAGE,
    mean=CLIP_MEAN,
    std=CLIP_STD,
    views=_views,
    expand=_expand,
    rows=_rows,
    logits=merged_logits(_rows, VOCABULARY.id(IMAGE)),
    gains={"image_newline": 1.5},
    seed=2,
)
