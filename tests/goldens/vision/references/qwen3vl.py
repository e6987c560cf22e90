"""Qwen3VLForConditionalGeneration: odd grids, larger and smaller than the table of positions."""

from __future__ import annotations

from transformers import PreTrainedModel, Qwen3VLConfig, Qwen3VLForConditionalGeneration

from tests.goldens.vision.files.qwen3vl import (
    DEEPSTACK,
    SECTIONS,
    TABLE,
    TEXT,
    TOWER,
    VOCABULARY,
)
from tests.goldens.vision.files.tower import HALF
from tests.goldens.vision.references.common import eager, parts, words
from tests.goldens.vision.references.qwen import IDS, reference


def _model() -> PreTrainedModel:
    rope = {
        "rope_type": "default",
        "rope_theta": TEXT.base,
        "mrope_section": list(SECTIONS),
        "mrope_interleaved": True,
    }
    vision = {
        "depth": TOWER.blocks,
        "hidden_size": TOWER.width,
        "out_hidden_size": TEXT.embedding,
        "intermediate_size": TOWER.feed_forward,
        "num_heads": TOWER.heads,
        "patch_size": TOWER.patch,
        "num_position_embeddings": TABLE,
        "deepstack_visual_indexes": list(DEEPSTACK),
    }
    text = TEXT.config(VOCABULARY) | {"rope_parameters": rope}
    config = Qwen3VLConfig(text_config=text, vision_config=vision, **IDS)
    return eager(Qwen3VLForConditionalGeneration, config)


REFERENCE = reference(
    _model,
    TOWER,
    {"two": parts(words(1), (80, 48), words(1), (32, 112), words(1))},
    HALF,
    HALF,
)
