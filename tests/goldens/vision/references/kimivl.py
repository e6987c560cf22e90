"""Kimi_K25ForConditionalGeneration, whose tower is Kimi-VL's for a picture: one of whole cells, one
that is padded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import Kimi_K25Config, Kimi_K25ForConditionalGeneration, PreTrainedModel

from tests.goldens.vision.files.kimivl import (
    MERGE,
    PLAIN,
    RANK,
    SQUARE,
    TEXT,
    TOWER,
    TURNED,
    VALUES,
    VOCABULARY,
)
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

PAD = "<|media_pad|>"
CELL = TOWER.patch * MERGE


def _model() -> PreTrainedModel:
    latent = {
        "model_type": "deepseek_v3",
        "kv_lora_rank": RANK,
        "q_lora_rank": None,
        "qk_rope_head_dim": TURNED,
        "qk_nope_head_dim": PLAIN,
        "v_head_dim": VALUES,
        "head_dim": TURNED,
        "first_k_dense_replace": TEXT.layers,
        "num_key_value_heads": TEXT.heads,
    }
    vision = {
        "patch_size": TOWER.patch,
        "pos_emb_height": SQUARE,
        "pos_emb_width": SQUARE,
        "num_attention_heads": TOWER.heads,
        "num_hidden_layers": TOWER.blocks,
        "hidden_size": TOWER.width,
        "intermediate_size": TOWER.feed_forward,
        "merge_kernel_size": (MERGE, MERGE),
    }
    config = Kimi_K25Config(
        text_config=TEXT.config(VOCABULARY) | latent,
        vision_config=vision,
        projection_hidden_size=TOWER.width,
        image_token_id=VOCABULARY.id(PAD),
        tie_word_embeddings=False,
    )
    return eager(Kimi_K25ForConditionalGeneration, config)


def _views(picture: np.ndarray) -> np.ndarray:
    height, width = picture.shape[:2]
    return np.pad(picture, ((0, -height % CELL), (0, -width % CELL), (0, 0)))[None]


def _rows(model: Any, shown: Shown) -> Tensor:
    height, width = shown.pixels.shape[2:]
    rows, columns, size = height // TOWER.patch, width // TOWER.patch, TOWER.patch
    cut = shown.pixels[0].reshape(3, rows, size, columns, size).permute(1, 3, 0, 2, 4)
    patches = cut.reshape(rows * columns, 3, size, size)
    made = model.model.get_image_features(patches, torch.tensor([[1, rows, columns]]))
    return torch.cat(list(made.pooler_output))


def _expand(text: str, pictures: Sequence[np.ndarray]) -> str:
    return replaced(text, PAD, [PAD * (_views(p).size // 3 // CELL**2) for p in pictures])


REFERENCE = Reference(
    model=_model,
    vocabulary=VOCABULARY,
    cases={"two": parts(words(1), (98, 70), words(1), (60, 45), words(1))},
    placeholder=PAD,
    mean=HALF,
    std=HALF,
    views=_views,
    expand=_expand,
    rows=_rows,
    logits=merged_logits(_rows, VOCABULARY.id(PAD)),
    gains={"position_embeddings": 1.0},
    seed=2,
)
