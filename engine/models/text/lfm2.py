"""LFM2, LFM2.5: short convolutions with attention in some layers, q/k norms, NeoX pairs.

Hasani et al. 2025; tensor names and keys by the GGUF spec, where the last norm is called that of
the embedding.
"""

from dataclasses import dataclass
from typing import Annotated, TypeVar

from engine.layers.attention import NormedAttention
from engine.layers.blocks import PreNormBlock
from engine.layers.feed_forward import FeedForward
from engine.layers.linear import Embedding, Linear, RMSNorm
from engine.layers.recurrent import ShortConv
from engine.models.decoder import Decoder, DecoderParams, W
from engine.models.kept import State
from engine.models.recurrent import carries_state
from engine.weights.bind import Name
from engine.weights.params import Meta, Range


@dataclass(frozen=True, kw_only=True)
class Params(DecoderParams):
    kernel: Annotated[int, Meta("shortconv.l_cache", Range(2, 64))]


@dataclass(frozen=True)
class Weights:
    embedding: Annotated[Embedding, Name("token_embd", rows=True)]
    blocks: Annotated[
        list[PreNormBlock[NormedAttention, FeedForward] | PreNormBlock[ShortConv, FeedForward]],
        Name("blk"),
    ]
    norm: Annotated[RMSNorm, Name("token_embd_norm", alt="output_norm")]
    output: Annotated[Linear, Name("output", alt="token_embd")]


P = TypeVar("P", bound=Params)


class ConvDecoder(Decoder[P, W]):
    """Layers are convolutions or attention, by their tensors."""

    def state(self, i: int) -> State | None:
        if not carries_state(self.weights.blocks[i]):
            return None
        return State(self.params.n_embd, self.params.kernel, 0)


class Model(ConvDecoder[Params, Weights]):
    """Layers differ in what mixes their tokens."""
