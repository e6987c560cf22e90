"""Nomic BERT: nomic-embed-text 1 and 1.5, BERT with rotary positions and a gated feed-forward.

Nussbaum et al. 2024; tensor names and keys by the GGUF spec.
"""

from engine.layers.attention import SelfAttention
from engine.layers.blocks import AddNormBlock
from engine.layers.feed_forward import FeedForward
from engine.models.text import bert

Params = bert.Params


Block = AddNormBlock[SelfAttention, FeedForward]
Weights = bert.SegmentWeights[Block]


class Model(bert.SegmentEncoder[bert.Params, Block]):
    """All layers are alike."""
