"""Mistral3ForConditionalGeneration: pictures whose merged grid is odd, or one row high."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import Mistral3Config, Mistral3ForConditionalGeneration, PreTrainedModel

from tests.goldens.vision.files.mistral3 import MERGE, TEXT, TOWER, VOCABULARY
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

CELL = TOWER.patch * MERGE


def _model() -> PreTrainedModel:
    config = Mistral3Config(
        text_config=TEXT.config(VOCABULARY) | {"model_type": "mistral", "sliding_window": None},
        vision_config=TOWER.config() | {"model_type": "pixtral", "hidden_act": "silu"},
        image_token_index=VOCABULARY.id("[IMG]"),
        spatial_merge_size=MERGE,
        tie_word_embeddings=False,
    )
    return eager(Mistral3ForConditionalGeneration, config)


def marks(pictures: Sequence[np.ndarray], cell: int) -> list[str]:
    """A break behind each row of cells but the last, which has an end."""
    sizes = [(p.shape[0] // cell, p.shape[1] // cell) for p in pictures]
    return [("[IMG_BREAK]".join(["[IMG]" * w] * h)) + "[IMG_END]" for h, w in sizes]


def _rows(model: Any, shown: Shown) -> Tensor:
    sizes = torch.tensor([[shown.height, shown.width]])
    return model.get_image_features(shown.pixels, image_sizes=sizes).pooler_output[0]


REFERENCE = Reference(
    model=_model,
    vocabulary=VOCABULARY,
    cases={
        "odd": parts(words(2), (5 * CELL, 3 * CELL), words(1)),
        "two": parts((7 * CELL, CELL), words(1), (3 * CELL, 7 * CELL), words(1)),
    },
    placeholder="[IMG]",
    mean=CLIP_MEAN,
    std=CLIP_STD,
    views=lambda picture: picture[None],
    expand=lambda text, pictures: replaced(text, "[IMG]", marks(pictures, CELL)),
    rows=_rows,
    logits=merged_logits(_rows, VOCABULARY.id("[IMG]")),
)
