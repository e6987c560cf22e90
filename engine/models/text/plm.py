"""PLM 1.8B: latent attention whose keys and values are kept per head, squared ReLUs.

PLM Team 2025; tensor names and keys by the GGUF spec. Rope pairs are (2i, 2i+1); the output is tied
to the embeddings.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.layers.blocks import PreNormBlock
from engine.layers.feed_forward import PlainFeedForward
from engine.layers.latent import ExpandedLatentAttention
from engine.layers.spec import RELU_SQR
from engine.models.constants import Constant
from engine.models.decoder import PlainWeights
from engine.models.text import minicpm3
from engine.models.text.minicpm3 import ExpandedDecoder


@dataclass(frozen=True, kw_only=True)
class Params(minicpm3.Params):
    def constants(self) -> Sequence[Constant]:
        return ()


Weights = PlainWeights[PreNormBlock[ExpandedLatentAttention, PlainFeedForward]]


class Model(ExpandedDecoder[Params, Weights]):
    gated = RELU_SQR
    neox = False
