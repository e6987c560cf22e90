"""InternVLForConditionalGeneration: one tile, two beside one another, three rows of three."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor
from transformers import InternVLConfig, InternVLForConditionalGeneration, PreTrainedModel

from tests.goldens.vision.files.internvl import MEAN, ROWS, SCALE, STD, TEXT, TOWER, VOCABULARY
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

SIDE = TOWER.side
CONTEXT = "<IMG_CONTEXT>"


def _model() -> PreTrainedModel:
    vision = TOWER.config() | {
        "image_size": [SIDE, SIDE],
        "patch_size": [TOWER.patch, TOWER.patch],
        "use_qk_norm": True,
        "attention_bias": True,
    }
    config = InternVLConfig(
        text_config=TEXT.config(VOCABULARY) | {"model_type": "qwen2"},
        vision_config=vision,
        image_token_id=VOCABULARY.id(CONTEXT),
        downsample_ratio=1 / SCALE,
        tie_word_embeddings=False,
    )
    return eager(InternVLForConditionalGeneration, config)


def _views(picture: np.ndarray) -> np.ndarray:
    cut = tiles(picture, SIDE)
    if len(cut) == 1:
        return cut
    return np.concatenate([cut, overview(picture, SIDE, Image.BICUBIC)])


def _expand(text: str, pictures: Sequence[np.ndarray]) -> str:
    counts = [len(_views(picture)) * ROWS for picture in pictures]
    return replaced(text, CONTEXT, [f"<img>{CONTEXT * count}</img>" for count in counts])


def _rows(model: Any, shown: Shown) -> Tensor:
    return model.get_image_features(shown.pixels).pooler_output.flatten(0, 1)


REFERENCE = Reference(
    model=_model,
    vocabulary=VOCABULARY,
    cases={
        "single": parts((SIDE, SIDE), words(2)),
        "two": parts((2 * SIDE, SIDE), words(1), (3 * SIDE, 3 * SIDE), words(1)),
    },
    placeholder=CONTEXT,
    mean=MEAN,
    std=STD,
    views=_views,
    expand=_expand,
    rows=_rows,
    logits=merged_logits(_rows, VOCABULARY.id(CONTEXT)),
)
