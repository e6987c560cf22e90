"""Llama 3.2 Vision: four tiles in one sequence, seen by layers of cross attention.

llama.cpp has no file for it: only Ollama's is written.
"""

from __future__ import annotations

import numpy as np

from tests.goldens.vision.files.text import LAYER, TextSizes, llama
from tests.goldens.vision.files.tower import TowerSizes
from tests.goldens.vision.layout import File, State, adjacent, renamed
from tests.goldens.vision.words import Vocabulary

CROSS = (1, 4)
"""Layers of the text that look at pictures."""

TEXT = TextSizes(layers=6, feed_forward=64)
TOWER = TowerSizes(side=42, blocks=3, width=32, heads=2, feed_forward=64, eps=1e-5)
"""36 patches and a class row: 3 rows of padding make 40."""

GLOBAL_BLOCKS, INTERMEDIATE, TILES = 2, (0, 2), 4
"""Blocks with gates; the blocks whose inputs are kept; tiles of the largest picture."""

SHAPES = ((1, 1), (1, 2), (1, 3), (1, 4), (2, 1), (2, 2), (3, 1), (4, 1))
"""Arrangements (rows, columns) of tiles; ids count them from 1."""

TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|start_header_id|>{{ message.role }}"
    "<|end_header_id|>\n\n{% if message.content is string %}{{ message.content }}{% else %}"
    "{% for part in message.content %}{% if part.type == 'image' %}<|image|>"
    "{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
VOCABULARY = Vocabulary(
    pre="llama-bpe",
    special=(
        *("<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"),
        *("<|start_header_id|>", "<|end_header_id|>", "<|image|>"),
    ),
    bos="<|begin_of_text|>",
    eos="<|eot_id|>",
    template=TEMPLATE,
    add_bos=True,
)
"""The last token, the picture's, has an embedding and no logit."""

VISION = r"model\.vision_model"
BLOCK = rf"{VISION}\.transformer\.layers\.(\d+)"
GLOBAL = rf"{VISION}\.global_transformer\.layers\.(\d+)"
TILE = r"\.(?:embedding\.)?(weight|gate)"
SINGLE = (
    (rf"{VISION}\.class_embedding", r"v.class_embd"),
    (rf"{VISION}\.patch_embedding\.weight", r"v.patch_embd.weight"),
    (rf"{VISION}\.gated_positional_embedding\.embedding", r"v.position_embd.weight"),
    (rf"{VISION}\.gated_positional_embedding\.gate", r"v.position_embd.gate"),
    (
        rf"{VISION}\.gated_positional_embedding\.tile_embedding\.weight",
        r"v.tile_position_embd.weight",
    ),
    (rf"{VISION}\.(pre|post)_tile_positional_embedding{TILE}", r"v.\1_tile_position_embd.\2"),
    (rf"{VISION}\.layernorm_(pre|post)\.(\w+)", r"v.\1_ln.\2"),
    (r"model\.multi_modal_projector\.(\w+)", r"mm.0.\1"),
    *(
        (rf"{block}\.{theirs}", rf"{prefix}.\1.{ours}")
        for block, prefix in ((BLOCK, "v.blk"), (GLOBAL, "v.global.blk"))
        for theirs, ours in (
            (r"self_attn\.([qkv])_proj\.weight", r"attn_\2.weight"),
            (r"self_attn\.o_proj\.weight", r"attn_output.weight"),
            (r"input_layernorm\.(\w+)", r"attn_norm.\2"),
            (r"post_attention_layernorm\.(\w+)", r"ffn_norm.\2"),
            (r"mlp\.fc1\.(\w+)", r"ffn_up.\2"),
            (r"mlp\.fc2\.(\w+)", r"ffn_down.\2"),
            (r"gate_(attn|ffn)", r"\2_gate"),
        )
    ),
)
CROSS_NAMES = (
    (rf"{LAYER}\.cross_attn\.(\w+)\.weight", r"blk.\1.cross_attn_\2.weight"),
    (rf"{LAYER}\.(cross_attn_\w+_gate)", r"blk.\1.\2"),
)


def single(state: State) -> File:
    """Ollama's file of both."""
    words = llama(state, TEXT, VOCABULARY, "mllama")
    keys = {
        "mllama.attention.cross_attention_layers": list(CROSS),
        "mllama.vision.global.block_count": GLOBAL_BLOCKS,
        "mllama.vision.intermediate_layers_indices": list(INTERMEDIATE),
        "mllama.vision.max_num_tiles": TILES,
        "mllama.vision.num_channels": 3,
    }
    metadata = dict(words.metadata) | TOWER.metadata("mllama") | keys
    cross = dict(renamed(state, CROSS_NAMES))
    return File("mllama", metadata, dict(words.tensors) | cross | _tower(state))


def _tower(state: State) -> dict[str, np.ndarray]:
    """The gates of the tower are stored as what they multiply by (those of the text are not), and
    queries and keys as for neighbours that turn, although nothing turns.
    """
    tensors = dict(renamed(state, SINGLE))
    tensors["v.tile_position_embd.gate"] = tensors["v.position_embd.gate"]
    for name, values in tensors.items():
        if name.endswith("gate"):
            tensors[name] = np.tanh(values)
        elif name.endswith(("attn_q.weight", "attn_k.weight")):
            tensors[name] = adjacent(values, TOWER.heads)
    tensors["v.position_embd.gate"] = 1 - tensors["v.position_embd.gate"]
    return tensors
