"""Command R7B and Command A: attention and feed-forward side by side behind one LayerNorm.

Cohere 2024; tensor names and keys by the GGUF spec. Windowed layers turn pairs (2i, 2i+1), the
others know no positions.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.attention import SelfAttention
from engine.layers.blocks import ParallelBlock
from engine.layers.feed_forward import FeedForward
from engine.layers.rope import RopeParams
from engine.models.decoder import LayerNormWeights
from engine.models.windowed import WindowedDecoder, WindowedParams
from engine.weights.params import EPSILON, Meta, Range

LOGIT_SCALE = Range(1e-6, 1e6)


@dataclass(frozen=True, kw_only=True)
class Params(WindowedParams):
    every = 4

    eps: Annotated[float, Meta("attention.layer_norm_epsilon", EPSILON)]
    logit_scale: Annotated[float, Meta("logit_scale", LOGIT_SCALE)]


Weights = LayerNormWeights[ParallelBlock[SelfAttention, FeedForward]]


class Model(WindowedDecoder[Params, Weights]):
    """Layers differ in what they see and whether they turn."""

    neox = False

    def rope(self, i: int) -> RopeParams | None:
        return self.turned if self.params.is_windowed(i) else None

    def logits(self, x: Tensor) -> Tensor:
        return ops.scale(super().logits(x), self.params.logit_scale).named("result_output")
