"""What text models have in common: sizes, and names of tensors in GGUF."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.goldens.vision.layout import File, Names, State, adjacent, renamed
from tests.goldens.vision.words import Vocabulary

OUTSIDE = r"(?:model\.)?(?:language|text)_model\.(?:model\.)?"
LAYER = rf"{OUTSIDE}layers\.(\d+)"
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


class TextSizes(NamedTuple):
    """The numbers of a text model, for its file and for its reference."""

    layers: int = 3
    embedding: int = 64
    heads: int = 4
    kv_heads: int = 2
    head: int = 16
    feed_forward: int = 96
    eps: float = 1e-5
    base: float = 1e4

    def metadata(self, architecture: str) -> dict[str, Any]:
        """The keys that all text models have."""
        keys = {
            "context_length": 1024,
            "embedding_length": self.embedding,
            "block_count": self.layers,
            "attention.head_count": self.heads,
            "attention.head_count_kv": self.kv_heads,
            "attention.key_length": self.head,
            "attention.value_length": self.head,
            "attention.layer_norm_rms_epsilon": self.eps,
            "feed_forward_length": self.feed_forward,
            "rope.dimension_count": self.head,
            "rope.freq_base": self.base,
        }
        own = {f"{architecture}.{key}": value for key, value in keys.items()}
        return {"general.name": "tiny"} | own

    def config(self, vocabulary: Vocabulary) -> dict[str, Any]:
        """What transformers' configuration says of it."""
        return {
            "vocab_size": len(vocabulary),
            "hidden_size": self.embedding,
            "intermediate_size": self.feed_forward,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head,
            "rms_norm_eps": self.eps,
            "rope_parameters": {"rope_type": "default", "rope_theta": self.base},
            "pad_token_id": None,
            "tie_word_embeddings": False,
        }


def llama(
    state: State, sizes: TextSizes, vocabulary: Vocabulary, architecture: str = "llama"
) -> File:
    """A text model of Llama's kind, whose queries and keys turn neighbours."""
    tensors = dict(renamed(state, TEXT_NAMES))
    for name in tensors:
        if name.endswith("attn_q.weight"):
            tensors[name] = adjacent(tensors[name], sizes.heads)
        elif name.endswith("attn_k.weight"):
            tensors[name] = adjacent(tensors[name], sizes.kv_heads)
    return File(architecture, sizes.metadata(architecture) | vocabulary.metadata(), tensors)
