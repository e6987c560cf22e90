"""LlavaForConditionalGeneration with Pixtral's tower: two pictures of different size."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import LlavaConfig, LlavaForConditionalGeneration, PreTrainedModel

from tests.goldens.vision.files.pixtral import TEXT, TOWER, VOCABULARY
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
from tests.goldens.vision.references.mistral3 import marks


def _model() -> PreTrainedModel:
    config = LlavaConfig(
        text_config=TEXT.config(VOCABULARY) | {"model_type": "mistral", "sliding_window": None},
        vision_config=TOWER.config() | {"model_type": "pixtral", "hidden_act": "silu"},
        image_token_index=VOCABULARY.id("[IMG]"),
        vision_feature_layer=-1,
        vision_feature_select_strategy="full",
        tie_word_embeddings=False,
    )
    return eager(LlavaForConditionalGeneration, config)


def _rows(model: Any, shown: Shown) -> Tensor:
    sizes = torch.tensor([[shown.height, shown.width]])
    return model.get_image_features(shown.pixels, image_sizes=sizes).pooler_output[0]


REFERENCE = Reference(
    model=_model,
    vocabulary=VOCABULARY,
    cases={"two": parts(words(1), (49, 35), words(1), (14, 56), words(1))},
    placeholder="[IMG]",
    mean=CLIP_MEAN,
    std=CLIP_STD,
    views=lambda picture: picture[None],
    expand=lambda text, pictures: replaced(text, "[IMG]", marks(pictures, TOWER.patch)),
    rows=_rows,
    logits=merged_logits(_rows, VOCABULARY.id("[IMG]")),
)
