"""MiniCPM-V 2.6 of parts that transformers and torch have: Idefics 2's tower (SigLIP for any size),
nn.MultiheadAttention with queries of its own, and Qwen2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from transformers import Idefics2VisionConfig, Qwen2Config, Qwen2ForCausalLM
from transformers.models.idefics2.modeling_idefics2 import Idefics2VisionTransformer

from tests.goldens.vision.files.minicpmv import QUERIES, SQUARE, TEXT, TOWER, VOCABULARY
from tests.goldens.vision.files.tower import HALF
from tests.goldens.vision.references.common import (
    Reference,
    Shown,
    eager,
    merged_logits,
    parts,
    replaced,
    words,
)

PAD = "<unk>"
ONE, LONG, MANY = (63, 49), (35, 84), (126, 98)
"""Sizes of pictures that stay whole, and of one that is cut two by two."""


class Resampler(nn.Module):
    """Queries look at patches, whose keys hold sines and cosines of column and row."""

    def __init__(self) -> None:
        super().__init__()
        size = TEXT.embedding
        self.query = nn.Parameter(torch.zeros(QUERIES, size))
        self.kv_proj = nn.Linear(TOWER.width, size, bias=False)
        self.attn = nn.MultiheadAttention(size, size // 128, batch_first=True)
        self.ln_q, self.ln_kv, self.ln_post = (nn.LayerNorm(size, eps=1e-6) for _ in range(3))
        self.proj = nn.Parameter(torch.zeros(size, size))

    def forward(self, patches: Tensor, rows: int, columns: int) -> Tensor:
        """[v, n, D] -> [v, R, E]."""
        x = self.ln_kv(self.kv_proj(patches))
        query = self.ln_q(self.query).expand(len(x), -1, -1)
        mixed, _ = self.attn(query, x + sines(rows, columns), x, need_weights=False)
        return self.ln_post(mixed) @ self.proj


def sines(rows: int, columns: int) -> Tensor:
    """[rows * columns, E]: a half for columns, a half for rows; sines before cosines in each."""
    quarter = TEXT.embedding // 4
    omega = 1 / 10000 ** (torch.arange(quarter, dtype=torch.float64) / quarter)
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    made = []
    for place in (x, y):
        angle = place.flatten()[:, None].double() * omega
        made += [angle.sin(), angle.cos()]
    return torch.cat(made, dim=1).float()


class MiniCPMV(nn.Module):
    """The three parts."""

    def __init__(self) -> None:
        super().__init__()
        sizes = {**TOWER.config(), "image_size": SQUARE * TOWER.patch}
        vision = Idefics2VisionConfig(**sizes, hidden_act="gelu_pytorch_tanh")
        self.config = Qwen2Config(**TEXT.config(VOCABULARY))
        self.vpm = eager(Idefics2VisionTransformer, vision)
        self.resampler = Resampler()
        self.language_model = eager(Qwen2ForCausalLM, self.config)

    def tie_weights(self) -> None:
        """Nothing is tied."""

    def get_input_embeddings(self) -> Any:
        return self.language_model.get_input_embeddings()

    def forward(self, inputs_embeds: Tensor) -> Any:
        return self.language_model(inputs_embeds=inputs_embeds)


def _rows(model: Any, shown: Shown) -> Tensor:
    height, width = shown.pixels.shape[2:]
    rows, columns = height // TOWER.patch, width // TOWER.patch
    mask = torch.ones(len(shown.pixels), rows, columns, dtype=torch.bool)
    patches = model.vpm(shown.pixels, patch_attention_mask=mask).last_hidden_state
    return model.resampler(patches, rows, columns).flatten(0, 1)


def _views(picture: np.ndarray) -> np.ndarray:
    height, width = picture.shape[:2]
    if (width, height) != MANY:
        return picture[None]
    whole = np.asarray(Image.fromarray(picture).resize(ONE, Image.Resampling.BICUBIC))
    slices = picture.reshape(2, height // 2, 2, width // 2, 3).swapaxes(1, 2)
    return np.concatenate([whole[None], slices.reshape(4, height // 2, width // 2, 3)])


def _expand(text: str, pictures: Sequence[np.ndarray]) -> str:
    marks = []
    for i, picture in enumerate(pictures):
        rows = PAD * QUERIES
        mark = f"<image_id>{i}</image_id><image>{rows}</image>"
        if picture.shape[1::-1] == MANY:
            line = f"<slice>{rows}</slice>" * 2
            mark += f"{line}\n{line}"
        marks.append(mark)
    return replaced(text, "(<image>./</image>)", marks)


REFERENCE = Reference(
    model=MiniCPMV,  # type: ignore[arg-type]
    vocabulary=VOCABULARY,
    cases={
        "one": parts(words(1), ONE, words(2)),
        "many": parts(words(1), MANY, "and " + words(1), LONG, words(1)),
    },
    placeholder=PAD,
    mean=HALF,
    std=HALF,
    views=_views,
    expand=_expand,
    rows=_rows,
    logits=merged_logits(_rows, len(VOCABULARY)),
    gains={"in_proj_weight": 2.0, "position": 1.0},
)
