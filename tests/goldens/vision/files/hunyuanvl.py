"""HunyuanOCR: patches joined by a convolution, learned rows, and places of four axes."""

from __future__ import annotations

from tests.goldens.vision.files.text import LAYER, TEXT_NAMES, TextSizes
from tests.goldens.vision.files.tower import CLIP_MEAN, CLIP_STD, TowerSizes
from tests.goldens.vision.layout import File, State, renamed
from tests.goldens.vision.words import Vocabulary

SECTIONS, ALPHA = (2, 2, 2, 2), 1000.0
TEXT = TextSizes()
TOWER = TowerSizes(side=56, width=32, heads=2, feed_forward=64, eps=1e-5)
LEAST, MOST = 28**2, 140**2

BEGIN, PAD, END = (f"<｜hy_place▁holder▁no▁{n}｜>" for n in (100, 102, 101))  # noqa: RUF001
START, USER, ANSWER = "<｜hy_begin▁of▁sentence｜>", "<｜hy_User｜>", "<｜hy_Assistant｜>"  # noqa: RUF001
TEMPLATE = (
    "{{ '" + START + "' }}{% for message in messages %}{% for part in message.content %}"
    "{% if part.type == 'image' %}{{ '" + BEGIN + PAD + END + "' }}"
    "{% else %}{{ part.text }}{% endif %}{% endfor %}{{ '" + USER + "' }}{% endfor %}"
)
VOCABULARY = Vocabulary(
    pre="hunyuan-dense",
    special=(START, USER, ANSWER, BEGIN, PAD, END),
    bos=START,
    eos=ANSWER,
    template=TEMPLATE,
)
NAMES = (
    (rf"{LAYER}\.self_attn\.query_layernorm\.weight", r"blk.\1.attn_q_norm.weight"),
    (rf"{LAYER}\.self_attn\.key_layernorm\.weight", r"blk.\1.attn_k_norm.weight"),
    *TEXT_NAMES,
)
VISION = r"model\.vision_tower"
BLOCK, MERGER = rf"{VISION}\.layers\.(\d+)", rf"{VISION}\.patch_merger"
MMPROJ = (
    (rf"{VISION}\.embeddings\.patch_embedding\.(\w+)", r"v.patch_embd.\1"),
    (rf"{VISION}\.embeddings\.position_embedding\.weight", r"v.position_embd.weight"),
    (rf"{BLOCK}\.self_attn\.([qkv])_proj\.(\w+)", r"v.blk.\1.attn_\2.\3"),
    (rf"{BLOCK}\.self_attn\.o_proj\.(\w+)", r"v.blk.\1.attn_out.\2"),
    (rf"{BLOCK}\.layer_norm([12])\.(\w+)", r"v.blk.\1.ln\2.\3"),
    (rf"{BLOCK}\.mlp\.fc1\.(\w+)", r"v.blk.\1.ffn_up.\2"),
    (rf"{BLOCK}\.mlp\.fc2\.(\w+)", r"v.blk.\1.ffn_down.\2"),
    (rf"{MERGER}\.before_rms\.weight", r"mm.pre_norm.weight"),
    (rf"{MERGER}\.after_rms\.weight", r"mm.post_norm.weight"),
    (rf"{MERGER}\.proj_conv\.(\w+)", r"mm.0.\1"),
    (rf"{MERGER}\.proj_out\.(\w+)", r"mm.2.\1"),
    (rf"{MERGER}\.mlp\.(\w+)", r"mm.model.fc.\1"),
    (rf"{MERGER}\.image_(begin|end)", r"mm.image_\1"),
    (rf"{MERGER}\.image_newline", r"v.image_newline"),
    (rf"{MERGER}\.image_sep", r"v.view_seperator"),
)


def text(state: State) -> File:
    """The language model by itself, its base not multiplied yet."""
    keys = {"rope.dimension_sections": list(SECTIONS), "rope.scaling.alpha": ALPHA}
    own = {f"hunyuan_vl.{key}": value for key, value in keys.items()}
    metadata = TEXT.metadata("hunyuan_vl") | own | VOCABULARY.metadata()
    return File("hunyuan_vl", metadata, dict(renamed(state, NAMES)))


def mmproj(state: State) -> File:
    """llama.cpp's file of the tower, without the position of a class."""
    sizes = {"image_min_pixels": LEAST, "image_max_pixels": MOST, "spatial_merge_size": 2}
    keys = TOWER.mmproj("hunyuanvl", TEXT.embedding, CLIP_MEAN, CLIP_STD, **sizes)
    tensors = dict(renamed(state, MMPROJ))
    tensors["v.position_embd.weight"] = tensors["v.position_embd.weight"][1:]
    return File("clip", {"clip.use_gelu": True} | keys, tensors)
