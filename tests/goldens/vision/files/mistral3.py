"""Mistral Small 3.1: Pixtral's tower for pictures of any size, patches merged two by two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.goldens.vision.files.text import TextSizes, llama
from tests.goldens.vision.files.tower import CLIP_MEAN, CLIP_STD, TowerSizes
from tests.goldens.vision.layout import File, State, adjacent, renamed
from tests.goldens.vision.words import Vocabulary

MERGE = 2
TEXT = TextSizes(eps=1e-4)
"""The projector's norm takes this epsilon, and not the tower's."""

TOWER = TowerSizes(side=112, eps=1e-5)
"""`side` is the longest edge."""

TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{% if message.role == 'user' %}[INST]"
    "{% if message.content is string %}{{ message.content }}{% else %}"
    "{% for part in message.content %}{% if part.type == 'text' %}{{ part.text }}"
    "{% elif part.type == 'image' %}[IMG]{% endif %}{% endfor %}{% endif %}[/INST]"
    "{% else %}{{ message.content }}{{ eos_token }}{% endif %}{% endfor %}"
)
SPECIAL = ("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[IMG]", "[IMG_BREAK]", "[IMG_END]")
VOCABULARY = Vocabulary(
    pre="tekken", special=SPECIAL, bos="<s>", eos="</s>", template=TEMPLATE, add_bos=True
)

BLOCK = r"model\.vision_tower\.transformer\.layers\.(\d+)"
PROJECTOR = r"model\.multi_modal_projector"
MMPROJ = (
    (r"model\.vision_tower\.patch_conv\.weight", r"v.patch_embd.weight"),
    (r"model\.vision_tower\.ln_pre\.weight", r"v.pre_ln.weight"),
    (rf"{BLOCK}\.attention\.([qkv])_proj\.weight", r"v.blk.\1.attn_\2.weight"),
    (rf"{BLOCK}\.attention\.o_proj\.weight", r"v.blk.\1.attn_out.weight"),
    (rf"{BLOCK}\.attention_norm\.weight", r"v.blk.\1.ln1.weight"),
    (rf"{BLOCK}\.ffn_norm\.weight", r"v.blk.\1.ln2.weight"),
    (rf"{BLOCK}\.feed_forward\.(gate|up|down)_proj\.weight", r"v.blk.\1.ffn_\2.weight"),
    (rf"{PROJECTOR}\.norm\.weight", r"mm.input_norm.weight"),
    (rf"{PROJECTOR}\.patch_merger\.merging_layer\.weight", r"mm.patch_merger.weight"),
    (rf"{PROJECTOR}\.linear_([12])\.(\w+)", r"mm.\1.\2"),
)
SINGLE = (
    (r"v\.patch_embd\.weight", r"v.patch_conv.weight"),
    (r"v\.pre_ln\.weight", r"v.encoder_norm.weight"),
    (r"v\.blk\.(\d+)\.attn_out\.weight", r"v.blk.\1.attn_output.weight"),
    (r"v\.blk\.(\d+)\.ln1\.weight", r"v.blk.\1.attn_norm.weight"),
    (r"v\.blk\.(\d+)\.ln2\.weight", r"v.blk.\1.ffn_norm.weight"),
    (r"(v\.blk\..+)", r"\1"),
    (r"mm\.input_norm\.weight", r"mm.norm.weight"),
    (r"mm\.patch_merger\.weight", r"mm.patch_merger.merging_layer.weight"),
    (r"mm\.([12])\.weight", r"mm.linear_\1.weight"),
)


def text(state: State) -> File:
    """The language model by itself."""
    return llama(state, TEXT, VOCABULARY)


def mmproj(state: State) -> File:
    """llama.cpp's file of the tower: queries and keys turn neighbours."""
    return File("clip", _metadata(), pixtral_tensors(state, TOWER, VOCABULARY))


def single(state: State) -> File:
    """Ollama's file of both: the tower's queries and keys turn halves, as in transformers."""
    words = llama(state, TEXT, VOCABULARY, "mistral3")
    keys = {
        "mistral3.vision.num_channels": 3,
        "mistral3.vision.longest_edge": TOWER.side,
        "mistral3.vision.attention.key_length": TOWER.width // TOWER.heads,
        "mistral3.vision.rope.freq_base": 1e4,
        "mistral3.spatial_merge_size": MERGE,
        "mistral3.text_config.rms_norm_eps": TEXT.eps,
    }
    metadata = dict(words.metadata) | TOWER.metadata("mistral3") | keys
    tower = dict(renamed(dict(renamed(state, MMPROJ)), SINGLE))
    return File("mistral3", metadata, dict(words.tensors) | tower)


def _metadata() -> Mapping[str, Any]:
    keys = TOWER.mmproj("pixtral", TEXT.embedding, CLIP_MEAN, CLIP_STD, spatial_merge_size=MERGE)
    return {"clip.use_silu": True} | keys


def pixtral_tensors(
    state: State, tower: TowerSizes, vocabulary: Vocabulary
) -> dict[str, np.ndarray]:
    """The tensors of Pixtral's tower as llama.cpp stores them."""
    tensors = dict(renamed(state, MMPROJ))
    for name in tensors:
        if name.endswith(("attn_q.weight", "attn_k.weight")):
            tensors[name] = adjacent(tensors[name], tower.heads)
    embedding = state["model.language_model.embed_tokens.weight"].astype(np.float32)
    tensors["v.token_embd.img_break"] = embedding[vocabulary.id("[IMG_BREAK]")]
    return tensors
