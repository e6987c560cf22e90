"""OLMo 1B and 7B: LayerNorms without weights; queries, keys and values may be bounded.

Allen Institute for AI 2024; tensor names and keys by the GGUF spec. Rope pairs are (2i, 2i+1): the
converter permutes q and k.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.graph.tensor import Tensor
from engine.layers.attention import SelfAttention
from engine.layers.blocks import Block, joined, pruned
from engine.layers.feed_forward import FeedForward
from engine.layers.linear import BareLayerNorm, Embedding, Linear
from engine.layers.spec import BlockSpec
from engine.layers.step import LayerCache, Pass
from engine.models.decoder import ClampedParams, Decoder
from engine.weights.bind import Name

Params = ClampedParams


@dataclass(frozen=True)
class BareBlock(Block[SelfAttention, FeedForward]):
    """x += A(norm x); x += F(norm x), where norms have no weights."""

    norm: BareLayerNorm

    def __call__(
        self, x: Tensor, i: int, p: Pass, spec: BlockSpec, cache: LayerCache | None, last: bool
    ) -> Tensor:
        h = self.attn(self.norm(x, spec.eps, "attn_norm", i), i, p, spec, cache)
        h, x = pruned(p, last, h, x)
        x = joined(h, x, i, p, spec, "attention", "ffn_inp")
        h = self.ffn(self.norm(x, spec.eps, "ffn_norm", i), i, spec)
        return joined(h, x, i, p, spec, "feed_forward", "l_out")


@dataclass(frozen=True)
class Weights:
    embedding: Annotated[Embedding, Name("token_embd", rows=True)]
    blocks: Annotated[list[BareBlock], Name("blk")]
    norm: BareLayerNorm
    output: Annotated[Linear, Name("output", alt="token_embd")]


class Model(Decoder[Params, Weights]):
    neox = False
