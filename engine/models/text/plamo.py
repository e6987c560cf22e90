"""PLaMo 13B: attention and feed-forward side by side behind one RMS norm.

Preferred Networks 2023; tensor names and keys by the GGUF spec. Rope pairs are NeoX's.
"""

from engine.layers.attention import SelfAttention
from engine.layers.blocks import RMSParallelBlock
from engine.layers.feed_forward import FeedForward
from engine.models.decoder import Decoder, DecoderParams, PlainWeights

Params = DecoderParams
Weights = PlainWeights[RMSParallelBlock[SelfAttention, FeedForward]]


class Model(Decoder[Params, Weights]):
    """All layers are alike."""
