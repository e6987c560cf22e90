"""PLaMo 13B: attention and feed-forward side by side behind one RMS norm.

Preferred Networks 2023; tensor names and keys by the GGUF spec. Rope pairs are NeoX's.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.graph.tensor import Tensor
from engine.layers.attention import SelfAttention
from engine.layers.blocks import Block, joined, pruned
from engine.layers.feed_forward import FeedForward
from engine.layers.linear import RMSNorm
from engine.layers.rope import RopeParams
from engine.layers.spec import BlockSpec
from engine.layers.step import LayerCache, Pass
from engine.models.decoder import Decoder, DecoderParams, PlainWeights
from engine.weights.bind import Name

Params = DecoderParams


@dataclass(frozen=True)
class Beside(Block[SelfAttention, FeedForward]):
    """h = norm x; x += A(h) + F(h)."""

    attn_norm: Annotated[RMSNorm, Name("attn_norm")]

    def __call__(
        self, x: Tensor, i: int, p: Pass, spec: BlockSpec, cache: LayerCache | None, last: bool
    ) -> Tensor:
        entered = self.attn_norm(x, spec.eps, "attn_norm", i)
        h, x, entered = pruned(p, last, self.attn(entered, i, p, spec, cache), x, entered)
        x = joined(h, x, i, p, spec, "attention", "sa_out")
        return joined(self.ffn(entered, i, spec), x, i, p, spec, "feed_forward", "l_out")


Weights = PlainWeights[Beside]


class Model(Decoder[Params, Weights]):
    def rope(self, i: int) -> RopeParams:
        return self.params.rope(neox=True)
