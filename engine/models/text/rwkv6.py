"""RWKV-6 Finch: RWKV-7 without erasing; how much of the last token is read depends on both.

Peng et al. 2024; tensor names and keys by the GGUF spec, whose converter halves weights where the
model halves what leaves its layers.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.linear import LayerNorm
from engine.layers.rwkv import GatedChannelMix, RwkvBlock, TimeMix6
from engine.layers.step import LayerCache, Pass
from engine.models.decoder import LayerNormWeights
from engine.models.recurrent import RwkvDecoder, RwkvParams
from engine.weights.bind import Name
from engine.weights.params import COUNT, EPSILON, Meta, Range


@dataclass(frozen=True, kw_only=True)
class Params(RwkvParams):
    """Hyperparameters by their GGUF keys; behind every `halved` layers all is halved, 0: never."""

    shifts: ClassVar[int] = 2

    eps: Annotated[float, Meta("attention.layer_norm_epsilon", EPSILON)]
    halved: Annotated[int, Meta("rescale_every_n_layers", Range(0, COUNT.high))] = 0


@dataclass(frozen=True)
class Weights(LayerNormWeights[RwkvBlock[TimeMix6, GatedChannelMix]]):
    embedding_norm: Annotated[LayerNorm, Name("token_embd_norm")]


class Model(RwkvDecoder[Params, Weights]):
    """Layers are alike."""

    def embed(self, p: Pass) -> Tensor:
        return self.weights.embedding_norm(super().embed(p), self.params.eps, "inp_norm")

    def layer(self, x: Tensor, i: int, p: Pass, cache: LayerCache | None) -> Tensor:
        x, every = super().layer(x, i, p, cache), self.params.halved
        return ops.scale(x, 0.5).named("l_out", i) if every and not (i + 1) % every else x
