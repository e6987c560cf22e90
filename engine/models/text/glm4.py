"""GLM-4-0414: sandwich norms, gate and up of one matrix, the first half of a head turns.

Zhipu AI 2025; tensor names and keys by the GGUF spec. Rope pairs are (2i, 2i+1).
"""

from engine.layers.attention import SelfAttention
from engine.layers.blocks import SandwichBlock
from engine.layers.feed_forward import FusedFeedForward
from engine.layers.rope import RopeParams
from engine.models.decoder import Decoder, DecoderParams, PlainWeights

Params = DecoderParams


Weights = PlainWeights[SandwichBlock[SelfAttention, FusedFeedForward]]


class Model(Decoder[Params, Weights]):
    def rope(self, i: int) -> RopeParams:
        return self.params.rope(neox=False)
