"""HunYuanVLForConditionalGeneration: grids larger and smaller than the square of positions.

The class differs from the published model in two places, which are put right here: positions are
stretched by a factor that has a tenth of a patch more, and a pair's two channels turn by one axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import HunYuanVLConfig, HunYuanVLForConditionalGeneration, PreTrainedModel
from transformers.models.hunyuan_vl.modeling_hunyuan_vl import (
    HunYuanVLRotaryEmbedding,
    HunYuanVLVisionPatchEmbed,
)

from tests.goldens.vision.files.hunyuanvl import ALPHA, PAD, SECTIONS, TEXT, TOWER, VOCABULARY
from tests.goldens.vision.files.tower import CLIP_MEAN, CLIP_STD
from tests.goldens.vision.references.common import eager, parts, replaced, words
from tests.goldens.vision.references.qwen import MERGE, reference


def _stretched(self: Any, embeddings: Tensor, height: int, width: int) -> Tensor:
    """As in the code that was published with the weights."""
    edge = self.position_edge
    square = self.position_embedding.weight[1:].reshape(1, edge, edge, self.embed_dim)
    factors = ((int(height) + 0.1) / edge, (int(width) + 0.1) / edge)
    made = torch.nn.functional.interpolate(
        square.permute(0, 3, 1, 2), scale_factor=factors, mode="bilinear", align_corners=False
    )
    return made.permute(0, 2, 3, 1).reshape(1, -1, self.embed_dim)


def _by_sections(self: Any, freq: Tensor) -> Tensor:
    """As in the code that was published with the weights, which repeats the list of sections."""
    sections = list(self.mrope_section) * 2
    pieces = torch.cat((freq, freq), dim=-1).split(sections, dim=-1)
    return torch.cat([m[i % len(self.mrope_section)] for i, m in enumerate(pieces)], dim=-1)


HunYuanVLVisionPatchEmbed.interpolate_pos_encoding = _stretched
HunYuanVLRotaryEmbedding.recomposition_frequencies = _by_sections


def _model() -> PreTrainedModel:
    rope = {
        "rope_type": "dynamic",
        "rope_theta": TEXT.base,
        "alpha": ALPHA,
        "factor": 1.0,
        "mrope_section": list(SECTIONS),
    }
    vision = {
        "hidden_size": TOWER.width,
        "intermediate_size": TOWER.feed_forward,
        "num_hidden_layers": TOWER.blocks,
        "num_attention_heads": TOWER.heads,
        "patch_size": TOWER.patch,
        "max_image_size": TOWER.side,
        "rms_norm_eps": TOWER.eps,
    }
    text = TEXT.config(VOCABULARY) | {"rope_parameters": rope, "max_position_embeddings": 1024}
    config = HunYuanVLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=VOCABULARY.id(PAD),
        tie_word_embeddings=False,
    )
    return eager(HunYuanVLForConditionalGeneration, config)


def _patches(pixels: Tensor, patch: int) -> tuple[Tensor, Tensor]:
    """From [1, 3, h, w] to patches [n, 3 * P * P], row by row, and the grid of them."""
    _, channels, height, width = pixels.shape
    rows, columns = height // patch, width // patch
    cut = pixels[0].reshape(channels, rows, patch, columns, patch).permute(1, 3, 0, 2, 4)
    return cut.reshape(rows * columns, -1), torch.tensor([[1, rows, columns]])


def _expand(text: str, pictures: Sequence[np.ndarray]) -> str:
    cell = TOWER.patch * MERGE
    counts = [p.shape[0] // cell * (p.shape[1] // cell + 1) + 2 for p in pictures]
    return replaced(text, PAD, [PAD * count for count in counts])


REFERENCE = reference(
    _model,
    TOWER,
    {"two": parts(words(1), (98, 70), words(1), (140, 28), words(1))},
    CLIP_MEAN,
    CLIP_STD,
    vocabulary=VOCABULARY,
    pad=PAD,
    seed=1,
    patches=_patches,
    expand=_expand,
    gains={"(query|key)_layernorm": 1.8},
)
