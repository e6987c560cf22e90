"""GPT-NeoX, Pythia, Dolly 2: attention and feed-forward side by side, each behind a LayerNorm.

EleutherAI 2022; tensor names and keys by the GGUF spec. All have biases, and a quarter of a head
turns, in NeoX pairs. A file may say that the two parts follow one another. No key shows the exact
GELU of Pythia and Dolly from the approximation of the 20B; all get the exact one.
"""

from dataclasses import dataclass, replace
from typing import Annotated

from engine.graph.tensor import Tensor
from engine.layers.attention import SelfAttention
from engine.layers.blocks import LayerNormBlock, joined, pruned
from engine.layers.feed_forward import PlainFeedForward
from engine.layers.spec import GELU_ERF, BlockSpec
from engine.layers.step import LayerCache, Pass
from engine.models.decoder import Decoder, DecoderParams, LayerNormWeights
from engine.weights.params import EPSILON, Meta, Range


@dataclass(frozen=True, kw_only=True)
class Params(DecoderParams):
    eps: Annotated[float, Meta("attention.layer_norm_epsilon", EPSILON)]
    parallel: Annotated[bool, Meta("use_parallel_residual", Range(0, 1))] = True


@dataclass(frozen=True)
class Block(LayerNormBlock[SelfAttention, PlainFeedForward]):
    """x += A(norm x) + F(norm x), each norm with its own weights; else one part after the other."""

    def __call__(
        self, x: Tensor, i: int, p: Pass, spec: BlockSpec, cache: LayerCache | None, last: bool
    ) -> Tensor:
        if not spec.parallel:
            return super().__call__(x, i, p, spec, cache, last)
        h = self.attn(self.attn_norm(x, spec.eps, "attn_norm", i), i, p, spec, cache)
        h, x = pruned(p, last, h, x)
        fed = self.ffn(self.ffn_norm(x, spec.eps, "ffn_norm", i), i, spec)
        x = joined(h, x, i, p, spec, "attention", "sa_out")
        return joined(fed, x, i, p, spec, "feed_forward", "l_out")


Weights = LayerNormWeights[Block]


class Model(Decoder[Params, Weights]):
    gated = GELU_ERF

    def spec(self, i: int) -> BlockSpec:
        return replace(super().spec(i), parallel=self.params.parallel)
