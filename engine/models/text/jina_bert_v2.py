"""Jina embeddings 2, Jina Reranker 1: BERT whose scores fall with the distance (ALiBi).

Günther et al. 2023; tensor names and keys by the GGUF spec. The GELU is the exact one. Where one
matrix has the rows of gate and up, those of code have up first, by Jina's own class; llama.cpp
takes the gate from the first.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.attention import SelfAttention, WidthNormedAttention
from engine.layers.blocks import AddNormBlock, joined, pruned
from engine.layers.feed_forward import FeedForward, FusedFeedForward
from engine.layers.linear import LayerNorm
from engine.layers.rope import RopeParams
from engine.layers.spec import GEGLU_ERF, BlockSpec
from engine.layers.step import LayerCache, Pass
from engine.models.text import bert
from engine.models.text.bloom import Params
from engine.weights.bind import Name

__all__ = ["Model", "Params", "Weights"]


@dataclass(frozen=True)
class WidthLayerNormedAttention(WidthNormedAttention):
    """All heads together are normalised, also less their mean."""

    q_norm: Annotated[LayerNorm, Name("attn_q_norm")]
    k_norm: Annotated[LayerNorm, Name("attn_k_norm")]


@dataclass(frozen=True)
class UpFirstFeedForward(FusedFeedForward):
    """The rows of `up` are up's, then the gate's."""

    def __call__(self, x: Tensor, i: int, spec: BlockSpec) -> Tensor:
        both = self.up(x, "ffn_up", i)
        up, gate = ops.chunk_sections(both, 0, [both.shape[0] // 2] * 2)
        mixed = spec.gated.activation(gate, up).named(spec.gated.name, i)
        return self.down(mixed, "ffn_out", i)


@dataclass(frozen=True)
class CodeBlock(AddNormBlock[WidthLayerNormedAttention, FeedForward | UpFirstFeedForward]):
    """h = norm2(x + norm(x + A(x))); x = norm(h + F(h))."""

    attn_norm_2: Annotated[LayerNorm, Name("attn_norm_2")]

    def __call__(
        self, x: Tensor, i: int, p: Pass, spec: BlockSpec, cache: LayerCache | None, last: bool
    ) -> Tensor:
        h, x = pruned(p, last, self.attn(x, i, p, spec, cache), x)
        h = joined(h, x, i, p, spec, "attention", "attn_residual")
        h = self.attn_out_norm(h, spec.eps, "attn_out_norm", i)
        h = self.attn_norm_2(ops.add(h, x), spec.eps, "attn_norm_2", i)
        x = joined(self.ffn(h, i, spec), h, i, p, spec, "feed_forward", "ffn_residual")
        return self.out_norm(x, spec.eps, "l_out", i)


Block = CodeBlock | AddNormBlock[SelfAttention, FeedForward | FusedFeedForward]


Weights = bert.SegmentWeights[Block]


class Model(bert.SegmentEncoder[Params, Block]):
    gated = GEGLU_ERF

    def rope(self, i: int) -> RopeParams | None:
        return None
