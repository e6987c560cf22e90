"""Command R and Aya: as Command R7B, but all layers see everything and know positions.

Cohere 2024; tensor names and keys by the GGUF spec. Command R+ normalises queries and keys.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.attention import LayerNormedAttention
from engine.layers.blocks import ParallelBlock
from engine.layers.feed_forward import FeedForward
from engine.models.decoder import Decoder, DecoderParams, LayerNormWeights
from engine.models.text.cohere2 import LOGIT_SCALE
from engine.weights.params import EPSILON, Meta


@dataclass(frozen=True, kw_only=True)
class Params(DecoderParams):
    eps: Annotated[float, Meta("attention.layer_norm_epsilon", EPSILON)]
    logit_scale: Annotated[float, Meta("logit_scale", LOGIT_SCALE)]


Weights = LayerNormWeights[ParallelBlock[LayerNormedAttention, FeedForward]]


class Model(Decoder[Params, Weights]):
    neox = False

    def logits(self, x: Tensor) -> Tensor:
        return ops.scale(super().logits(x), self.params.logit_scale).named("result_output")
