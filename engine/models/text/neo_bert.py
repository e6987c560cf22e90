"""NeoBERT: an encoder with norms before its parts, one matrix of q, k, v and one of gate and up.

Le Breton et al. 2025; tensor names and keys by the GGUF spec. Pairs are (2i, 2i+1).
"""

from engine.layers.attention import SelfAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.feed_forward import FusedFeedForward
from engine.models.decoder import DecoderParams
from engine.models.encoder import NormedEncoder, NormedWeights

Params = DecoderParams


Weights = NormedWeights[PreNormBlock[SelfAttention, FusedFeedForward]]


class Model(NormedEncoder[Params, Weights]):
    neox = False
