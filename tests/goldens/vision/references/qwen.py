"""What the references of Qwen's families have in common.

Their towers take patches [n, 3 * 2 * P * P], each with both frames (here the same picture twice),
in the order in which they are merged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tests.goldens.vision.files.qwen import MERGE, VOCABULARY
from tests.goldens.vision.files.tower import TowerSizes
from tests.goldens.vision.references.common import Reference, Shown, replaced
from tests.goldens.vision.words import Vocabulary

Cut = Callable[[Tensor, int], tuple[Tensor, Tensor]]
Expand = Callable[[str, Sequence[np.ndarray]], str]
PAD = "<|image_pad|>"
IDS = {
    "image_token_id": VOCABULARY.id(PAD),
    "vision_start_token_id": VOCABULARY.id("<|vision_start|>"),
    "vision_end_token_id": VOCABULARY.id("<|vision_end|>"),
    "tie_word_embeddings": False,
}


def patches(pixels: Tensor, patch: int) -> tuple[Tensor, Tensor]:
    """From [1, 3, h, w] to patches, and the grid (frames, rows, columns) of them."""
    _, channels, height, width = pixels.shape
    rows, columns = height // patch, width // patch
    cut = pixels.reshape(channels, rows // MERGE, MERGE, patch, columns // MERGE, MERGE, patch)
    ordered = cut.permute(1, 4, 2, 5, 0, 3, 6)
    frames = ordered.unsqueeze(5).expand(*ordered.shape[:5], 2, patch, patch)
    grid = torch.tensor([[1, rows, columns]])
    return frames.reshape(rows * columns, -1), grid


def reference(
    model: Callable[[], Any],
    tower: TowerSizes,
    cases: dict[str, Any],
    mean: Sequence[float],
    std: Sequence[float],
    seed: int = 1,
    gains: Mapping[str, float] | None = None,
    vocabulary: Vocabulary = VOCABULARY,
    pad: str = PAD,
    patches: Cut = patches,
    expand: Expand | None = None,
) -> Reference:
    """All that is left is the model, its pictures, and how `patches` cuts them; `expand` as there,
    where a row is not one cell.
    """
    cell = tower.patch * MERGE

    def rows(model: Any, shown: Shown) -> Tensor:
        made = model.get_image_features(*patches(shown.pixels, tower.patch))
        further = [
            torch.cat(list(part)) for part in getattr(made, "deepstack_features", None) or ()
        ]
        return torch.cat([torch.cat(list(made.pooler_output)), *further], dim=-1)

    def logits(model: Any, ids: Tensor, shown: Sequence[Shown]) -> Tensor:
        values, grids = zip(*(patches(s.pixels, tower.patch) for s in shown), strict=True)
        return model(
            ids,
            pixel_values=torch.cat(values),
            image_grid_thw=torch.cat(grids),
            mm_token_type_ids=(ids == vocabulary.id(pad)).int(),
        ).logits[0]

    def by_cells(text: str, pictures: Sequence[np.ndarray]) -> str:
        return replaced(text, pad, [pad * (p.size // 3 // cell**2) for p in pictures])

    return Reference(
        model=model,
        vocabulary=vocabulary,
        cases=cases,
        placeholder=pad,
        mean=mean,
        std=std,
        views=lambda picture: picture[None],
        expand=expand or by_cells,
        rows=rows,
        logits=logits,
        seed=seed,
        gains={
            r"attn\.qkv\.weight": 1.6,
            "visual.*pos_embed": 1.0,
            "[qk]_norm": 1.8,
            **(gains or {}),
        },
    )
