"""Llama 4: tiles with an overview, experts, chunked attention and a layer without rope."""

from __future__ import annotations

import numpy as np

from tests.goldens.vision.files.text import LAYER, TEXT_NAMES, TextSizes
from tests.goldens.vision.files.tower import HALF, TowerSizes
from tests.goldens.vision.layout import File, State, renamed
from tests.goldens.vision.words import Vocabulary

EXPERTS, EXPERT_F, MOE_STEP, NO_ROPE_STEP = 4, 64, 2, 4
"""Layers 1 and 3 have experts, one of which is taken; layer 3 has no rope."""

CHUNK, FLOOR = 64, 48
"""Tokens of a chunk, and of a step of the temperature."""

TEXT = TextSizes(layers=4, base=5e5)
TOWER = TowerSizes(side=28, width=32, heads=2, feed_forward=128, eps=1e-5)
SCALE, ADAPTER, MOST_TILES = 2, 64, 16
ROWS = (TOWER.side // TOWER.patch // SCALE) ** 2

TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|header_start|>{{ message.role }}<|header_end|>"
    "\n\n{% if message.content is string %}{{ message.content }}{% else %}"
    "{% for part in message.content %}{% if part.type == 'image' %}<|image|>"
    "{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}<|eot|>{% endfor %}"
    "{% if add_generation_prompt %}<|header_start|>assistant<|header_end|>\n\n{% endif %}"
)
VOCABULARY = Vocabulary(
    pre="llama4",
    special=(
        *("<|begin_of_text|>", "<|end_of_text|>", "<|eot|>", "<|header_start|>", "<|header_end|>"),
        *("<|image_start|>", "<|image_end|>", "<|image|>", "<|patch|>"),
        *("<|tile_x_separator|>", "<|tile_y_separator|>"),
    ),
    bos="<|begin_of_text|>",
    eos="<|eot|>",
    template=TEMPLATE,
    add_bos=True,
)

TEXT_PARTS = (
    *TEXT_NAMES,
    (rf"{LAYER}\.feed_forward\.(gate|up|down)_proj\.weight", r"blk.\1.ffn_\2.weight"),
    (rf"{LAYER}\.feed_forward\.router\.weight", r"blk.\1.ffn_gate_inp.weight"),
    (
        rf"{LAYER}\.feed_forward\.shared_expert\.(gate|up|down)_proj\.weight",
        r"blk.\1.ffn_\2_shexp.weight",
    ),
    (rf"{LAYER}\.feed_forward\.experts\.gate_up_proj", r"blk.\1.ffn_gate_up_exps.weight"),
    (rf"{LAYER}\.feed_forward\.experts\.down_proj", r"blk.\1.ffn_down_exps.weight"),
)
BLOCK = r"vision_model\.model\.layers\.(\d+)"
MMPROJ = (
    (r"vision_model\.class_embedding", r"v.class_embd"),
    (r"vision_model\.positional_embedding_vlm", r"v.position_embd.weight"),
    (r"vision_model\.patch_embedding\.linear\.weight", r"v.patch_embd.weight"),
    (r"vision_model\.layernorm_(pre|post)\.(\w+)", r"v.\1_ln.\2"),
    (rf"{BLOCK}\.self_attn\.([qkv])_proj\.(\w+)", r"v.blk.\1.attn_\2.\3"),
    (rf"{BLOCK}\.self_attn\.o_proj\.(\w+)", r"v.blk.\1.attn_out.\2"),
    (rf"{BLOCK}\.input_layernorm\.(\w+)", r"v.blk.\1.ln1.\2"),
    # Recent converters call the second norm so.
    (rf"{BLOCK}\.post_attention_layernorm\.(\w+)", r"v.blk.\1.attn_post_norm.\2"),
    (rf"{BLOCK}\.mlp\.fc1\.(\w+)", r"v.blk.\1.ffn_up.\2"),
    (rf"{BLOCK}\.mlp\.fc2\.(\w+)", r"v.blk.\1.ffn_down.\2"),
    (r"vision_model\.vision_adapter\.mlp\.fc([12])\.weight", r"mm.model.mlp.\1.weight"),
    (r"multi_modal_projector\.linear_1\.weight", r"mm.model.fc.weight"),
)
SINGLE = (
    (r"v\.class_embd", r"v.class_embedding"),
    (r"v\.position_embd\.weight", r"v.positional_embedding_vlm"),
    (r"v\.patch_embd\.weight", r"v.patch_embedding.weight"),
    (r"v\.(pre|post)_ln\.(\w+)", r"v.layernorm_\1.\2"),
    (r"v\.blk\.(\d+)\.attn_out\.(\w+)", r"v.blk.\1.attn_output.\2"),
    (r"v\.blk\.(\d+)\.ln1\.(\w+)", r"v.blk.\1.attn_norm.\2"),
    (r"v\.blk\.(\d+)\.attn_post_norm\.(\w+)", r"v.blk.\1.ffn_norm.\2"),
    (r"v\.blk\.(\d+)\.ffn_up\.(\w+)", r"v.blk.\1.mlp.fc1.\2"),
    (r"v\.blk\.(\d+)\.ffn_down\.(\w+)", r"v.blk.\1.mlp.fc2.\2"),
    (r"(v\.blk\..+)", r"\1"),
    (r"mm\.model\.mlp\.([12])\.weight", r"v.vision_adapter.mlp.fc\1.weight"),
    (r"mm\.model\.fc\.weight", r"mm.linear_1.weight"),
)


def text(state: State) -> File:
    """The language model by itself; its queries and keys turn neighbours in transformers too."""
    keys = {
        "expert_count": EXPERTS,
        "expert_used_count": 1,
        "expert_feed_forward_length": EXPERT_F,
        "interleave_moe_layer_step": MOE_STEP,
        "attention.chunk_size": CHUNK,
        "attention.floor_scale": FLOOR,
        "attention.scale": 0.1,
        "attention.temperature_tuning": True,
    }
    own = {f"llama4.{key}": value for key, value in keys.items()}
    tensors = {}
    for name, values in renamed(state, TEXT_PARTS):
        if "gate_up_exps" in name:
            gate, up = np.split(values.swapaxes(1, 2), 2, axis=1)
            tensors |= {name.replace("gate_up", "gate"): gate, name.replace("gate_up", "up"): up}
        else:
            tensors[name] = values.swapaxes(1, 2) if "down_exps" in name else values
    metadata = TEXT.metadata("llama4") | own | VOCABULARY.metadata()
    return File("llama4", metadata, tensors)


def mmproj(state: State) -> File:
    """llama.cpp's file of the tower; a patch's kernel is a matrix."""
    keys = TOWER.mmproj("llama4", TEXT.embedding, HALF, HALF, projector__scale_factor=SCALE)
    return File("clip", {"clip.use_gelu": True} | keys, dict(renamed(state, MMPROJ)))


def single(state: State) -> File:
    """Ollama's file of both."""
    words = text(state)
    keys = {
        "llama4.use_qk_norm": True,
        "llama4.intermediate_size": TEXT.feed_forward,
        "llama4.intermediate_size_moe": EXPERT_F,
        "llama4.vision.rope.freq_base": 1e4,
        "llama4.vision.layer_norm_epsilon": TOWER.eps,
        "llama4.vision.pixel_shuffle_ratio": 1 / SCALE,
    }
    metadata = dict(words.metadata) | TOWER.metadata("llama4") | keys
    del metadata["llama4.vision.attention.layer_norm_epsilon"]
    tower = dict(renamed(dict(renamed(state, MMPROJ)), SINGLE))
    return File("llama4", metadata, dict(words.tensors) | tower)
