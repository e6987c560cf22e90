"""Blocks of a decoder: an attention and a feed-forward, each added to the residual.

All are called alike, so that a model is a list of them; where the norms stand is their difference.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.attention import AttentionSpec, NormedAttention, SelfAttention
from engine.layers.feed_forward import FeedForward, GatedActivation
from engine.layers.linear import RMSNorm
from engine.layers.step import LayerCache, Pass
from engine.weights.bind import Name


@dataclass(frozen=True)
class BlockSpec:
    """The numbers of one block; `eps` belongs to its norms, `used` counts the experts that a token
    meets, where there are.
    """

    attention: AttentionSpec
    gated: GatedActivation
    eps: float
    used: int = 0


@dataclass(frozen=True)
class PreNormBlock:
    """x += A(norm x); x += F(norm x), as in Llama (Touvron et al. 2023)."""

    attn_norm: Annotated[RMSNorm, Name("attn_norm")]
    attn: SelfAttention
    ffn_norm: Annotated[RMSNorm, Name("ffn_norm")]
    ffn: FeedForward

    def __call__(
        self, x: Tensor, i: int, p: Pass, spec: BlockSpec, cache: LayerCache | None, last: bool
    ) -> Tensor:
        """x [E, T] -> [E, T] in layer i; in the `last` one only the wanted [E, n_outputs]."""
        h = self.attn(self.attn_norm(x, spec.eps, "attn_norm", i), i, p, spec.attention, cache)
        if last:
            h, x = p.prune(h), p.prune(x)
        x = ops.add(p.changes.of(h, i, "attention"), x).named("ffn_inp", i)
        h = self.ffn(self.ffn_norm(x, spec.eps, "ffn_norm", i), i, spec.gated)
        return ops.add(p.changes.of(h, i, "feed_forward"), x).named("l_out", i)


@dataclass(frozen=True)
class SandwichBlock:
    """x += norm A(norm x); x += norm F(norm x), as in Gemma 2 and 3."""

    attn_norm: Annotated[RMSNorm, Name("attn_norm")]
    attn: NormedAttention
    attn_post_norm: Annotated[RMSNorm, Name("post_attention_norm")]
    ffn_norm: Annotated[RMSNorm, Name("ffn_norm")]
    ffn: FeedForward
    ffn_post_norm: Annotated[RMSNorm, Name("post_ffw_norm")]

    def __call__(
        self, x: Tensor, i: int, p: Pass, spec: BlockSpec, cache: LayerCache | None, last: bool
    ) -> Tensor:
        """x [E, T] -> [E, T] in layer i; in the `last` one only the wanted [E, n_outputs]."""
        h = self.attn(self.attn_norm(x, spec.eps, "attn_norm", i), i, p, spec.attention, cache)
        if last:
            h, x = p.prune(h), p.prune(x)
        h = self.attn_post_norm(h, spec.eps, "attn_post_norm", i)
        x = ops.add(p.changes.of(h, i, "attention"), x).named("sa_out", i)
        h = self.ffn(self.ffn_norm(x, spec.eps, "ffn_norm", i), i, spec.gated)
        h = self.ffn_post_norm(h, spec.eps, "ffn_post_norm", i)
        return ops.add(p.changes.of(h, i, "feed_forward"), x).named("l_out", i)
