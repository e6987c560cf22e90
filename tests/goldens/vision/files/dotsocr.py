"""dots.ocr: gated blocks with RMS norms around patches that turn, before Qwen2."""

from __future__ import annotations

from tests.goldens.vision.files.text import TEXT_NAMES, TextSizes
from tests.goldens.vision.files.tower import CLIP_MEAN, CLIP_STD, TowerSizes
from tests.goldens.vision.layout import File, State, renamed
from tests.goldens.vision.words import Vocabulary

TEXT = TextSizes(eps=1e-6)
TOWER = TowerSizes(side=0, width=32, heads=2, feed_forward=64, eps=1e-3)
"""Its `side` is not said: pictures have any size."""
LEAST, MOST = 28**2, 140**2

TEMPLATE = (
    "{% for message in messages %}<|user|>"
    "{% for part in message.content %}{% if part.type == 'image' %}<|img|><|imgpad|><|endofimg|>"
    "{% else %}{{ part.text }}{% endif %}{% endfor %}<|endofuser|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
VOCABULARY = Vocabulary(
    pre="qwen2",
    special=(
        *("<|endoftext|>", "<|user|>", "<|endofuser|>", "<|assistant|>", "<|endofassistant|>"),
        *("<|img|>", "<|imgpad|>", "<|endofimg|>"),
    ),
    bos="<|endoftext|>",
    eos="<|endofassistant|>",
    template=TEMPLATE,
)
TEXT_PART = ((r"model\.(.+)", r"language_model.\1"), (r"lm_head\.(.+)", r"lm_head.\1"))
BLOCK = r"vision_tower\.blocks\.(\d+)"
MMPROJ = (
    (r"vision_tower\.patch_embed\.proj\.(\w+)", r"v.patch_embd.\1"),
    (r"vision_tower\.patch_embed\.norm\.weight", r"v.pre_ln.weight"),
    (rf"{BLOCK}\.norm([12])\.weight", r"v.blk.\1.ln\2.weight"),
    (rf"{BLOCK}\.attn\.qkv\.weight", r"v.blk.\1.attn_qkv.weight"),
    (rf"{BLOCK}\.attn\.proj\.weight", r"v.blk.\1.attn_out.weight"),
    (rf"{BLOCK}\.mlp\.(gate|up|down)_proj\.weight", r"v.blk.\1.ffn_\2.weight"),
    (r"vision_tower\.norm\.weight", r"mm.post_norm.weight"),
    (r"vision_tower\.merger\.ln_q\.(\w+)", r"mm.input_norm.\1"),
    (r"vision_tower\.merger\.mlp\.([02])\.(\w+)", r"mm.\1.\2"),
)


def text(state: State) -> File:
    """The language model by itself: queries and keys turn halves, so nothing is moved."""
    tensors = dict(renamed(dict(renamed(state, TEXT_PART)), TEXT_NAMES))
    return File("qwen2", TEXT.metadata("qwen2") | VOCABULARY.metadata(), tensors)


def mmproj(state: State) -> File:
    """llama.cpp's file of the tower."""
    sizes = {"image_min_pixels": LEAST, "image_max_pixels": MOST, "projector__scale_factor": 2}
    keys = TOWER.mmproj("dots_ocr", TEXT.embedding, CLIP_MEAN, CLIP_STD, **sizes)
    return File("clip", {"clip.use_silu": True} | keys, dict(renamed(state, MMPROJ)))
