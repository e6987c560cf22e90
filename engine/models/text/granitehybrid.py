"""Granite 4 H: Mamba-2 with attention without rope in some layers, experts, Granite's multipliers.

IBM 2025; tensor names and keys by the GGUF spec.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.layers.attention import SelfAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.experts import Experts
from engine.layers.feed_forward import FeedForward
from engine.layers.linear import Embedding, Linear, RMSNorm
from engine.layers.recurrent.mamba import Mamba2
from engine.models.recurrent import RecurrentDecoder, RecurrentParams
from engine.models.text import granite
from engine.models.text.granite import GraniteDecoder
from engine.weights.bind import Name


@dataclass(frozen=True, kw_only=True)
class Params(RecurrentParams, granite.Params):
    """Hyperparameters by their GGUF keys."""


@dataclass(frozen=True)
class Weights:
    """The whole model's tensors."""

    embedding: Annotated[Embedding, Name("token_embd", rows=True)]
    blocks: Annotated[
        list[
            PreNormBlock[SelfAttention, Experts | FeedForward]
            | PreNormBlock[Mamba2, Experts | FeedForward]
        ],
        Name("blk"),
    ]
    norm: Annotated[RMSNorm, Name("output_norm")]
    output: Annotated[Linear, Name("output", alt="token_embd")]


class Model(GraniteDecoder[Params, Weights], RecurrentDecoder[Params, Weights]):
    """Layers differ in what mixes their tokens."""
