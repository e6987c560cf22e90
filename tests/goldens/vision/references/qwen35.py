"""Qwen3_5ForConditionalGeneration: pictures between words that delta nets remember."""

from __future__ import annotations

from typing import Any

from transformers import PreTrainedModel, Qwen3_5Config, Qwen3_5ForConditionalGeneration

from tests.goldens.vision.files.qwen35 import (
    KEYS,
    KINDS,
    SECTIONS,
    TABLE,
    TAPS,
    TEXT,
    TOWER,
    TURNED,
    VALUES,
    VOCABULARY,
    WIDE,
)
from tests.goldens.vision.files.tower import HALF
from tests.goldens.vision.references.common import eager, parts, words
from tests.goldens.vision.references.qwen import IDS, reference
from tests.goldens.vision.words import Vocabulary


def text_config(vocabulary: Vocabulary) -> dict[str, Any]:
    """The text's configuration, with this vocabulary."""
    rope = {
        "rope_type": "default",
        "rope_theta": TEXT.base,
        "mrope_section": list(SECTIONS),
        "mrope_interleaved": True,
        "partial_rotary_factor": TURNED / TEXT.head,
    }
    delta = {
        "layer_types": list(KINDS),
        "linear_num_key_heads": KEYS,
        "linear_num_value_heads": VALUES,
        "linear_key_head_dim": WIDE,
        "linear_value_head_dim": WIDE,
        "linear_conv_kernel_dim": TAPS,
    }
    return TEXT.config(vocabulary) | {"rope_parameters": rope} | delta


def _model() -> PreTrainedModel:
    vision = {
        "depth": TOWER.blocks,
        "hidden_size": TOWER.width,
        "out_hidden_size": TEXT.embedding,
        "intermediate_size": TOWER.feed_forward,
        "num_heads": TOWER.heads,
        "patch_size": TOWER.patch,
        "num_position_embeddings": TABLE,
    }
    config = Qwen3_5Config(text_config=text_config(VOCABULARY), vision_config=vision, **IDS)
    return eager(Qwen3_5ForConditionalGeneration, config)


REFERENCE = reference(
    _model,
    TOWER,
    {"two": parts(words(1), (80, 48), words(1), (32, 112), words(1))},
    HALF,
    HALF,
    gains={"[qk]_norm": 0.8, r"layernorm|language_model\.norm": 0.0},
)
