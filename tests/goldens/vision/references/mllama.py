"""MllamaForConditionalGeneration, corrected in two places where it differs from Meta's model.

- The intermediate states are the inputs of their blocks; transformers 5.23 takes the outputs.
- A row of text that sees no picture gets nothing from a cross layer; transformers lets it attend to
  all pictures and only leaves the feed-forward out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import MllamaConfig, MllamaForConditionalGeneration, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from tests.goldens.vision.files.mllama import (
    CROSS,
    GLOBAL_BLOCKS,
    INTERMEDIATE,
    SHAPES,
    TEXT,
    TILES,
    TOWER,
    VOCABULARY,
)
from tests.goldens.vision.files.tower import CLIP_MEAN, CLIP_STD
from tests.goldens.vision.references.common import Reference, Shown, eager, parts, tiles, words

SIDE = TOWER.side
IMAGE = VOCABULARY.id("<|image|>")


def _model() -> PreTrainedModel:
    vision = TOWER.config() | {
        "attention_heads": TOWER.heads,
        "num_global_layers": GLOBAL_BLOCKS,
        "intermediate_layers_indices": list(INTERMEDIATE),
        "vision_output_dim": TOWER.width * (1 + len(INTERMEDIATE)),
        "max_num_tiles": TILES,
        "norm_eps": TOWER.eps,
    }
    text = TEXT.config(VOCABULARY) | {
        "vocab_size": IMAGE,
        "cross_attention_layers": list(CROSS),
        "pad_token_id": 0,
    }
    config = MllamaConfig(text_config=text, vision_config=vision, image_token_index=IMAGE)
    model = eager(MllamaForConditionalGeneration, config)
    encoder = model.model.vision_model.transformer
    encoder.forward = lambda states, attention_mask: _encoded(encoder, states, attention_mask)
    return model


def _encoded(encoder: Any, states: Tensor, mask: Tensor) -> BaseModelOutput:
    inputs = []
    for layer in encoder.layers:
        inputs.append(states)
        states = layer(hidden_states=states, attention_mask=mask)
    return BaseModelOutput(last_hidden_state=states, hidden_states=tuple(inputs))


def _views(picture: np.ndarray) -> np.ndarray:
    """In the corner of the smallest canvas that holds it, black elsewhere."""
    height, width = (-(-side // SIDE) * SIDE for side in picture.shape[:2])
    canvas = np.zeros((height, width, 3), np.uint8)
    canvas[: picture.shape[0], : picture.shape[1]] = picture
    return tiles(canvas, SIDE)


def _inputs(shown: Sequence[Shown]) -> dict[str, Tensor]:
    """Unused tiles are zeros after normalising."""
    pixels = torch.zeros(1, len(shown), TILES, 3, SIDE, SIDE)
    used = torch.zeros(1, len(shown), TILES, dtype=torch.long)
    ids = torch.zeros(1, len(shown), dtype=torch.long)
    for i, picture in enumerate(shown):
        count = len(picture.pixels)
        pixels[0, i, :count], used[0, i, :count] = picture.pixels, 1
        ids[0, i] = 1 + SHAPES.index((-(-picture.height // SIDE), -(-picture.width // SIDE)))
    return {"pixel_values": pixels, "aspect_ratio_ids": ids, "aspect_ratio_mask": used}


def _rows(model: Any, shown: Shown) -> Tensor:
    """Those of the used tiles, class rows included."""
    states = model.model.vision_model(**_inputs([shown])).last_hidden_state
    return model.model.multi_modal_projector(states)[0, 0, : len(shown.pixels)].flatten(0, 1)


def _logits(model: Any, ids: Tensor, shown: Sequence[Shown]) -> Tensor:
    """A row sees the used tiles of the latest picture, or of those that follow one another."""
    mask = torch.zeros(1, ids.shape[1], len(shown), TILES)
    latest: list[int] = []
    for row, token in enumerate(ids[0].tolist()):
        if token == IMAGE:
            follows = row > 0 and ids[0, row - 1] == IMAGE
            latest = [*latest, latest[-1] + 1] if follows else [max(latest, default=-1) + 1]
        for i in latest:
            mask[0, row, i, : len(shown[i].pixels)] = 1
    sees = mask.flatten(2).any(-1).float()[..., None]
    hooks = [
        model.model.language_model.layers[i].cross_attn.register_forward_hook(
            lambda module, inputs, made: (made[0] * sees, *made[1:])
        )
        for i in CROSS
    ]
    try:
        return model(ids, cross_attention_mask=mask, **_inputs(shown)).logits[0]
    finally:
        for hook in hooks:
            hook.remove()


REFERENCE = Reference(
    model=_model,
    vocabulary=VOCABULARY,
    cases={
        "one": parts((30, SIDE), words(2)),
        "wide": parts(words(1), (2 * SIDE, SIDE), words(1)),
        "four": parts(words(1), (2 * SIDE, 2 * SIDE), words(1)),
        "two": parts(words(1), (SIDE, 2 * SIDE), words(1), (4 * SIDE, SIDE), words(1)),
        "together": parts((SIDE, SIDE), (SIDE, 3 * SIDE), words(2)),
    },
    placeholder=None,
    mean=CLIP_MEAN,
    std=CLIP_STD,
    views=_views,
    expand=lambda text, pictures: text,
    rows=_rows,
    logits=_logits,
    gains={r"\.cross_attn\.[qk]_norm": 2.0, "gate": 1.0},
)
