"""RWKV-7 Goose, G1: a state of each head in place of attention, tokens mixed with the last.

Peng et al. 2025; tensor names and keys by the GGUF spec.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from engine.graph.tensor import Tensor
from engine.layers.linear import LayerNorm
from engine.layers.rwkv import ChannelMix, RwkvBlock, TimeMix
from engine.layers.step import Pass
from engine.models.decoder import LayerNormWeights
from engine.models.recurrent import RwkvDecoder, RwkvParams
from engine.weights.bind import Name
from engine.weights.params import EPSILON, Meta


@dataclass(frozen=True, kw_only=True)
class Params(RwkvParams):
    shifts: ClassVar[int] = 2

    eps: Annotated[float, Meta("attention.layer_norm_epsilon", EPSILON)]


@dataclass(frozen=True)
class Weights(LayerNormWeights[RwkvBlock[TimeMix, ChannelMix]]):
    embedding_norm: Annotated[LayerNorm, Name("token_embd_norm")]


class Model(RwkvDecoder[Params, Weights]):
    """Layers are alike."""

    def embed(self, p: Pass) -> Tensor:
        return self.weights.embedding_norm(super().embed(p), self.params.eps, "inp_norm")
