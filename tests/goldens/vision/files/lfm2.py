"""LFM2-VL: a square of positions stretched to the picture, large pictures in squares, and whole."""

from __future__ import annotations

import numpy as np

from tests.goldens.vision.files.text import LAYER, OUTSIDE, TextSizes
from tests.goldens.vision.files.tower import TowerSizes, clip_names
from tests.goldens.vision.layout import File, State, renamed
from tests.goldens.vision.words import Vocabulary

TEXT = TextSizes(layers=3, eps=1e-5, base=1e6)
KINDS = ("conv", "full_attention", "conv")
TAPS = 3
TOWER = TowerSizes(side=24, patch=4, blocks=2, width=32, heads=2, feed_forward=48)
SIDE = TOWER.side // TOWER.patch
MERGE, HIDDEN = 2, 48
CELL = MERGE * TOWER.patch
LEAST, MOST = 4 * CELL**2, 16 * CELL**2
"""Pixels of a picture."""

TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.content is string %}{{ message.content }}{% else %}"
    "{% for part in message.content %}{% if part.type == 'image' %}<image>"
    "{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
PLACES = tuple(f"<|img_row_{row}_col_{col}|>" for row in (1, 2, 3) for col in (1, 2, 3))
VOCABULARY = Vocabulary(
    pre="qwen2",
    special=(
        *("<|startoftext|>", "<|im_start|>", "<|im_end|>", "<image>", "<|image_start|>"),
        *("<|image_end|>", "<|img_thumbnail|>", *PLACES),
    ),
    bos="<|startoftext|>",
    eos="<|im_end|>",
    template=TEMPLATE,
)
NAMES = (
    (rf"{OUTSIDE}embed_tokens\.weight", r"token_embd.weight"),
    (rf"{OUTSIDE}embedding_norm\.weight", r"token_embd_norm.weight"),
    (r"lm_head\.weight", r"output.weight"),
    (rf"{LAYER}\.self_attn\.([qkv])_proj\.weight", r"blk.\1.attn_\2.weight"),
    (rf"{LAYER}\.self_attn\.out_proj\.weight", r"blk.\1.attn_output.weight"),
    (rf"{LAYER}\.self_attn\.([qk])_layernorm\.weight", r"blk.\1.attn_\2_norm.weight"),
    (rf"{LAYER}\.conv\.(conv|in_proj|out_proj)\.weight", r"blk.\1.shortconv.\2.weight"),
    (rf"{LAYER}\.feed_forward\.w1\.weight", r"blk.\1.ffn_gate.weight"),
    (rf"{LAYER}\.feed_forward\.w3\.weight", r"blk.\1.ffn_up.weight"),
    (rf"{LAYER}\.feed_forward\.w2\.weight", r"blk.\1.ffn_down.weight"),
    (rf"{LAYER}\.operator_norm\.weight", r"blk.\1.attn_norm.weight"),
    (rf"{LAYER}\.ffn_norm\.weight", r"blk.\1.ffn_norm.weight"),
)
PROJECTOR = r"model\.multi_modal_projector"
MMPROJ = (
    *clip_names(r"model\.vision_tower(?:\.vision_model)?"),
    (rf"{PROJECTOR}\.layer_norm\.(\w+)", r"mm.input_norm.\1"),
    (rf"{PROJECTOR}\.linear_([12])\.(\w+)", r"mm.\1.\2"),
)


def text(state: State) -> File:
    """The language model by itself; a layer without heads of keys is a convolution."""
    keys = {
        "attention.head_count_kv": [TEXT.kv_heads * (kind != "conv") for kind in KINDS],
        "shortconv.l_cache": TAPS,
    }
    own = {f"lfm2.{key}": value for key, value in keys.items()}
    metadata = TEXT.metadata("lfm2") | own | VOCABULARY.metadata()
    tensors = dict(renamed(state, NAMES))
    tensors = {n: v.squeeze(1) if n.endswith("conv.weight") else v for n, v in tensors.items()}
    return File("lfm2", metadata, tensors)


def mmproj(state: State) -> File:
    """llama.cpp's file of the tower."""
    tensors = dict(renamed(state, MMPROJ))
    kernels = tensors["v.patch_embd.weight"].reshape(-1, TOWER.patch, TOWER.patch, 3)
    tensors["v.patch_embd.weight"] = np.ascontiguousarray(kernels.transpose(0, 3, 1, 2))
    keys = TOWER.mmproj(
        *("lfm2", TEXT.embedding),
        projector__scale_factor=MERGE,
        image_min_pixels=LEAST,
        image_max_pixels=MOST,
    )
    return File("clip", {"clip.use_gelu": True} | keys, tensors)
