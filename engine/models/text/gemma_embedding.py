"""EmbeddingGemma: Gemma 3 whose tokens see on both sides, and two matrices behind the pooling.

Vera et al. 2025; tensor names and keys by the GGUF spec. Norm weights already include the +1.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Annotated

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.attention import NormedAttention
from engine.layers.blocks import SandwichBlock
from engine.layers.feed_forward import FeedForward
from engine.layers.linear import Embedding, RMSNorm
from engine.layers.rope import RopeParams
from engine.layers.spec import GEGLU, AttentionSpec
from engine.layers.step import Pass
from engine.models.constants import Constant, Values
from engine.models.encoder import TextEncoder
from engine.models.text import gemma3
from engine.weights.bind import Name
from engine.weights.params import Meta, Range

DENSE = ("dense_2.weight", "dense_3.weight")
FEATURES = Range(1, 1 << 16, or_zero=True)
FINITE = Range(-1e6, 1e6)


@dataclass(frozen=True, kw_only=True)
class Params(gemma3.Params):
    """Hyperparameters by their GGUF keys; the window counts tokens on both sides together, `wide`
    are the channels between the two matrices, 0 where there are none.
    """

    wide: Annotated[int, Meta("dense_2_feat_out", FEATURES)] = 0
    n_out: Annotated[int, Meta("dense_3_feat_out", FEATURES)] = 0

    def constants(self) -> Sequence[Constant]:
        if not self.wide:
            return ()
        shapes = ((self.n_embd, self.wide), (self.wide, self.n_out or self.n_embd))
        return [Constant(name, s, FINITE) for name, s in zip(DENSE, shapes, strict=True)]


@dataclass(frozen=True)
class Weights:
    embedding: Annotated[Embedding, Name("token_embd", rows=True)]
    blocks: Annotated[list[SandwichBlock[NormedAttention, FeedForward]], Name("blk")]
    norm: Annotated[RMSNorm, Name("output_norm")]


class Model(TextEncoder[Params, Weights]):
    """Layers differ in what they see and how they turn."""

    gated = GEGLU

    def rope(self, i: int) -> RopeParams:
        return self.params.layer_rope(i)

    def attention(self, i: int) -> AttentionSpec:
        params = self.params
        sees_all = not params.is_windowed(i)
        return replace(super().attention(i), reach=None if sees_all else params.window // 2)

    def embed(self, p: Pass) -> Tensor:
        return ops.scale(super().embed(p), sqrt(self.params.n_embd)).named("inp_scaled")

    def normed(self, x: Tensor) -> Tensor:
        return self.weights.norm(x, self.params.eps, "result_norm")

    def pooled(self, rows: Values) -> Values:
        for name in DENSE:
            if name in self.constants:
                rows = self.constants[name] @ rows
        return rows
