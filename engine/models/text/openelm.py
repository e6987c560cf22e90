"""OpenELM 270M to 3B: layers differ in heads and in their feed-forward's length, heads are normed.

Apple 2024; tensor names and keys by the GGUF spec. Queries, keys and values are of one matrix, the
output is tied to the embeddings, and rope pairs are NeoX's.
"""

from engine.layers.attention import NormedAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.feed_forward import FeedForward
from engine.models.decoder import Decoder, DecoderParams, PlainWeights

Params = DecoderParams
Weights = PlainWeights[PreNormBlock[NormedAttention, FeedForward]]


class Model(Decoder[Params, Weights]):
    """Numbers and tensors show how layers differ."""
