"""Gemma3ForConditionalGeneration.

Two pictures in one prompt, the first behind more text than the window holds: a causal mask, or one
without the window, is seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import Gemma3Config, Gemma3ForConditionalGeneration, PreTrainedModel

from tests.goldens.vision.files.gemma3 import ROWS, TEXT, TOWER, VOCABULARY, WINDOW
from tests.goldens.vision.files.tower import HALF
from tests.goldens.vision.references.common import Reference, Shown, eager, parts, replaced, words

SQUARE = (TOWER.side, TOWER.side)
SOFT = "<image_soft_token>"


def _model() -> PreTrainedModel:
    text = TEXT.config(VOCABULARY) | {
        "query_pre_attn_scalar": TEXT.head,
        "sliding_window": WINDOW,
        "layer_types": ["sliding_attention"] * 5 + ["full_attention", "sliding_attention"],
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": TEXT.base},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        },
        "tie_word_embeddings": True,
    }
    config = Gemma3Config(
        text_config=text,
        vision_config=TOWER.config() | {"vision_use_head": False},
        mm_tokens_per_image=ROWS,
        image_token_id=VOCABULARY.id(SOFT),
    )
    return eager(Gemma3ForConditionalGeneration, config)


def _expand(text: str, pictures: Sequence[np.ndarray]) -> str:
    whole = f"\n\n<start_of_image>{SOFT * ROWS}<end_of_image>\n\n"
    return replaced(text, "<start_of_image>", [whole] * len(pictures))


def _rows(model: Any, shown: Shown) -> Tensor:
    return model.get_image_features(shown.pixels).pooler_output.flatten(0, 1)


def _logits(model: Any, ids: Tensor, shown: Sequence[Shown]) -> Tensor:
    kinds = (ids == model.config.image_token_id).long()
    pixels = torch.cat([picture.pixels for picture in shown])
    return model(ids, pixel_values=pixels, token_type_ids=kinds).logits[0]


REFERENCE = Reference(
    model=_model,
    vocabulary=VOCABULARY,
    cases={"two": parts(words(9), SQUARE, "and " + words(2), SQUARE, words(1))},
    placeholder=SOFT,
    mean=HALF,
    std=HALF,
    views=lambda picture: picture[None],
    expand=_expand,
    rows=_rows,
    logits=_logits,
    gains={
        "[qk]_norm": 1.0,
        r"language_model.*norm|mm_soft_emb_norm": 0.0,
        "embed_tokens": 0.25,
    },
)
