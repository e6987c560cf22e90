"""Granite 4 H: Mamba-2 with attention without rope in some layers, experts, Granite's multipliers.

IBM 2025; tensor names and keys by the GGUF spec.
"""

from dataclasses import dataclass

from engine.layers.attention import SelfAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.experts import Experts
from engine.layers.feed_forward import FeedForward
from engine.layers.recurrent import Mamba2
from engine.models.decoder import PlainWeights
from engine.models.recurrent import RecurrentDecoder, RecurrentParams
from engine.models.text import granite
from engine.models.text.granite import GraniteDecoder


@dataclass(frozen=True, kw_only=True)
class Params(RecurrentParams, granite.Params):
    """Hyperparameters by their GGUF keys."""


Weights = PlainWeights[
    PreNormBlock[SelfAttention, Experts | FeedForward] | PreNormBlock[Mamba2, Experts | FeedForward]
]


class Model(GraniteDecoder[Params, Weights], RecurrentDecoder[Params, Weights]):
    """Layers differ in what mixes their tokens."""
