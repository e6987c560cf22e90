"""The tower of Dots3NoteForConditionalGeneration beside Qwen2ForCausalLM: dots.ocr's where no layer
has experts and heads are not normalised.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor, nn
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM
from transformers.models.dots3_note.configuration_dots3_note import Dots3NoteVisionConfig
from transformers.models.dots3_note.modeling_dots3_note import Dots3NoteVisionModel

from tests.goldens.vision.files.dotsocr import TEXT, TOWER, VOCABULARY
from tests.goldens.vision.files.tower import CLIP_MEAN, CLIP_STD
from tests.goldens.vision.references.common import (
    Reference,
    Shown,
    eager,
    merged_logits,
    parts,
    replaced,
    words,
)
from tests.goldens.vision.references.qwen import MERGE, patches

PAD, CELL = "<|imgpad|>", TOWER.patch * MERGE


class DotsOcr(Qwen2ForCausalLM):
    """Both parts."""

    def __init__(self, config: Qwen2Config) -> None:
        super().__init__(config)
        self.vision_tower = Dots3NoteVisionModel(_vision())
        for block in self.vision_tower.blocks:
            block.attn.q_norm = block.attn.k_norm = nn.Identity()


def _vision() -> Dots3NoteVisionConfig:
    return Dots3NoteVisionConfig(
        hidden_size=TOWER.width,
        intermediate_size=TOWER.feed_forward,
        num_hidden_layers=TOWER.blocks,
        num_attention_heads=TOWER.heads,
        patch_size=TOWER.patch,
        rms_norm_eps=TOWER.eps,
        mlp_layer_types=["dense"] * TOWER.blocks,
        adapter_in_dim=TOWER.width,
        adapter_out_dim=TEXT.embedding,
        attn_implementation="eager",
    )


def _model() -> PreTrainedModel:
    return eager(DotsOcr, Qwen2Config(**TEXT.config(VOCABULARY)))


def _rows(model: Any, shown: Shown) -> Tensor:
    """Patches in the order in which they are merged, with one frame."""
    twice, grid = patches(shown.pixels, TOWER.patch)
    once = twice.reshape(len(twice), 3, 2, -1)[:, :, 0].reshape(len(twice), -1)
    return model.vision_tower(once, grid).pooler_output


def _expand(text: str, pictures: Sequence[np.ndarray]) -> str:
    return replaced(text, PAD, [PAD * (p.size // 3 // CELL**2) for p in pictures])


REFERENCE = Reference(
    model=_model,
    vocabulary=VOCABULARY,
    cases={"two": parts(words(1), (98, 70), words(1), (140, 28), words(1))},
    placeholder=PAD,
    mean=CLIP_MEAN,
    std=CLIP_STD,
    views=lambda picture: picture[None],
    expand=_expand,
    rows=_rows,
    logits=merged_logits(_rows, VOCABULARY.id(PAD)),
    seed=1,
    gains={r"attn\.qkv\.weight": 1.6},
)
