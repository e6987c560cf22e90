"""Idefics3ForConditionalGeneration, which SmolVLM is too.

Pictures of the canvas' size, so that only the overview is resized (with Pillow); a picture that is
to be one view is enlarged before. No view is all zeros: transformers would take it for padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from transformers import Idefics3Config, Idefics3ForConditionalGeneration, PreTrainedModel

from tests.goldens.vision.files.idefics3 import LONGEST, ROWS, SCALE, TEXT, TOWER, VOCABULARY
from tests.goldens.vision.files.tower import HALF
from tests.goldens.vision.references.common import (
    Reference,
    Shown,
    eager,
    overview,
    parts,
    replaced,
    tiles,
    words,
)

SIDE = TOWER.side
FAKE = "<fake_token_around_image>"
WHOLE = f"{FAKE}<global-img>{'<image>' * ROWS}{FAKE}"


def _model() -> PreTrainedModel:
    config = Idefics3Config(
        text_config=TEXT.config(VOCABULARY) | {"model_type": "llama"},
        vision_config=TOWER.config(),
        scale_factor=SCALE,
        image_token_id=VOCABULARY.id("<image>"),
        pad_token_id=0,
        tie_word_embeddings=False,
    )
    return eager(Idefics3ForConditionalGeneration, config)


def _views(picture: np.ndarray) -> np.ndarray:
    if picture.shape == (SIDE, SIDE, 3):
        return overview(overview(picture, LONGEST, Image.LANCZOS)[0], SIDE, Image.LANCZOS)
    return np.concatenate([tiles(picture, SIDE), overview(picture, SIDE, Image.LANCZOS)])


def _expand(text: str, pictures: Sequence[np.ndarray]) -> str:
    return replaced(text, "<image>", [_marks(*picture.shape[:2]) for picture in pictures])


def _marks(height: int, width: int) -> str:
    if height == width == SIDE:
        return WHOLE
    marks = ""
    for row in range(1, height // SIDE + 1):
        for column in range(1, width // SIDE + 1):
            marks += f"{FAKE}<row_{row}_col_{column}>{'<image>' * ROWS}"
        marks += "\n"
    return f"{marks}\n{WHOLE}"


def _rows(model: Any, shown: Shown) -> Tensor:
    return torch.cat(list(model.get_image_features(shown.pixels[None]).pooler_output))


def _logits(model: Any, ids: Tensor, shown: Sequence[Shown]) -> Tensor:
    pixels = torch.cat([picture.pixels for picture in shown])
    return model(ids, pixel_values=pixels[None]).logits[0]


REFERENCE = Reference(
    model=_model,
    vocabulary=VOCABULARY,
    cases={
        "single": parts((SIDE, SIDE), words(2)),
        "wide": parts(words(1), (4 * SIDE, 2 * SIDE), words(2)),
        "two": parts((SIDE, 4 * SIDE), words(1), (4 * SIDE, 3 * SIDE), words(1)),
    },
    placeholder="<image>",
    mean=HALF,
    std=HALF,
    views=_views,
    expand=_expand,
    rows=_rows,
    logits=_logits,
)
