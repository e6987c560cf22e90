"""ModernBERT, its embedders and rerankers: two windowed layers to each global one.

Warner et al. 2024; tensor names and keys by the GGUF spec.
"""

from dataclasses import dataclass, replace
from typing import Annotated

from engine.graph.tensor import Tensor
from engine.layers.attention import SelfAttention
from engine.layers.blocks import joined, pruned
from engine.layers.feed_forward import FusedFeedForward
from engine.layers.linear import Embedding, LayerNorm
from engine.layers.rope import RopeParams
from engine.layers.spec import GEGLU_ERF, SWIGLU, AttentionSpec, BlockSpec
from engine.layers.step import LayerCache, Pass
from engine.models.decoder import ROPE_BASE, DecoderParams
from engine.models.encoder import TextEncoder
from engine.weights.bind import Name
from engine.weights.params import COUNT, EPSILON, Meta, OneOf, Range

ACTIVATIONS = {"gelu": GEGLU_ERF, "silu": SWIGLU}


@dataclass(frozen=True, kw_only=True)
class Params(DecoderParams):
    """Hyperparameters by their GGUF keys; `window` counts tokens on both sides together, and each
    `every`th layer has none.
    """

    eps: Annotated[float, Meta("attention.layer_norm_epsilon", EPSILON)]
    window: Annotated[int, Meta("attention.sliding_window", Range(0, (1 << 31) - 1))] = 0
    every: Annotated[int, Meta("attention.sliding_window_pattern", COUNT)] = 3
    activation: Annotated[str, Meta("hidden_activation", OneOf(tuple(ACTIVATIONS)))] = "gelu"
    rope_base: Annotated[float, Meta("rope.freq_base", ROPE_BASE)] = 160000.0
    rope_base_local: Annotated[float, Meta("rope.freq_base_swa", ROPE_BASE)] = 1e4

    def is_global(self, i: int) -> bool:
        """True if layer i sees everything; the first does."""
        return not self.window or i % self.every == 0


@dataclass(frozen=True)
class ModernBlock:
    """x += A(norm x); x += F(norm x); the first block's x was normalised as an embedding."""

    attn_norm: Annotated[LayerNorm | None, Name("attn_norm")]
    attn: SelfAttention
    ffn_norm: Annotated[LayerNorm, Name("ffn_norm")]
    ffn: FusedFeedForward

    def __call__(
        self, x: Tensor, i: int, p: Pass, spec: BlockSpec, cache: LayerCache | None, last: bool
    ) -> Tensor:
        """x [E, T] -> [E, T] in layer i; in the `last` one only the wanted [E, n_outputs]."""
        entered = x if self.attn_norm is None else self.attn_norm(x, spec.eps, "attn_norm", i)
        h, x = pruned(p, last, self.attn(entered, i, p, spec, cache), x)
        x = joined(h, x, i, p, spec, "attention", "ffn_inp")
        h = self.ffn(self.ffn_norm(x, spec.eps, "ffn_norm", i), i, spec)
        return joined(h, x, i, p, spec, "feed_forward", "l_out")


@dataclass(frozen=True)
class Weights:
    embedding: Annotated[Embedding, Name("token_embd", rows=True)]
    embedding_norm: Annotated[LayerNorm, Name("token_embd_norm")]
    blocks: Annotated[list[ModernBlock], Name("blk")]
    norm: Annotated[LayerNorm, Name("output_norm")]


class Model(TextEncoder[Params, Weights]):
    """Layers differ in what they see and how they turn."""

    def rope(self, i: int) -> RopeParams:
        params = self.params
        base = params.rope_base if params.is_global(i) else params.rope_base_local
        return RopeParams(params.rope_dim, base, neox=True)

    def attention(self, i: int) -> AttentionSpec:
        reach = None if self.params.is_global(i) else self.params.window // 2
        return replace(super().attention(i), reach=reach)

    def spec(self, i: int) -> BlockSpec:
        return replace(super().spec(i), gated=ACTIVATIONS[self.params.activation])

    def embed(self, p: Pass) -> Tensor:
        return self.weights.embedding_norm(super().embed(p), self.params.eps, "inp_norm")

    def normed(self, x: Tensor) -> Tensor:
        return self.weights.norm(x, self.params.eps, "result_norm")
