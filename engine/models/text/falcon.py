"""Falcon 7B, 40B, 180B, Falcon 2: attention and feed-forward side by side, without biases.

TII 2023; tensor names and keys by the GGUF spec. The 7B has one head of keys and values, and one
LayerNorm for both parts; the 40B and the 180B have a second one, for attention alone. The GELU is
the exact one, and whole heads turn, in NeoX pairs.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.graph.tensor import Tensor
from engine.layers.attention import SelfAttention
from engine.layers.blocks import ParallelBlock, joined, pruned
from engine.layers.feed_forward import PlainFeedForward
from engine.layers.linear import LayerNorm
from engine.layers.spec import GELU_ERF, BlockSpec
from engine.layers.step import LayerCache, Pass
from engine.models.decoder import Decoder, DecoderParams, LayerNormWeights
from engine.weights.bind import Name
from engine.weights.params import EPSILON, Meta

Block = ParallelBlock[SelfAttention, PlainFeedForward]


@dataclass(frozen=True, kw_only=True)
class Params(DecoderParams):
    eps: Annotated[float, Meta("attention.layer_norm_epsilon", EPSILON)]


@dataclass(frozen=True)
class TwoNorms(ParallelBlock[SelfAttention, PlainFeedForward]):
    """x += A(norm2 x) + F(norm x)."""

    attn_norm_2: Annotated[LayerNorm, Name("attn_norm_2")]

    def __call__(
        self, x: Tensor, i: int, p: Pass, spec: BlockSpec, cache: LayerCache | None, last: bool
    ) -> Tensor:
        h = self.attn(self.attn_norm_2(x, spec.eps, "attn_norm_2", i), i, p, spec, cache)
        h, x = pruned(p, last, h, x)
        fed = self.ffn(self.attn_norm(x, spec.eps, "attn_norm", i), i, spec)
        x = joined(h, x, i, p, spec, "attention", "sa_out")
        return joined(fed, x, i, p, spec, "feed_forward", "l_out")


Weights = LayerNormWeights[TwoNorms | Block]


class Model(Decoder[Params, Weights]):
    gated = GELU_ERF
