"""Qwen2_5_VLForConditionalGeneration: grids that are no multiples of a window."""

from __future__ import annotations

from transformers import PreTrainedModel, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

from tests.goldens.vision.files.qwen25vl import FULL, SECTIONS, TEXT, TOWER, VOCABULARY, WINDOW
from tests.goldens.vision.files.tower import CLIP_MEAN, CLIP_STD
from tests.goldens.vision.references.common import eager, parts, words
from tests.goldens.vision.references.qwen import IDS, reference


def _model() -> PreTrainedModel:
    rope = {"rope_type": "default", "rope_theta": TEXT.base, "mrope_section": list(SECTIONS)}
    vision = {
        "depth": TOWER.blocks,
        "hidden_size": TOWER.width,
        "out_hidden_size": TEXT.embedding,
        "intermediate_size": TOWER.feed_forward,
        "num_heads": TOWER.heads,
        "patch_size": TOWER.patch,
        "window_size": WINDOW,
        "fullatt_block_indexes": list(FULL),
    }
    text = TEXT.config(VOCABULARY) | {"rope_parameters": rope}
    config = Qwen2_5_VLConfig(text_config=text, vision_config=vision, **IDS)
    return eager(Qwen2_5_VLForConditionalGeneration, config)


REFERENCE = reference(
    _model,
    TOWER,
    {"two": parts(words(1), (196, 140), words(1), (280, 56), words(1))},
    CLIP_MEAN,
    CLIP_STD,
)
