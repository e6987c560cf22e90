"""PLaMo 13B: attention and feed-forward side by side behind one RMS norm.

Preferred Networks 2023; tensor names and keys by the GGUF spec. Rope pairs are NeoX's.
"""

from engine.layers.attention import SelfAttention
from engine.layers.blocks import RMSParallelBlock
from engine.layers.feed_forward import FeedForward
from engine.layers.rope import RopeParams
from engine.models.decoder import Decoder, DecoderParams, PlainWeights

Params = DecoderParams
Weights = PlainWeights[RMSParallelBlock[SelfAttention, FeedForward]]


class Model(Decoder[Params, Weights]):
    def rope(self, i: int) -> RopeParams:
        return self.params.rope(neox=True)
