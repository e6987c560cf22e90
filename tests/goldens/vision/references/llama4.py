"""Llama4ForConditionalGeneration, with pixels in float32, which its processor makes in bfloat16.

A prompt is longer than two chunks, and borders of chunks lie inside a picture. No token's two best
experts are near each other, else rounding would choose.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from transformers import Llama4Config, Llama4ForConditionalGeneration, PreTrainedModel

from tests.goldens.vision.files.llama4 import (
    ADAPTER,
    CHUNK,
    EXPERT_F,
    EXPERTS,
    FLOOR,
    MOE_STEP,
    NO_ROPE_STEP,
    ROWS,
    SCALE,
    TEXT,
    TOWER,
    VOCABULARY,
)
from tests.goldens.vision.files.tower import HALF
from tests.goldens.vision.references.common import (
    Reference,
    Shown,
    eager,
    overview,
    parts,
    replaced,
    tiles,
    words,
)

SIDE = TOWER.side
PATCH = "<|patch|>"
GAP = 3e-4


def _model() -> PreTrainedModel:
    text = TEXT.config(VOCABULARY) | {
        "intermediate_size": EXPERT_F,
        "intermediate_size_mlp": TEXT.feed_forward,
        "num_local_experts": EXPERTS,
        "num_experts_per_tok": 1,
        "interleave_moe_layer_step": MOE_STEP,
        "no_rope_layer_interval": NO_ROPE_STEP,
        "attention_chunk_size": CHUNK,
        "floor_scale": FLOOR,
        "attn_scale": 0.1,
    }
    vision = TOWER.config() | {
        "norm_eps": TOWER.eps,
        "pixel_shuffle_ratio": 1 / SCALE,
        "projector_input_dim": ADAPTER,
        "projector_output_dim": ADAPTER,
        "vision_output_dim": ADAPTER,
    }
    config = Llama4Config(
        text_config=text, vision_config=vision, image_token_index=VOCABULARY.id(PATCH)
    )
    model = eager(Llama4ForConditionalGeneration, config)
    for layer in model.language_model.model.layers[MOE_STEP - 1 :: MOE_STEP]:
        layer.feed_forward.router.register_forward_hook(_apart)
    return model


def _apart(router: Any, inputs: Any, made: tuple[Tensor, Tensor]) -> None:
    first, second = made[1].topk(2).values.unbind(-1)
    if (gap := float((first - second).min())) < GAP:
        raise ValueError(f"two experts are {gap:.1e} apart: another seed")


def _views(picture: np.ndarray) -> np.ndarray:
    """In the corner of the smallest canvas that holds it, black elsewhere; the overview last."""
    height, width = (-(-side // SIDE) * SIDE for side in picture.shape[:2])
    canvas = np.zeros((height, width, 3), np.uint8)
    canvas[: picture.shape[0], : picture.shape[1]] = picture
    cut = tiles(canvas, SIDE)
    if len(cut) == 1:
        return cut
    return np.concatenate([cut, overview(picture, SIDE, Image.BILINEAR)])


def _marks(height: int, width: int) -> str:
    rows, columns = -(-height // SIDE), -(-width // SIDE)
    row = "<|tile_x_separator|>".join([PATCH * ROWS] * columns) + "<|tile_y_separator|>"
    tiled = row * rows if rows * columns > 1 else ""
    return f"<|image_start|>{tiled}<|image|>{PATCH * ROWS}<|image_end|>"


def _expand(text: str, pictures: Sequence[np.ndarray]) -> str:
    return replaced(text, "<|image|>", [_marks(*picture.shape[:2]) for picture in pictures])


def _rows(model: Any, shown: Shown) -> Tensor:
    states = model.vision_model(shown.pixels).last_hidden_state
    return model.multi_modal_projector(states.flatten(0, 1))


def _logits(model: Any, ids: Tensor, shown: Sequence[Shown]) -> Tensor:
    pixels = torch.cat([picture.pixels for picture in shown])
    return model(ids, pixel_values=pixels).logits[0]


REFERENCE = Reference(
    model=_model,
    vocabulary=VOCABULARY,
    cases={
        "single": parts(words(1), (20, SIDE), words(1)),
        "tall": parts(words(1), (SIDE, 2 * SIDE), words(1)),
        "two": parts(words(2), (8 * SIDE, 2 * SIDE), words(1), (SIDE, SIDE), words(2)),
    },
    placeholder=PATCH,
    mean=HALF,
    std=HALF,
    views=_views,
    expand=_expand,
    rows=_rows,
    logits=_logits,
    gains={"router": 4.0, "vision_adapter|multi_modal_projector": 2.2},
)
