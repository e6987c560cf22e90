"""Glm4vForConditionalGeneration: grids larger and smaller than the square of positions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from transformers import Glm4vConfig, Glm4vForConditionalGeneration, PreTrainedModel

from tests.goldens.vision.files.glm4v import SECTIONS, TEXT, TOWER, TURNED, VOCABULARY
from tests.goldens.vision.files.tower import CLIP_MEAN, CLIP_STD, TowerSizes
from tests.goldens.vision.references.common import Reference, eager, parts, words
from tests.goldens.vision.references.qwen import reference

PAD = "<|image|>"
IDS = {
    "image_token_id": VOCABULARY.id(PAD),
    "video_token_id": len(VOCABULARY),
    "image_start_token_id": VOCABULARY.id("<|begin_of_image|>"),
    "image_end_token_id": VOCABULARY.id("<|end_of_image|>"),
    "tie_word_embeddings": False,
}


def made(
    model: type[PreTrainedModel], config: Any, tower: TowerSizes, **text: Any
) -> PreTrainedModel:
    """A model of the line; `text` is what its text's configuration has besides."""
    rope = {
        "rope_type": "default",
        "rope_theta": TEXT.base,
        "mrope_section": list(SECTIONS),
        "partial_rotary_factor": TURNED / TEXT.head,
    }
    vision = {
        "depth": tower.blocks,
        "hidden_size": tower.width,
        "out_hidden_size": TEXT.embedding,
        "intermediate_size": tower.feed_forward,
        "num_heads": tower.heads,
        "patch_size": tower.patch,
        "image_size": tower.side,
    }
    words_ = TEXT.config(VOCABULARY) | {"rope_parameters": rope} | text
    return eager(model, config(text_config=words_, vision_config=vision, **IDS))


def seen(
    model: Callable[[], PreTrainedModel],
    tower: TowerSizes = TOWER,
    gains: Mapping[str, float] | None = None,
    seed: int = 1,
) -> Reference:
    """Two pictures, one of two rows of cells."""
    return reference(
        model,
        tower,
        {"two": parts(words(1), (98, 70), words(1), (280, 28), words(1))},
        CLIP_MEAN,
        CLIP_STD,
        seed=seed,
        gains={"position_embedding": 1.0, **(gains or {})},
        vocabulary=VOCABULARY,
        pad=PAD,
    )


REFERENCE = seen(lambda: made(Glm4vForConditionalGeneration, Glm4vConfig, TOWER))
