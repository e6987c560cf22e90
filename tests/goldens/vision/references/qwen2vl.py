"""Qwen2VLForConditionalGeneration: two pictures, and text behind whose place is the larger side."""

from __future__ import annotations

from transformers import PreTrainedModel, Qwen2VLConfig, Qwen2VLForConditionalGeneration

from tests.goldens.vision.files.qwen2vl import SECTIONS, TEXT, TOWER, VOCABULARY
from tests.goldens.vision.files.tower import CLIP_MEAN, CLIP_STD
from tests.goldens.vision.references.common import eager, parts, words
from tests.goldens.vision.references.qwen import IDS, reference


def _model() -> PreTrainedModel:
    rope = {"rope_type": "default", "rope_theta": TEXT.base, "mrope_section": list(SECTIONS)}
    vision = {
        "depth": TOWER.blocks,
        "embed_dim": TOWER.width,
        "hidden_size": TEXT.embedding,
        "mlp_ratio": TOWER.feed_forward // TOWER.width,
        "num_heads": TOWER.heads,
        "patch_size": TOWER.patch,
    }
    text = TEXT.config(VOCABULARY) | {"rope_parameters": rope}
    config = Qwen2VLConfig(text_config=text, vision_config=vision, **IDS)
    return eager(Qwen2VLForConditionalGeneration, config)


REFERENCE = reference(
    _model,
    TOWER,
    {"two": parts(words(1), (98, 70), words(1), (140, 28), words(1))},
    CLIP_MEAN,
    CLIP_STD,
    seed=2,
)
