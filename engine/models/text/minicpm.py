"""MiniCPM 1 and 2, MiniCPM 4: Llama, every branch multiplied by a factor.

OpenBMB 2024; tensor names and keys by the GGUF spec. Early files have none of the factors: theirs
are those of the 2B.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt
from typing import Annotated

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.rope import RopeParams
from engine.layers.spec import BlockSpec
from engine.layers.step import Pass
from engine.models.constants import Constant, factors_by_length, rope_factors_by_length
from engine.models.decoder import SCALINGS
from engine.models.text import granite
from engine.models.text.granite import GraniteDecoder, Weights
from engine.models.text.minicpm3 import DEPTH, EMBEDDINGS, WIDTH
from engine.weights.params import Meta, OneOf

__all__ = ["Model", "Params", "Weights"]  # the tensors are Granite's


@dataclass(frozen=True, kw_only=True)
class Params(granite.Params):
    rope_scaling: Annotated[
        str, Meta("rope.scaling.type", OneOf((*SCALINGS.words, "longrope")))
    ] = "linear"

    def constants(self) -> Sequence[Constant]:
        return rope_factors_by_length(self.rope_dim)


class Model(GraniteDecoder[Params, Weights]):
    @cached_property
    def turned(self) -> RopeParams:
        """By the factors for the context's length where the file has them."""
        params = self.params
        return params.rope(
            neox=False, factors=factors_by_length(self.constants, params.is_long(self.n_ctx))
        )

    def rope(self, i: int) -> RopeParams:
        return self.turned

    def spec(self, i: int) -> BlockSpec:
        residual = self.params.residual_scale or DEPTH / sqrt(self.params.n_layer)
        return replace(super().spec(i), residual=residual)

    def embed(self, p: Pass) -> Tensor:
        x = super().embed(p)
        return x if self.params.embedding_scale else ops.scale(x, EMBEDDINGS).named("inp_scaled")

    def logits(self, x: Tensor) -> Tensor:
        logits = super().logits(x)
        if self.params.logit_scale:
            return logits
        return ops.scale(logits, WIDTH / self.params.n_embd).named("result_output")
