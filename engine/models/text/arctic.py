"""Snowflake Arctic: a feed-forward after attention, and experts that read what enters a block.

Snowflake 2024; tensor names and keys by the GGUF spec. Rope pairs are (2i, 2i+1).
"""

from dataclasses import dataclass
from typing import Annotated

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.attention import SelfAttention
from engine.layers.blocks import PreNormBlock, joined, pruned
from engine.layers.experts import Experts
from engine.layers.feed_forward import FeedForward
from engine.layers.linear import RMSNorm
from engine.layers.spec import BlockSpec
from engine.layers.step import LayerCache, Pass
from engine.models.decoder import PlainWeights
from engine.models.routed import RoutedDecoder, RoutedParams
from engine.weights.bind import Name

Params = RoutedParams


@dataclass(frozen=True)
class Block(PreNormBlock[SelfAttention, FeedForward]):
    """h = x + A(norm x); x = h + F(norm h) + experts(norm x)."""

    experts: Experts
    experts_norm: Annotated[RMSNorm, Name("ffn_norm_exps")]

    def __call__(
        self, x: Tensor, i: int, p: Pass, spec: BlockSpec, cache: LayerCache | None, last: bool
    ) -> Tensor:
        h = self.attn(self.attn_norm(x, spec.eps, "attn_norm", i), i, p, spec, cache)
        h, x = pruned(p, last, h, x)
        routed = self.experts(self.experts_norm(x, spec.eps, "ffn_norm_exps", i), i, spec)
        x = joined(h, x, i, p, spec, "attention", "ffn_inp")
        fed = self.ffn(self.ffn_norm(x, spec.eps, "ffn_norm", i), i, spec)
        both = ops.add(fed, routed).named("ffn_both", i)
        return joined(both, x, i, p, spec, "feed_forward", "l_out")


Weights = PlainWeights[Block]


class Model(RoutedDecoder[Params, Weights]):
    neox = False
