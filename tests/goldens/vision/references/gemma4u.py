"""Gemma4UnifiedForConditionalGeneration, with the text of `gemma4`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from transformers import Gemma4UnifiedConfig, Gemma4UnifiedForConditionalGeneration, PreTrainedModel

from tests.goldens.vision.files.gemma4u import CELL, EPS, PATCH, PLACES, POOL, TEXT
from tests.goldens.vision.references import gemma4
from tests.goldens.vision.references.common import Shown, eager


def model() -> PreTrainedModel:
    """An empty one."""
    vision = {
        "patch_size": PATCH,
        "pooling_kernel_size": POOL,
        "mm_embed_dim": TEXT.embedding,
        "mm_posemb_size": PLACES,
        "rms_norm_eps": EPS,
        "output_proj_dims": TEXT.embedding,
    }
    config = Gemma4UnifiedConfig(
        text_config=gemma4.text(), vision_config=vision, audio_config=None, **gemma4.TOKENS
    )
    return eager(Gemma4UnifiedForConditionalGeneration, config)


def _rows(model: Any, shown: Shown) -> Tensor:
    squares, places = gemma4.patches(shown.pixels, CELL)
    return torch.cat(list(model.get_image_features(squares, places).pooler_output))


def _logits(model: Any, ids: Tensor, shown: Sequence[Shown]) -> Tensor:
    # As `generate` masks; `forward` alone lets rows see one another in all layers.
    masks = model.create_masks_for_generate(
        *(model.config, model.get_input_embeddings()(ids), None, None, None),
        mm_token_type_ids=gemma4.kinds(model, ids),
    )
    return gemma4.logits(model, ids, shown, CELL, attention_mask=masks)


REFERENCE = replace(gemma4.reference(), model=model, rows=_rows, logits=_logits)
