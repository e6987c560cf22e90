"""Phi-3.5-MoE: two experts in every layer, LayerNorms, biases, Phi-3's window and LongRoPE.

Microsoft 2024; tensor names and keys by the GGUF spec. Routing is SparseMixer-2's: an expert's
weight is near 1, less where another's logit is near its own. This is the model's own pass, as
transformers computes it where nothing is trained. llama.cpp has RMS norms here, and weights of a
softmax that sum to 1: its logits are others. Files hold the magnitude that LongRoPE's formula
gives, 1.190 for the published model, whose config says 1.243.
"""

from dataclasses import dataclass

from engine.graph.ops.experts import Scoring
from engine.layers.attention import SelfAttention
from engine.layers.blocks import LayerNormBlock
from engine.layers.experts import Experts
from engine.models.decoder import LayerNormWeights
from engine.models.routed import RoutedDecoder, RoutedParams
from engine.models.text import phi3
from engine.models.text.phi3 import LongRopeDecoder


@dataclass(frozen=True, kw_only=True)
class Params(phi3.Params, RoutedParams):
    score = Scoring.SPARSE_MIXER
    normalised = False


Weights = LayerNormWeights[LayerNormBlock[SelfAttention, Experts]]


class Model(LongRopeDecoder[Params, Weights], RoutedDecoder[Params, Weights]):
    """All layers are alike."""
