"""Gemma 4's large models: bounded matrices, rows of a picture that see one another in windows."""

from __future__ import annotations

import numpy as np

from tests.goldens.vision.files.gemma3 import TEXT_PARTS
from tests.goldens.vision.files.text import LAYER, OUTSIDE, TextSizes
from tests.goldens.vision.files.tower import TowerSizes
from tests.goldens.vision.layout import File, State, renamed
from tests.goldens.vision.words import Vocabulary

ARCHITECTURE = "gemma4"
WINDOW, GLOBAL, TURNED = 24, 64, 8
"""Tokens of a window; channels of a head of global layers, and how many pairs of these turn."""

TEXT = TextSizes(layers=4, heads=2, kv_heads=1, head=32, feed_forward=64, eps=1e-6, base=1e6)
WINDOWED = (True, False, True, False)
TOWER = TowerSizes(side=224, patch=4, blocks=2, width=32, heads=2, feed_forward=48)
POOL, PLACES, ROWS = 3, 64, 20
EDGES = ("input_min", "input_max", "output_min", "output_max")
BOUNDS = {
    part: (-1 - 0.1 * i, 1 + 0.05 * i, -1.2 - 0.1 * i, 1.3 + 0.07 * i)
    for i, part in enumerate(("q", "k", "v", "o", "gate", "up", "down"))
}
"""Of block 0, by the matrix: the least and the most that enters, and that leaves."""

SHIFT = np.linspace(-0.5, 0.75, TOWER.width, dtype=np.float32)
SPREAD = np.linspace(0.5, 1.5, TOWER.width, dtype=np.float32)
"""What is taken from averaged rows, and what they are multiplied by."""

TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|turn>{{ message.role }}\n"
    "{% if message.content is string %}{{ message.content }}{% else %}"
    "{% for part in message.content %}{% if part.type == 'image' %}<|image|>"
    "{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}<turn|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|turn>model\n{% endif %}"
)
VOCABULARY = Vocabulary(
    pre="default",
    special=(
        *("<pad>", "<eos>", "<bos>", "<|turn>", "<turn|>"),
        *("<|image>", "<image|>", "<|image|>"),
    ),
    bos="<bos>",
    eos="<eos>",
    template=TEMPLATE,
    add_bos=True,
)

OF_LAYER = (
    (rf"{LAYER}\.per_layer_input_gate\.weight", r"blk.\1.inp_gate.weight"),
    (rf"{LAYER}\.per_layer_projection\.weight", r"blk.\1.proj.weight"),
    (rf"{LAYER}\.post_per_layer_input_norm\.weight", r"blk.\1.post_norm.weight"),
    (rf"{OUTSIDE}embed_tokens_per_layer\.weight", r"per_layer_token_embd.weight"),
    (rf"{OUTSIDE}per_layer_model_projection\.weight", r"per_layer_model_proj.weight"),
    (rf"{OUTSIDE}per_layer_projection_norm\.weight", r"per_layer_proj_norm.weight"),
)
EYES = r"model\.vision_tower"
BLOCK = rf"{EYES}\.encoder\.layers\.(\d+)"
MMPROJ = (
    (rf"{EYES}\.patch_embedder\.input_proj\.weight", r"v.patch_embd.weight"),
    (rf"{EYES}\.patch_embedder\.position_embedding_table", r"v.position_embd.weight"),
    (rf"{BLOCK}\.self_attn\.([qkv])_proj\.linear\.weight", r"v.blk.\1.attn_\2.weight"),
    (rf"{BLOCK}\.self_attn\.o_proj\.linear\.weight", r"v.blk.\1.attn_out.weight"),
    (rf"{BLOCK}\.self_attn\.([qk])_norm\.weight", r"v.blk.\1.attn_\2_norm.weight"),
    (rf"{BLOCK}\.mlp\.(gate|up|down)_proj\.linear\.weight", r"v.blk.\1.ffn_\2.weight"),
    (rf"{BLOCK}\.input_layernorm\.weight", r"v.blk.\1.ln1.weight"),
    (rf"{BLOCK}\.post_attention_layernorm\.weight", r"v.blk.\1.attn_post_norm.weight"),
    (rf"{BLOCK}\.pre_feedforward_layernorm\.weight", r"v.blk.\1.ln2.weight"),
    (rf"{BLOCK}\.post_feedforward_layernorm\.weight", r"v.blk.\1.ffn_post_norm.weight"),
    (r"model\.embed_vision\.embedding_projection\.weight", r"mm.input_projection.weight"),
)


def text(state: State, per_layer: int = 0) -> File:
    """The language model by itself."""
    keys = {
        "attention.key_length": GLOBAL,
        "attention.value_length": GLOBAL,
        "attention.key_length_swa": TEXT.head,
        "attention.value_length_swa": TEXT.head,
        "attention.sliding_window": WINDOW,
        "attention.sliding_window_pattern": list(WINDOWED),
        "embedding_length_per_layer_input": per_layer,
        "rope.dimension_count": GLOBAL,
        "rope.dimension_count_swa": TEXT.head,
        "rope.freq_base_swa": 1e4,
    }
    own = {f"{ARCHITECTURE}.{key}": value for key, value in keys.items()}
    tensors = dict(renamed(state, (*OF_LAYER, *TEXT_PARTS)))
    still = GLOBAL // 2 - TURNED  # pairs, whose angles are 0
    tensors["rope_freqs.weight"] = np.array([1.0] * TURNED + [1e30] * still, np.float32)
    metadata = TEXT.metadata(ARCHITECTURE) | own | VOCABULARY.metadata()
    return File(ARCHITECTURE, metadata, tensors)


def mmproj(state: State, is_standard: bool = True) -> File:
    """llama.cpp's file of the tower."""
    tensors = dict(renamed(state, MMPROJ))
    kernels = tensors["v.patch_embd.weight"].reshape(-1, TOWER.patch, TOWER.patch, 3)
    tensors["v.patch_embd.weight"] = kernels.transpose(0, 3, 1, 2)
    for part, bounds in BOUNDS.items():
        name = f"ffn_{part}" if part in ("gate", "up", "down") else f"attn_{part}"
        name = name.replace("attn_o", "attn_out")
        for edge, bound in zip(EDGES, bounds, strict=True):
            tensors[f"v.blk.0.{name}.{edge}"] = np.array([bound], np.float32)
    if is_standard:
        tensors |= {"v.std_bias": SHIFT, "v.std_scale": SPREAD}
    keys = TOWER.mmproj(
        *("gemma4v", TEXT.embedding, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
        projector__scale_factor=POOL,
        image_max_pixels=ROWS * (POOL * TOWER.patch) ** 2,
    )
    return File("clip", {"clip.use_gelu": True} | keys, tensors)
