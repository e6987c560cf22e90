"""Gemma 3: SigLIP, pictures pooled to 16 rows that see one another, six windowed layers to one."""

from __future__ import annotations

from typing import Any

from tests.goldens.vision.files.text import LAYER, TEXT_NAMES, text_metadata
from tests.goldens.vision.layout import File, State, renamed
from tests.goldens.vision.words import Vocabulary

ARCHITECTURE = "gemma3"
E, HEADS, KV_HEADS, HEAD, F, LAYERS, WINDOW = 64, 2, 1, 32, 64, 7, 64
"""Layers 0 to 4 and 6 see a window, layer 5 everything."""

SIDE, PATCH, ROWS = 112, 7, 16
D, VISION_HEADS, VISION_F, BLOCKS = 96, 4, 96, 2
"""Heads of 24: no multiple of 16, as the real 72."""

TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<start_of_turn>"
    "{{ 'model' if message.role == 'assistant' else message.role }}\n"
    "{% if message.content is string %}{{ message.content | trim }}{% else %}"
    "{% for part in message.content %}{% if part.type == 'image' %}<start_of_image>"
    "{% else %}{{ part.text | trim }}{% endif %}{% endfor %}{% endif %}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
VOCABULARY = Vocabulary(
    pre="default",
    special=(
        *("<pad>", "<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>"),
        *("<start_of_image>", "<end_of_image>", "<image_soft_token>"),
    ),
    bos="<bos>",
    eos="<eos>",
    template=TEMPLATE,
    add_bos=True,
)
IMAGE_MEAN = IMAGE_STD = (0.5, 0.5, 0.5)

TEXT = (
    (rf"{LAYER}\.pre_feedforward_layernorm\.weight", r"blk.\1.ffn_norm.weight"),
    (rf"{LAYER}\.post_feedforward_layernorm\.weight", r"blk.\1.post_ffw_norm.weight"),
    (rf"{LAYER}\.post_attention_layernorm\.weight", r"blk.\1.post_attention_norm.weight"),
    *TEXT_NAMES,
)
BLOCK = r"model\.vision_tower\.encoder\.layers\.(\d+)"
MMPROJ = (
    (r"model\.vision_tower\.embeddings\.patch_embedding\.(\w+)", r"v.patch_embd.\1"),
    (r"model\.vision_tower\.embeddings\.position_embedding\.weight", r"v.position_embd.weight"),
    (r"model\.vision_tower\.post_layernorm\.(\w+)", r"v.post_ln.\1"),
    (rf"{BLOCK}\.self_attn\.([qkv])_proj\.(\w+)", r"v.blk.\1.attn_\2.\3"),
    (rf"{BLOCK}\.self_attn\.out_proj\.(\w+)", r"v.blk.\1.attn_out.\2"),
    (rf"{BLOCK}\.layer_norm([12])\.(\w+)", r"v.blk.\1.ln\2.\3"),
    (rf"{BLOCK}\.mlp\.fc1\.(\w+)", r"v.blk.\1.ffn_up.\2"),
    (rf"{BLOCK}\.mlp\.fc2\.(\w+)", r"v.blk.\1.ffn_down.\2"),
    (r"model\.multi_modal_projector\.mm_soft_emb_norm\.weight", r"mm.soft_emb_norm.weight"),
    (
        r"model\.multi_modal_projector\.mm_input_projection_weight",
        r"mm.input_projection.weight",
    ),
)
SINGLE = (
    (r"v\.patch_embd\.(\w+)", r"v.patch_embedding.\1"),
    (r"v\.position_embd\.weight", r"v.position_embedding.weight"),
    (r"v\.post_ln\.(\w+)", r"v.post_layernorm.\1"),
    (r"v\.blk\.(\d+)\.ln([12])\.(\w+)", r"v.blk.\1.layer_norm\2.\3"),
    (r"v\.blk\.(\d+)\.attn_out\.(\w+)", r"v.blk.\1.attn_output.\2"),
    (r"v\.blk\.(\d+)\.ffn_up\.(\w+)", r"v.blk.\1.mlp.fc1.\2"),
    (r"v\.blk\.(\d+)\.ffn_down\.(\w+)", r"v.blk.\1.mlp.fc2.\2"),
    (r"mm\.(soft_emb_norm|input_projection)\.weight", r"mm.mm_\1.weight"),
    (r"(v\..+)", r"\1"),
)


def text(state: State) -> File:
    """The language model by itself."""
    sizes = text_metadata(ARCHITECTURE, E, LAYERS, HEADS, KV_HEADS, HEAD, F, eps=1e-6, base=1e6)
    window = {"gemma3.attention.sliding_window": WINDOW}
    metadata = sizes | window | VOCABULARY.metadata()
    tensors = dict(renamed(state, TEXT))
    # Every norm multiplies by 1 + its weight; files hold the sum.
    return File(
        ARCHITECTURE, metadata, {n: v + 1 if "norm" in n else v for n, v in tensors.items()}
    )


def mmproj(state: State) -> File:
    """llama.cpp's file of the tower."""
    tensors = dict(renamed(state, MMPROJ))
    tensors["mm.soft_emb_norm.weight"] += 1
    metadata: dict[str, Any] = {
        "clip.has_vision_encoder": True,
        "clip.projector_type": "gemma3",
        "clip.use_gelu": True,
        "clip.vision.image_size": SIDE,
        "clip.vision.patch_size": PATCH,
        "clip.vision.embedding_length": D,
        "clip.vision.feed_forward_length": VISION_F,
        "clip.vision.block_count": BLOCKS,
        "clip.vision.projection_dim": E,
        "clip.vision.attention.head_count": VISION_HEADS,
        "clip.vision.attention.layer_norm_epsilon": 1e-6,
        "clip.vision.image_mean": list(IMAGE_MEAN),
        "clip.vision.image_std": list(IMAGE_STD),
        "clip.vision.projector.scale_factor": SIDE // PATCH // 4,
    }
    return File("clip", metadata, tensors)


def single(state: State) -> File:
    """Ollama's file of both."""
    words, tower = text(state), mmproj(state)
    metadata = {
        "gemma3.mm.tokens_per_image": ROWS,
        "gemma3.vision.image_size": SIDE,
        "gemma3.vision.patch_size": PATCH,
        "gemma3.vision.num_channels": 3,
        "gemma3.vision.embedding_length": D,
        "gemma3.vision.feed_forward_length": VISION_F,
        "gemma3.vision.block_count": BLOCKS,
        "gemma3.vision.attention.head_count": VISION_HEADS,
        "gemma3.vision.attention.layer_norm_epsilon": 1e-6,
    }
    tensors = dict(words.tensors) | dict(renamed(tower.tensors, SINGLE))
    return File(ARCHITECTURE, dict(words.metadata) | metadata, tensors)
