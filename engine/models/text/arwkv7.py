"""ARWKV: Qwen2's feed-forward under RWKV-7's states, with or without gates.

RWKV Red Team 2025; tensor names and keys by the GGUF spec.
"""

from engine.layers.blocks import PreNormBlock
from engine.layers.feed_forward import FeedForward
from engine.layers.rwkv import TimeMix
from engine.models.decoder import PlainWeights
from engine.models.recurrent import RwkvDecoder, RwkvParams

Params = RwkvParams


Weights = PlainWeights[PreNormBlock[TimeMix, FeedForward]]


class Model(RwkvDecoder[Params, Weights]):
    """Layers are alike."""
