"""JanusForConditionalGeneration, of what it needs to read pictures: one is square, one is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor, nn
from transformers import JanusConfig, JanusForConditionalGeneration, PreTrainedModel

from tests.goldens.vision.files.janus import BEGIN, END, PAD, TEXT, TOWER, VOCABULARY
from tests.goldens.vision.files.tower import HALF
from tests.goldens.vision.references.common import (
    Reference,
    Shown,
    eager,
    merged_logits,
    parts,
    replaced,
    words,
)

DRAWING = ("vqmodel", "generation_embeddings", "generation_aligner", "generation_head")
ROWS = (TOWER.side // TOWER.patch) ** 2


def _model() -> PreTrainedModel:
    vision = TOWER.config()
    ratio = vision.pop("intermediate_size") / TOWER.width
    sizes = {"mlp_ratio": ratio, "projection_dim": TEXT.embedding, "num_image_tokens": ROWS}
    config = JanusConfig(
        text_config=TEXT.config(VOCABULARY) | {"model_type": "llama"},
        vision_config=vision | sizes,
        vq_config={
            "base_channels": 32,
            "channel_multiplier": [1],
            "num_res_blocks": 1,
            "num_patches": 2,
            "num_embeddings": 8,
            "projection_dim": 8,
            "image_token_embed_dim": 8,
            "latent_channels": 32,
        },
        image_token_id=VOCABULARY.id(PAD),
        tie_word_embeddings=False,
    )
    model = eager(JanusForConditionalGeneration, config)
    for name in DRAWING:
        setattr(model.model, name, nn.Identity())
    return model


def _views(picture: np.ndarray) -> np.ndarray:
    """In the middle of a grey square."""
    height, width = picture.shape[:2]
    square = np.full((TOWER.side, TOWER.side, 3), 127, np.uint8)
    top, left = (TOWER.side - height) // 2, (TOWER.side - width) // 2
    square[top : top + height, left : left + width] = picture
    return square[None]


def _rows(model: Any, shown: Shown) -> Tensor:
    return model.model.get_image_features(shown.pixels).pooler_output[0]


def _expand(text: str, pictures: Sequence[np.ndarray]) -> str:
    return replaced(text, PAD, [BEGIN + PAD * ROWS + END] * len(pictures))


REFERENCE = Reference(
    model=_model,
    vocabulary=VOCABULARY,
    cases={"two": parts(words(1), (28, 28), words(1), (19, 28), words(1))},
    placeholder=PAD,
    mean=HALF,
    std=HALF,
    views=_views,
    expand=_expand,
    rows=_rows,
    logits=merged_logits(_rows, VOCABULARY.id(PAD)),
    seed=2,
    gains={"position": 1.0},
)
