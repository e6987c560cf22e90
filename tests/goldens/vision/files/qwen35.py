"""Qwen3.5: the tower of Qwen3-VL without further rows, before delta nets and gated attention."""

from __future__ import annotations

import numpy as np

from tests.goldens.vision.files import qwen, qwen3vl
from tests.goldens.vision.files.qwen3vl import LEAST, MOST
from tests.goldens.vision.files.text import LAYER, TextSizes
from tests.goldens.vision.files.tower import HALF, TowerSizes
from tests.goldens.vision.layout import File, State, renamed

VOCABULARY = qwen.VOCABULARY
SECTIONS = (2, 1, 1)
"""Pair 1 turns by height, 2 by width, the others by time; half of a head does not turn."""

TEXT = TextSizes(layers=4, eps=1e-6)
TURNED = TEXT.head // 2
KINDS = ("linear_attention", "full_attention") * 2
KEYS, VALUES, WIDE, TAPS = 2, 2, 16, 4
"""Heads of keys and of values in a delta net, their size, and the taps of its convolution."""

TOWER = TowerSizes(side=48, patch=8, blocks=3, width=32, heads=2, feed_forward=64)
TABLE = (TOWER.side // TOWER.patch) ** 2
DELTA = rf"{LAYER}\.linear_attn"
NAMES = (
    (rf"{DELTA}\.in_proj_qkv\.weight", r"blk.\1.attn_qkv.weight"),
    (rf"{DELTA}\.in_proj_z\.weight", r"blk.\1.attn_gate.weight"),
    (rf"{DELTA}\.in_proj_a\.weight", r"blk.\1.ssm_alpha.weight"),
    (rf"{DELTA}\.in_proj_b\.weight", r"blk.\1.ssm_beta.weight"),
    (rf"{DELTA}\.conv1d\.weight", r"blk.\1.ssm_conv1d.weight"),
    (rf"{DELTA}\.A_log", r"blk.\1.ssm_a"),
    (rf"{DELTA}\.dt_bias", r"blk.\1.ssm_dt.bias"),
    (rf"{DELTA}\.norm\.weight", r"blk.\1.ssm_norm.weight"),
    (rf"{DELTA}\.out_proj\.weight", r"blk.\1.ssm_out.weight"),
    (rf"{LAYER}\.post_attention_layernorm\.weight", r"blk.\1.post_attention_norm.weight"),
)


def text(state: State) -> File:
    """The language model by itself: norms hold the 1 that transformers adds, decays their sign."""
    of_delta = {
        "full_attention_interval": 2,
        "ssm.conv_kernel": TAPS,
        "ssm.state_size": WIDE,
        "ssm.group_count": KEYS,
        "ssm.time_step_rank": VALUES,
        "ssm.inner_size": VALUES * WIDE,
        "rope.dimension_count": TURNED,
    }
    words = qwen.text(state, TEXT, "qwen35", SECTIONS, **of_delta)
    tensors = dict(words.tensors) | dict(renamed(state, NAMES))
    for name in [name for name in tensors if name.endswith("ffn_norm.weight")]:
        del tensors[name]  # it has another name here
    return File("qwen35", words.metadata, {name: _stored(name, v) for name, v in tensors.items()})


def mmproj(state: State) -> File:
    """llama.cpp's file of the tower."""
    tensors = dict(renamed(state, qwen3vl.NAMES))
    tensors = qwen.two_frames(tensors, "v.patch_embd.weight", "v.patch_embd.weight.1")
    keys = TOWER.mmproj(
        *("qwen3vl_merger", TEXT.embedding, HALF, HALF),
        spatial_merge_size=qwen.MERGE,
        image_min_pixels=LEAST,
        image_max_pixels=MOST,
    )
    return File("clip", {"clip.use_gelu": True} | keys, tensors)


def _stored(name: str, values: np.ndarray) -> np.ndarray:
    if name.endswith("ssm_a"):
        return -np.exp(values)
    if name.endswith("conv1d.weight"):
        return values.squeeze(1)
    return values + 1 if name.endswith("norm.weight") and "ssm" not in name else values
