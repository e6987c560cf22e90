"""EuroBERT, Jina Embeddings 5 nano: a Llama whose tokens see the whole text.

Boizard et al. 2025; tensor names and keys by the GGUF spec. NeoX pairs.
"""

from engine.layers.attention import SelfAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.feed_forward import FeedForward
from engine.models.decoder import DecoderParams
from engine.models.encoder import NormedEncoder, NormedWeights

Params = DecoderParams


Weights = NormedWeights[PreNormBlock[SelfAttention, FeedForward]]


class Model(NormedEncoder[Params, Weights]):
    """All layers are alike."""
