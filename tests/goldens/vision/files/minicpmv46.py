"""MiniCPM-V 4.6: patches that merge twice, slices, and Qwen3.5's text."""

from __future__ import annotations

from tests.goldens.vision.files import qwen35
from tests.goldens.vision.files.qwen35 import TEXT
from tests.goldens.vision.files.tower import HALF, TowerSizes, clip_names
from tests.goldens.vision.layout import File, State, renamed
from tests.goldens.vision.words import Vocabulary

__all__ = ["TEXT", "mmproj", "text"]

TOWER = TowerSizes(side=56, blocks=3, width=32, heads=2, feed_forward=48, eps=1e-4)
SQUARE, WINDOWED = 8, 1
"""Positions along a side, and the block behind which windows merge."""

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% for part in message.content %}{% if part.type == 'image' %}<|image_pad|>"
    "{% else %}{{ part.text }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
VOCABULARY = Vocabulary(
    pre="qwen2",
    special=(
        *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|image_pad|>", "<image>", "</image>"),
        *("<slice>", "</slice>", "<image_id>", "</image_id>"),
    ),
    bos="<|endoftext|>",
    eos="<|im_end|>",
    template=TEMPLATE,
)
TOWER_PART, WINDOW = r"model\.vision_tower", r"model\.vision_tower\.vit_merger"
MMPROJ = (
    *clip_names(TOWER_PART),
    (rf"{WINDOW}\.layer_norm1\.(\w+)", r"v.vit_merger.ln1.\1"),
    (rf"{WINDOW}\.self_attn\.([qkv])_proj\.(\w+)", r"v.vit_merger.attn_\1.\2"),
    (rf"{WINDOW}\.self_attn\.out_proj\.(\w+)", r"v.vit_merger.attn_out.\1"),
    (rf"{WINDOW}\.pre_norm\.(\w+)", r"v.vit_merger.ds_ln.\1"),
    (rf"{WINDOW}\.linear_1\.(\w+)", r"v.vit_merger.ds_ffn_up.\1"),
    (rf"{WINDOW}\.linear_2\.(\w+)", r"v.vit_merger.ds_ffn_down.\1"),
    (r"model\.merger\.mlp\.0\.pre_norm\.(\w+)", r"mm.input_norm.\1"),
    (r"model\.merger\.mlp\.0\.linear_1\.(\w+)", r"mm.up.\1"),
    (r"model\.merger\.mlp\.0\.linear_2\.(\w+)", r"mm.down.\1"),
)


def text(state: State) -> File:
    """The language model by itself, with a vocabulary of its own."""
    words = qwen35.text(state)
    return File(words.architecture, dict(words.metadata) | VOCABULARY.metadata(), words.tensors)


def mmproj(state: State) -> File:
    """llama.cpp's file of the tower."""
    keys = TOWER.mmproj("minicpmv4_6", TEXT.embedding, HALF, HALF, projector__scale_factor=4)
    keys["clip.vision.wa_layer_indexes"] = [WINDOWED]
    return File("clip", {"clip.use_gelu": True} | keys, dict(renamed(state, MMPROJ)))
