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

from tests.goldens.vision.files import gemma3 as sizes
from tests.goldens.vision.references.common import Reference, eager, parts, words

SQUARE = (sizes.SIDE, sizes.SIDE)


def _model() -> PreTrainedModel:
    text = {
        "vocab_size": len(sizes.VOCABULARY),
        "hidden_size": sizes.E,
        "intermediate_size": sizes.F,
        "num_hidden_layers": sizes.LAYERS,
        "num_attention_heads": sizes.HEADS,
        "num_key_value_heads": sizes.KV_HEADS,
        "head_dim": sizes.HEAD,
        "query_pre_attn_scalar": sizes.HEAD,
        "sliding_window": sizes.WINDOW,
        "layer_types": ["sliding_attention"] * 5 + ["full_attention", "sliding_attention"],
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        },
        "rms_norm_eps": 1e-6,
    }
    vision = {
        "hidden_size": sizes.D,
        "intermediate_size": sizes.VISION_F,
        "num_hidden_layers": sizes.BLOCKS,
        "num_attention_heads": sizes.VISION_HEADS,
        "image_size": sizes.SIDE,
        "patch_size": sizes.PATCH,
        "layer_norm_eps": 1e-6,
        "vision_use_head": False,
    }
    config = Gemma3Config(
        text_config=text,
        vision_config=vision,
        mm_tokens_per_image=sizes.ROWS,
        image_token_id=sizes.VOCABULARY.id("<image_soft_token>"),
    )
    return eager(Gemma3ForConditionalGeneration, config)


def _expand(text: str, views: Sequence[np.ndarray]) -> str:
    rows = "<image_soft_token>" * sizes.ROWS
    whole = f"\n\n<start_of_image>{rows}<end_of_image>\n\n"
    return text.replace("<start_of_image>", whole)


def _rows(model: Any, pixels: Tensor) -> Tensor:
    return model.get_image_features(pixels).pooler_output.flatten(0, 1)


def _logits(model: Any, ids: Tensor, pixels: Sequence[Tensor]) -> Tensor:
    kinds = (ids == model.config.image_token_id).long()
    return model(ids, pixel_values=torch.cat(list(pixels)), token_type_ids=kinds).logits[0]


REFERENCE = Reference(
    model=_model,
    vocabulary=sizes.VOCABULARY,
    cases={
        "two": parts(words(9), SQUARE, "and " + words(2), SQUARE, words(1)),
    },
    placeholder="<image_soft_token>",
    mean=sizes.IMAGE_MEAN,
    std=sizes.IMAGE_STD,
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
