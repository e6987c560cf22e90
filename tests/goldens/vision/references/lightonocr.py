"""LightOnOcrForConditionalGeneration: pictures whose merged grid is odd, or one row high."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import LightOnOcrConfig, LightOnOcrForConditionalGeneration, PreTrainedModel

from tests.goldens.vision.files.lightonocr import TEXT, TOWER, VOCABULARY
from tests.goldens.vision.files.mistral3 import MERGE
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

CELL, PAD = TOWER.patch * MERGE, "<|image_pad|>"


def _model() -> PreTrainedModel:
    config = LightOnOcrConfig(
        text_config=TEXT.config(VOCABULARY) | {"model_type": "qwen3"},
        vision_config=TOWER.config() | {"model_type": "pixtral", "hidden_act": "silu"},
        image_token_id=VOCABULARY.id(PAD),
        spatial_merge_size=MERGE,
        tie_word_embeddings=False,
    )
    return eager(LightOnOcrForConditionalGeneration, config)


def _rows(model: Any, shown: Shown) -> Tensor:
    sizes = torch.tensor([[shown.height, shown.width]])
    return model.get_image_features(shown.pixels, image_sizes=sizes).pooler_output[0]


REFERENCE = Reference(
    model=_model,
    vocabulary=VOCABULARY,
    cases={"two": parts((7 * CELL, CELL), words(1), (3 * CELL, 5 * CELL), words(1))},
    placeholder=PAD,
    mean=CLIP_MEAN,
    std=CLIP_STD,
    views=lambda picture: picture[None],
    expand=lambda text, pictures: replaced(
        text, PAD, [PAD * (p.size // 3 // CELL**2) for p in pictures]
    ),
    rows=_rows,
    logits=merged_logits(_rows, VOCABULARY.id(PAD)),
    seed=1,
    gains={"[qk]_norm": 1.8},
)
