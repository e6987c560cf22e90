"""Qwen2-VL: LayerNorm, quick GELU, places of three axes."""

from __future__ import annotations

from tests.goldens.vision.files import qwen
from tests.goldens.vision.files.text import TextSizes
from tests.goldens.vision.files.tower import CLIP_MEAN, CLIP_STD, TowerSizes
from tests.goldens.vision.layout import File, State, renamed

VOCABULARY = qwen.VOCABULARY
SECTIONS = (2, 3, 3)
TEXT = TextSizes(eps=1e-6)
TOWER = TowerSizes(side=56, width=32, heads=2, feed_forward=64)
MERGER = rf"{qwen.VISUAL}\.merger"
MERGER_NAMES = (
    (rf"{MERGER}\.ln_q\.(\w+)", r"v.post_ln.\1"),
    (rf"{MERGER}\.mlp\.([02])\.(\w+)", r"mm.\1.\2"),
)


def text(state: State) -> File:
    """The language model by itself."""
    return qwen.text(state, TEXT, "qwen2vl", SECTIONS)


def mmproj(state: State) -> File:
    """llama.cpp's file of the tower, with no feed_forward_length, as the first ones had."""
    tensors = dict(renamed(state, (*qwen.BLOCK_NAMES, *MERGER_NAMES)))
    tensors = qwen.two_frames(tensors, "v.patch_embd.weight", "v.patch_embd.weight.1")
    keys = TOWER._replace(feed_forward=0).mmproj(
        "qwen2vl_merger", TEXT.embedding, CLIP_MEAN, CLIP_STD
    )
    return File("clip", keys, qwen.three_parts(tensors))
