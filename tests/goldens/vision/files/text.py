"""What text models have in common: keys of sizes, and names of tensors in GGUF."""

from __future__ import annotations

from typing import Any

from tests.goldens.vision.layout import Names

LAYER = r"(?:model\.)?(?:language|text)_model\.(?:model\.)?layers\.(\d+)"
OUTSIDE = r"(?:model\.)?(?:language|text)_model\.(?:model\.)?"
TEXT_NAMES: Names = (
    (rf"{OUTSIDE}embed_tokens\.weight", r"token_embd.weight"),
    (rf"{OUTSIDE}norm\.weight", r"output_norm.weight"),
    (r"(?:language_model\.)?lm_head\.weight", r"output.weight"),
    (rf"{LAYER}\.self_attn\.([qkv])_proj\.(\w+)", r"blk.\1.attn_\2.\3"),
    (rf"{LAYER}\.self_attn\.o_proj\.weight", r"blk.\1.attn_output.weight"),
    (rf"{LAYER}\.self_attn\.([qk])_norm\.weight", r"blk.\1.attn_\2_norm.weight"),
    (rf"{LAYER}\.mlp\.(gate|up|down)_proj\.weight", r"blk.\1.ffn_\2.weight"),
    (rf"{LAYER}\.input_layernorm\.weight", r"blk.\1.attn_norm.weight"),
    (rf"{LAYER}\.post_attention_layernorm\.weight", r"blk.\1.ffn_norm.weight"),
)


def text_metadata(
    architecture: str,
    embedding: int,
    layers: int,
    heads: int,
    kv_heads: int,
    head: int,
    feed_forward: int,
    eps: float,
    base: float,
) -> dict[str, Any]:
    """The keys that all text models have."""
    keys = {
        "context_length": 1024,
        "embedding_length": embedding,
        "block_count": layers,
        "attention.head_count": heads,
        "attention.head_count_kv": kv_heads,
        "attention.key_length": head,
        "attention.value_length": head,
        "attention.layer_norm_rms_epsilon": eps,
        "feed_forward_length": feed_forward,
        "rope.dimension_count": head,
        "rope.freq_base": base,
    }
    own = {f"{architecture}.{key}": value for key, value in keys.items()}
    return {"general.name": "tiny"} | own
