"""LlavaForConditionalGeneration of LLaVA 1.5.

The view is the picture in the middle of a square of the mean colour, as the original made it; the
processor of transformers crops instead. Two pictures stand in one prompt.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import LlavaConfig, LlavaForConditionalGeneration, PreTrainedModel

from tests.goldens.vision.files.llava import TEXT, TOWER, VOCABULARY
from tests.goldens.vision.files.tower import CLIP_MEAN, CLIP_STD
from tests.goldens.vision.references.common import (
    Reference,
    Shown,
    eager,
    merged_logits,
    parts,
    replaced,
    words,
)

SIDE, ROWS = TOWER.side, (TOWER.side // TOWER.patch) ** 2
MEAN_COLOUR = (122, 116, 104)


def _model() -> PreTrainedModel:
    config = LlavaConfig(
        text_config=TEXT.config(VOCABULARY) | {"model_type": "llama"},
        vision_config=TOWER.config()
        | {"model_type": "clip_vision_model", "hidden_act": "quick_gelu"},
        image_token_index=len(VOCABULARY),
        tie_word_embeddings=False,
    )
    return eager(LlavaForConditionalGeneration, config)


def _views(picture: np.ndarray) -> np.ndarray:
    height, width = picture.shape[:2]
    square = np.full((SIDE, SIDE, 3), MEAN_COLOUR, np.uint8)
    y, x = (SIDE - height) // 2, (SIDE - width) // 2
    square[y : y + height, x : x + width] = picture
    return square[None]


def _rows(model: Any, shown: Shown) -> Tensor:
    return torch.cat(list(model.get_image_features(shown.pixels).pooler_output))


REFERENCE = Reference(
    model=_model,
    vocabulary=VOCABULARY,
    cases={
        "square": parts((SIDE, SIDE), words(3)),
        "two": parts((SIDE, 20), words(1), (16, SIDE), words(1)),
    },
    placeholder="<image>",
    mean=CLIP_MEAN,
    std=CLIP_STD,
    views=_views,
    expand=lambda text, pictures: replaced(text, "<image>", ["<image>" * ROWS] * len(pictures)),
    rows=_rows,
    logits=merged_logits(_rows, len(VOCABULARY)),
)
