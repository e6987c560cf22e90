"""What towers have in common: sizes, keys of mmproj files, and the names of CLIP's kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tests.goldens.vision.layout import Names

HALF = (0.5, 0.5, 0.5)
CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)


class TowerSizes(NamedTuple):
    """The numbers of a tower, for its file and for its reference."""

    side: int
    patch: int = 7
    blocks: int = 2
    width: int = 64
    heads: int = 4
    feed_forward: int = 96
    eps: float = 1e-6

    def config(self) -> dict[str, Any]:
        """What transformers' configuration says of it."""
        return {
            "hidden_size": self.width,
            "intermediate_size": self.feed_forward,
            "num_hidden_layers": self.blocks,
            "num_attention_heads": self.heads,
            "image_size": self.side,
            "patch_size": self.patch,
            "layer_norm_eps": self.eps,
        }

    def metadata(self, prefix: str) -> dict[str, Any]:
        """Its keys in either layout; `prefix` is `clip` or the text's architecture."""
        keys = {
            "image_size": self.side,
            "patch_size": self.patch,
            "embedding_length": self.width,
            "feed_forward_length": self.feed_forward,
            "block_count": self.blocks,
            "attention.head_count": self.heads,
            "attention.layer_norm_epsilon": self.eps,
        }
        return {f"{prefix}.vision.{key}": value for key, value in keys.items()}

    def mmproj(
        self,
        projector: str,
        embedding: int,
        mean: Sequence[float] = HALF,
        std: Sequence[float] = HALF,
        **more: Any,
    ) -> dict[str, Any]:
        """The keys of an mmproj file; `more` are those below clip.vision, with __ for a dot."""
        keys = {
            "general.type": "mmproj",
            "clip.has_vision_encoder": True,
            "clip.projector_type": projector,
            "clip.vision.projection_dim": embedding,
            "clip.vision.image_mean": [float(m) for m in mean],
            "clip.vision.image_std": [float(s) for s in std],
        }
        own = {f"clip.vision.{key.replace('__', '.')}": value for key, value in more.items()}
        return self.metadata("clip") | keys | own


def clip_names(prefix: str) -> Names:
    """Names of a tower of CLIP's or SigLIP's classes behind `prefix` in the state dict."""
    block = rf"{prefix}\.encoder\.layers\.(\d+)"
    return (
        (rf"{prefix}\.embeddings\.patch_embedding\.(\w+)", r"v.patch_embd.\1"),
        (rf"{prefix}\.embeddings\.position_embedding\.weight", r"v.position_embd.weight"),
        (rf"{prefix}\.embeddings\.class_embedding", r"v.class_embd"),
        (rf"{prefix}\.pre_layrnorm\.(\w+)", r"v.pre_ln.\1"),
        (rf"{prefix}\.post_layernorm\.(\w+)", r"v.post_ln.\1"),
        (rf"{block}\.self_attn\.([qkv])_proj\.(\w+)", r"v.blk.\1.attn_\2.\3"),
        (rf"{block}\.self_attn\.out_proj\.(\w+)", r"v.blk.\1.attn_out.\2"),
        (rf"{block}\.layer_norm([12])\.(\w+)", r"v.blk.\1.ln\2.\3"),
        (rf"{block}\.mlp\.fc1\.(\w+)", r"v.blk.\1.ffn_up.\2"),
        (rf"{block}\.mlp\.fc2\.(\w+)", r"v.blk.\1.ffn_down.\2"),
    )
