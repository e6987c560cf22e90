"""QRWKV6: Qwen2.5's feed-forward under RWKV-6's states, whose heads may share keys.

Recursal 2025; tensor names and keys by the GGUF spec.
"""

from engine.layers.blocks import PreNormBlock
from engine.layers.feed_forward import FeedForward
from engine.layers.rwkv import TimeMix6
from engine.models.decoder import PlainWeights
from engine.models.recurrent import RwkvDecoder, RwkvParams

Params = RwkvParams


Weights = PlainWeights[PreNormBlock[TimeMix6, FeedForward]]


class Model(RwkvDecoder[Params, Weights]):
    """Layers are alike."""
