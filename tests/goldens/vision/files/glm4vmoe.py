"""GLM-4.5V and 4.6V: GLM-4.1V's tower before a text model with experts."""

from __future__ import annotations

import numpy as np

from tests.goldens.vision.files import glm4v
from tests.goldens.vision.files.text import LAYER, TEXT_NAMES
from tests.goldens.vision.layout import File, State

TEXT, VOCABULARY, TOWER = glm4v.TEXT, glm4v.VOCABULARY, glm4v.TOWER
EXPERTS, USED, DENSE, WIDE, SCALE = 6, 2, 1, 32, 1.5
"""Experts of a layer, those that a token meets, layers without any, an expert's width, a factor."""

NAMES = (
    (rf"{LAYER}\.post_attention_layernorm\.weight", r"blk.\1.post_attention_norm.weight"),
    (rf"{LAYER}\.mlp\.gate\.weight", r"blk.\1.ffn_gate_inp.weight"),
    (rf"{LAYER}\.mlp\.experts\.gate_up_proj", r"blk.\1.gate_up"),
    (rf"{LAYER}\.mlp\.experts\.down_proj", r"blk.\1.ffn_down_exps.weight"),
    (rf"{LAYER}\.mlp\.shared_experts\.(gate|up|down)_proj\.weight", r"blk.\1.ffn_\2_shexp.weight"),
    *TEXT_NAMES,
)


def text(state: State) -> File:
    """The language model by itself, with a matrix each for gates and ups of experts."""
    keys = {
        "expert_count": EXPERTS,
        "expert_used_count": USED,
        "expert_shared_count": 1,
        "expert_feed_forward_length": WIDE,
        "expert_gating_func": 2,
        "expert_weights_norm": True,
        "expert_weights_scale": SCALE,
        "leading_dense_block_count": DENSE,
    }
    file = glm4v.words(state, "glm4moe", TEXT, NAMES, **keys)
    tensors = {}
    for name, values in file.tensors.items():
        if name.endswith(".gate_up"):
            for part, half in zip(("gate", "up"), np.split(values, 2, axis=1), strict=True):
                tensors[name.replace("gate_up", f"ffn_{part}_exps.weight")] = half
        else:
            tensors[name] = values
    return File("glm4moe", file.metadata, tensors)


def mmproj(state: State) -> File:
    """llama.cpp's file of the tower."""
    return glm4v.mmproj(state)
