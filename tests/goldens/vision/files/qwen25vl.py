"""Qwen2.5-VL: RMS norms, a gated feed-forward, windows in all but some blocks."""

from __future__ import annotations

from tests.goldens.vision.files import qwen
from tests.goldens.vision.files.qwen2vl import MERGER_NAMES
from tests.goldens.vision.files.text import TextSizes
from tests.goldens.vision.files.tower import CLIP_MEAN, CLIP_STD, TowerSizes
from tests.goldens.vision.layout import File, State, renamed

VOCABULARY = qwen.VOCABULARY
SECTIONS = (2, 3, 3)
WINDOW, FULL = 112, (1, 3)
"""Pixels of a window's side, and the blocks without windows."""

TEXT = TextSizes(eps=1e-6)
TOWER = TowerSizes(side=112, patch=14, blocks=4, width=32, heads=2, feed_forward=64)
SINGLE = (
    (r"(v\.blk\..+)", r"\1"),
    (r"v\.post_ln\.(\w+)", r"v.merger.ln_q.\1"),
    (r"mm\.([02])\.(\w+)", r"v.merger.mlp.\1.\2"),
    (r"v\.patch_embd\.weight", r"v.patch_embd_0.weight"),
    (r"v\.patch_embd\.weight\.1", r"v.patch_embd_1.weight"),
)


def text(state: State) -> File:
    """The language model by itself."""
    return qwen.text(state, TEXT, "qwen2vl", SECTIONS)


def mmproj(state: State) -> File:
    """llama.cpp's file of the tower."""
    tensors = dict(renamed(state, (*qwen.BLOCK_NAMES, *MERGER_NAMES)))
    tensors = qwen.two_frames(tensors, "v.patch_embd.weight", "v.patch_embd.weight.1")
    keys = TOWER.mmproj(
        *("qwen2.5vl_merger", TEXT.embedding, CLIP_MEAN, CLIP_STD),
        window_size=WINDOW,
        n_wa_pattern=FULL[0] + 1,
    )
    return File("clip", {"clip.use_silu": True} | keys, qwen.three_parts(tensors))


def single(state: State) -> File:
    """Ollama's file of both."""
    words = qwen.text(state, TEXT, "qwen25vl", SECTIONS)
    metadata = dict(words.metadata) | {
        "qwen25vl.rope.mrope_section": list(SECTIONS),
        "qwen25vl.vision.block_count": TOWER.blocks,
        "qwen25vl.vision.embedding_length": TOWER.width,
        "qwen25vl.vision.attention.head_count": TOWER.heads,
        "qwen25vl.vision.attention.layer_norm_epsilon": TOWER.eps,
        "qwen25vl.vision.num_channels": 3,
        "qwen25vl.vision.patch_size": TOWER.patch,
        "qwen25vl.vision.spatial_merge_size": qwen.MERGE,
        "qwen25vl.vision.spatial_patch_size": TOWER.patch,
        "qwen25vl.vision.temporal_patch_size": 2,
        "qwen25vl.vision.window_size": WINDOW,
        "qwen25vl.vision.rope.freq_base": 1e4,
        "qwen25vl.vision.fullatt_block_indexes": list(FULL),
    }
    del metadata["qwen25vl.rope.dimension_sections"]
    tower = dict(renamed(mmproj(state).tensors, SINGLE))
    return File("qwen25vl", metadata, dict(words.tensors) | tower)
