"""Gemma4ForConditionalGeneration, as a large model and (`gemma4e`) as a small one.

Two pictures in one prompt, the first behind more text than the window holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import Gemma4Config, Gemma4ForConditionalGeneration, PreTrainedModel

from tests.goldens.vision.files.gemma4 import (
    BOUNDS,
    EDGES,
    GLOBAL,
    PLACES,
    POOL,
    SHIFT,
    SPREAD,
    TEXT,
    TOWER,
    TURNED,
    VOCABULARY,
    WINDOW,
    WINDOWED,
)
from tests.goldens.vision.references.common import Reference, Shown, eager, parts, replaced, words

SOFT = "<|image|>"
CELL = POOL * TOWER.patch


TOKENS = {
    "image_token_id": VOCABULARY.id(SOFT),
    "boi_token_id": VOCABULARY.id("<|image>"),
    "eoi_token_id": VOCABULARY.id("<image|>"),
}


def text(per_layer: int = 0) -> dict[str, Any]:
    """The configuration of the text; with `per_layer` channels for each layer of a small one."""
    return TEXT.config(VOCABULARY) | {
        "pad_token_id": 0,
        "tie_word_embeddings": True,
        "global_head_dim": GLOBAL,
        "sliding_window": WINDOW,
        "layer_types": ["sliding_attention" if one else "full_attention" for one in WINDOWED],
        "rope_parameters": {
            "full_attention": {
                "rope_type": "proportional",
                "rope_theta": TEXT.base,
                "partial_rotary_factor": 2 * TURNED / GLOBAL,
            },
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        },
        "hidden_size_per_layer_input": per_layer,
        "vocab_size_per_layer_input": len(VOCABULARY),
        "use_bidirectional_attention": None if per_layer else "vision",
    }


def model(per_layer: int = 0) -> PreTrainedModel:
    """An empty one."""
    vision = {
        "hidden_size": TOWER.width,
        "intermediate_size": TOWER.feed_forward,
        "num_hidden_layers": TOWER.blocks,
        "num_attention_heads": TOWER.heads,
        "num_key_value_heads": TOWER.heads,
        "head_dim": TOWER.width // TOWER.heads,
        "patch_size": TOWER.patch,
        "pooling_kernel_size": POOL,
        "position_embedding_size": PLACES,
        "use_clipped_linears": True,
        "standardize": not per_layer,
    }
    config = Gemma4Config(
        text_config=text(per_layer), vision_config=vision, audio_config=None, **TOKENS
    )
    made = eager(Gemma4ForConditionalGeneration, config)
    _bound(made.model.vision_tower)
    return made


def _bound(tower: Any) -> None:
    """Give the buffers of the tower their numbers."""
    block = tower.encoder.layers[0]
    for part, bounds in BOUNDS.items():
        name, edges = f"{part}_proj", zip(EDGES, bounds, strict=True)
        linear = getattr(block.mlp if hasattr(block.mlp, name) else block.self_attn, name)
        for edge, bound in edges:
            getattr(linear, edge).fill_(bound)
    if tower.config.standardize:
        tower.std_bias.copy_(torch.from_numpy(SHIFT))
        tower.std_scale.copy_(torch.from_numpy(SPREAD))


def patches(pixels: Tensor, size: int, n: int = 0) -> tuple[Tensor, Tensor]:
    """From [1, 3, h, w] to patches [1, n, 3 * P * P] and their columns and rows, padded to n."""
    _, channels, height, width = pixels.shape
    cut = pixels.reshape(channels, height // size, size, width // size, size)
    cut = cut.permute(1, 3, 2, 4, 0).reshape(1, -1, channels * size * size)
    rows, columns = torch.meshgrid(
        torch.arange(height // size), torch.arange(width // size), indexing="ij"
    )
    places = torch.stack([columns.flatten(), rows.flatten()], -1)[None]
    missing = max(0, n - cut.shape[1])
    cut = torch.nn.functional.pad(cut, (0, 0, 0, missing))
    return cut, torch.nn.functional.pad(places, (0, 0, 0, missing), value=-1)


def _rows(model: Any, shown: Shown) -> Tensor:
    cut, places = patches(shown.pixels, TOWER.patch)
    return torch.cat(list(model.get_image_features(cut, places).pooler_output))


def logits(
    model: Any, ids: Tensor, shown: Sequence[Shown], size: int = TOWER.patch, **more: Any
) -> Tensor:
    """[tokens, vocabulary]; patches are `size` pixels wide."""
    most = max(picture.pixels[0, 0].numel() for picture in shown) // size**2
    cut, places = zip(*(patches(picture.pixels, size, most) for picture in shown), strict=True)
    return model(
        ids,
        pixel_values=torch.cat(cut),
        image_position_ids=torch.cat(places),
        mm_token_type_ids=kinds(model, ids),
        **more,
    ).logits[0]


def kinds(model: Any, ids: Tensor) -> Tensor:
    """1 where a picture's row stands, else 0."""
    return (ids == model.config.image_token_id).long()


def _expand(text: str, pictures: Sequence[np.ndarray]) -> str:
    rows = [picture.size // 3 // CELL**2 for picture in pictures]
    return replaced(text, SOFT, [f"<|image>{SOFT * n}<image|>" for n in rows])


def reference(per_layer: int = 0, seed: int = 1) -> Reference:
    """All but the kind of the model is the same."""
    sizes = (5 * CELL, 4 * CELL), (3 * CELL, 6 * CELL)
    return Reference(
        model=lambda: model(per_layer),
        vocabulary=VOCABULARY,
        cases={"two": parts(words(9), sizes[0], "and " + words(2), sizes[1], words(1))},
        placeholder=SOFT,
        mean=(0.0, 0.0, 0.0),
        std=(1.0, 1.0, 1.0),
        views=lambda picture: picture[None],
        expand=_expand,
        rows=_rows,
        logits=logits,
        gains={"embed_tokens": 0.25, "language_model.*[qk]_norm": 0.6},
        seed=seed,
    )


REFERENCE = reference()
