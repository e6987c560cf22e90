"""GLM-4.1V: positions stretched to the picture, a gated projector, places of three axes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.goldens.vision.files import qwen
from tests.goldens.vision.files.text import LAYER, TEXT_NAMES, TextSizes
from tests.goldens.vision.files.tower import CLIP_MEAN, CLIP_STD, TowerSizes
from tests.goldens.vision.layout import File, State, renamed
from tests.goldens.vision.words import Vocabulary

SECTIONS = (2, 1, 1)
TEXT = TextSizes(eps=1e-5)
TURNED = TEXT.head // 2
TOWER = TowerSizes(side=56, blocks=2, width=32, heads=2, feed_forward=96, eps=1e-5)

TEMPLATE = (
    "[gMASK]<sop>{% for message in messages %}<|{{ message.role }}|>\n"
    "{% if message.content is string %}{{ message.content }}{% else %}"
    "{% for part in message.content %}{% if part.type == 'image' %}"
    "<|begin_of_image|><|image|><|end_of_image|>{% else %}{{ part.text }}{% endif %}{% endfor %}"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
VOCABULARY = Vocabulary(
    pre="chatglm-bpe",
    special=(
        *("<|endoftext|>", "[gMASK]", "<sop>", "<|user|>", "<|assistant|>"),
        *("<|begin_of_image|>", "<|end_of_image|>", "<|image|>"),
    ),
    bos="<|endoftext|>",
    eos="<|endoftext|>",
    template=TEMPLATE,
)
NAMES = (
    (rf"{LAYER}\.mlp\.gate_up_proj\.weight", r"blk.\1.ffn_up.weight"),
    (rf"{LAYER}\.post_self_attn_layernorm\.weight", r"blk.\1.post_attention_norm.weight"),
    (rf"{LAYER}\.post_mlp_layernorm\.weight", r"blk.\1.post_ffw_norm.weight"),
    *TEXT_NAMES,
)
MERGER = rf"{qwen.VISUAL}\.merger"
MMPROJ = (
    *qwen.BLOCK_NAMES,
    (rf"{qwen.BLOCK}\.attn\.([qk])_norm\.weight", r"v.blk.\1.attn_\2_norm.weight"),
    (rf"{qwen.VISUAL}\.post_conv_layernorm\.weight", r"v.norm_embd.weight"),
    (rf"{qwen.VISUAL}\.embeddings\.position_embedding\.weight", r"v.position_embd.weight"),
    (rf"{qwen.VISUAL}\.post_layernorm\.weight", r"v.post_ln.weight"),
    (rf"{qwen.VISUAL}\.downsample\.(\w+)", r"mm.patch_merger.\1"),
    (rf"{MERGER}\.proj\.weight", r"mm.model.fc.weight"),
    (rf"{MERGER}\.post_projection_norm\.(\w+)", r"mm.post_norm.\1"),
    (rf"{MERGER}\.(gate|up|down)_proj\.weight", r"mm.\1.weight"),
)


def text(state: State) -> File:
    """The language model by itself; what turns neighbours comes to turn halves, by converters."""
    file = words(state, "glm4", TEXT, NAMES)
    return File("glm4", file.metadata, {n: _halves(n, v) for n, v in file.tensors.items()})


def words(state: State, architecture: str, sizes: TextSizes, names: Any, **more: Any) -> File:
    """A text model half of whose heads turns, in sections."""
    keys: Mapping[str, Any] = {
        "rope.dimension_count": TURNED,
        "rope.dimension_sections": [*SECTIONS, 0],
        **more,
    }
    own = {f"{architecture}.{key.replace('__', '.')}": value for key, value in keys.items()}
    metadata = sizes.metadata(architecture) | own | VOCABULARY.metadata()
    return File(architecture, metadata, dict(renamed(state, names)))


def _halves(name: str, values: np.ndarray) -> np.ndarray:
    if "attn_q" not in name and "attn_k" not in name:
        return values
    heads = values.reshape(-1, TEXT.head, *values.shape[1:])
    turned, rest = heads[:, :TURNED], heads[:, TURNED:]
    parts = (turned[:, 0::2], turned[:, 1::2], rest)
    return np.concatenate(parts, axis=1).reshape(values.shape)


def mmproj(state: State, sizes: TowerSizes = TOWER) -> File:
    """llama.cpp's file of the tower."""
    tensors = dict(renamed(state, MMPROJ))
    tensors = qwen.two_frames(tensors, "v.patch_embd.weight", "v.patch_embd.weight.1")
    keys = sizes.mmproj("glm4v", TEXT.embedding, CLIP_MEAN, CLIP_STD)
    return File("clip", {"clip.use_silu": True} | keys, tensors)
