"""Kimi-VL: padded pictures, pairs that turn by both axes, and a text model with latents."""

from __future__ import annotations

import numpy as np

from tests.goldens.vision.files.text import LAYER, TEXT_NAMES, TextSizes
from tests.goldens.vision.files.tower import HALF, TowerSizes
from tests.goldens.vision.layout import File, State, adjacent, renamed
from tests.goldens.vision.words import Vocabulary

TEXT = TextSizes(eps=1e-6)
TURNED, PLAIN, VALUES, RANK = 8, 8, 8, 24
"""Channels of a head that turn, those that do not, those of its values, and of the latent."""

TOWER = TowerSizes(side=56, width=32, heads=2, feed_forward=64, eps=1e-5)
SQUARE, MERGE = TOWER.side // TOWER.patch, 2

TEMPLATE = (
    "{% for message in messages %}<|im_user|>{{ message.role }}<|im_middle|>"
    "{% if message.content is string %}{{ message.content }}{% else %}"
    "{% for part in message.content %}{% if part.type == 'image' %}"
    "<|media_start|>image<|media_content|><|media_pad|><|media_end|>{% else %}{{ part.text }}"
    "{% endif %}{% endfor %}{% endif %}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_assistant|>assistant<|im_middle|>{% endif %}"
)
VOCABULARY = Vocabulary(
    pre="kimi-k2",
    special=(
        *("[BOS]", "[EOS]", "<|im_user|>", "<|im_assistant|>", "<|im_middle|>", "<|im_end|>"),
        *("<|media_start|>", "<|media_content|>", "<|media_pad|>", "<|media_end|>"),
    ),
    bos="[BOS]",
    eos="<|im_end|>",
    template=TEMPLATE,
)
NAMES = (
    (rf"{LAYER}\.self_attn\.q_proj\.weight", r"blk.\1.attn_q.weight"),
    (rf"{LAYER}\.self_attn\.kv_a_proj_with_mqa\.weight", r"blk.\1.attn_kv_a_mqa.weight"),
    (rf"{LAYER}\.self_attn\.kv_a_layernorm\.weight", r"blk.\1.attn_kv_a_norm.weight"),
    (rf"{LAYER}\.self_attn\.kv_b_proj\.weight", r"blk.\1.attn_kv_b"),
    *TEXT_NAMES,
)
VISION, PROJECTOR = r"model\.vision_tower", r"model\.mm_projector"
BLOCK = rf"{VISION}\.layers\.(\d+)"
MMPROJ = (
    (rf"{VISION}\.patch_embed\.proj\.(\w+)", r"v.patch_embd.\1"),
    (rf"{VISION}\.patch_embed\.pos_emb\.position_embeddings", r"v.position_embd.weight"),
    (rf"{BLOCK}\.norm([12])\.(\w+)", r"v.blk.\1.ln\2.\3"),
    (rf"{BLOCK}\.attn\.([qkv])_proj\.(\w+)", r"v.blk.\1.attn_\2.\3"),
    (rf"{BLOCK}\.attn\.proj\.(\w+)", r"v.blk.\1.attn_out.\2"),
    (rf"{BLOCK}\.mlp\.fc1\.(\w+)", r"v.blk.\1.ffn_up.\2"),
    (rf"{BLOCK}\.mlp\.fc2\.(\w+)", r"v.blk.\1.ffn_down.\2"),
    (rf"{VISION}\.final_layernorm\.(\w+)", r"v.post_ln.\1"),
    (rf"{PROJECTOR}\.pre_norm\.(\w+)", r"mm.input_norm.\1"),
    (rf"{PROJECTOR}\.in_proj\.(\w+)", r"mm.1.\1"),
    (rf"{PROJECTOR}\.out_proj\.(\w+)", r"mm.2.\1"),
)


def text(state: State) -> File:
    """The language model by itself; what makes keys and values of latents is two matrices."""
    keys = {
        "attention.head_count_kv": 1,
        "attention.kv_lora_rank": RANK,
        "attention.key_length": RANK + TURNED,
        "attention.value_length": RANK,
        "attention.key_length_mla": PLAIN + TURNED,
        "attention.value_length_mla": VALUES,
        "rope.dimension_count": TURNED,
        "leading_dense_block_count": TEXT.layers,
    }
    own = {f"deepseek2.{key}": value for key, value in keys.items()}
    tensors: dict[str, np.ndarray] = {}
    for name, values in renamed(state, NAMES):
        if name.endswith("attn_kv_b"):
            heads = values.reshape(TEXT.heads, PLAIN + VALUES, RANK)
            tensors[name.replace("kv_b", "k_b.weight")] = heads[:, :PLAIN].swapaxes(1, 2).copy()
            tensors[name.replace("kv_b", "v_b.weight")] = heads[:, PLAIN:].copy()
        else:
            tensors[name] = values
    return File("deepseek2", TEXT.metadata("deepseek2") | own | VOCABULARY.metadata(), tensors)


def mmproj(state: State) -> File:
    """llama.cpp's file of the tower, whose pairs are neighbours as in the published weights."""
    tensors = dict(renamed(state, MMPROJ))
    for name, values in tensors.items():
        if "attn_q" in name or "attn_k" in name:
            tensors[name] = adjacent(values, TOWER.heads)
    tensors["v.position_embd.weight"] = tensors["v.position_embd.weight"].reshape(SQUARE**2, -1)
    keys = TOWER.mmproj("kimivl", TEXT.embedding, HALF, HALF, projector__scale_factor=MERGE)
    return File("clip", {"clip.use_gelu": True} | keys, tensors)
