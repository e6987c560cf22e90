"""MiniCPMV4_6ForConditionalGeneration: pictures that stay whole, and one that is cut two by two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from transformers import (
    MiniCPMV4_6Config,
    MiniCPMV4_6ForConditionalGeneration,
    PreTrainedModel,
)

from tests.goldens.vision.files.minicpmv46 import SQUARE, TOWER, VOCABULARY, WINDOWED
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
from tests.goldens.vision.references.qwen35 import text_config

PAD, CELL = "<|image_pad|>", TOWER.patch * 4
LONG, MANY = (84, 28), (112, 112)


def _model() -> PreTrainedModel:
    config = MiniCPMV4_6Config(
        text_config=text_config(VOCABULARY) | {"model_type": "qwen3_5_text"},
        vision_config={**TOWER.config(), "image_size": SQUARE * TOWER.patch},
        insert_layer_id=WINDOWED,
        image_token_id=VOCABULARY.id(PAD),
        tie_word_embeddings=False,
    )
    return eager(MiniCPMV4_6ForConditionalGeneration, config)


def _rows(model: Any, shown: Shown) -> Tensor:
    count, channels, height, width = shown.pixels.shape
    patch = TOWER.patch
    rows, columns = height // patch, width // patch
    cut = shown.pixels.reshape(count, channels, rows, patch, columns, patch)
    lined = cut.permute(1, 3, 0, 2, 4, 5).reshape(1, channels, patch, -1)
    sizes = torch.tensor([[rows, columns]] * count)
    return torch.cat(list(model.model.get_image_features(lined, sizes).pooler_output))


def _views(picture: np.ndarray) -> np.ndarray:
    height, width = picture.shape[:2]
    if (width, height) != MANY:
        return picture[None]
    half = Image.fromarray(picture).resize((width // 2, height // 2), Image.Resampling.BICUBIC)
    slices = picture.reshape(2, height // 2, 2, width // 2, 3).swapaxes(1, 2)
    whole = np.asarray(half)[None]
    return np.concatenate([whole, slices.reshape(4, height // 2, width // 2, 3)])


def _expand(text: str, pictures: Sequence[np.ndarray]) -> str:
    marks = []
    for i, picture in enumerate(pictures):
        height, width = _views(picture).shape[1:3]
        rows = PAD * (height * width // CELL**2)
        mark = f"<image_id>{i}</image_id><image>{rows}</image>"
        if picture.shape[1::-1] == MANY:
            line = f"<slice>{rows}</slice>" * 2
            mark += f"{line}\n{line}"
        marks.append(mark)
    return replaced(text, PAD, marks)


REFERENCE = Reference(
    model=_model,
    vocabulary=VOCABULARY,
    cases={"two": parts(words(1), MANY, "and " + words(1), LONG, words(1))},
    placeholder=PAD,
    mean=HALF,
    std=HALF,
    views=_views,
    expand=_expand,
    rows=_rows,
    logits=merged_logits(_rows, VOCABULARY.id(PAD)),
    seed=1,
    gains={
        "[qk]_norm": 0.8,
        r"language_model.*layernorm|language_model\.norm": 0.0,
        "position": 1.0,
    },
)
