"""Gemma and CodeGemma: Llama's block with GeGLU, embeddings times the root of their length.

Gemma Team 2024; keys and names by the GGUF spec. Norm weights in the file already include the +1.
"""

from math import sqrt

from engine.graph import ops
from engine.graph.tensor import Tensor
from engine.layers.spec import GEGLU
from engine.layers.step import Pass
from engine.models.decoder import Decoder, DecoderParams
from engine.models.text.qwen2 import Weights

__all__ = ["Model", "Params", "Weights"]


Params = DecoderParams


class Model(Decoder[Params, Weights]):
    gated = GEGLU

    def embed(self, p: Pass) -> Tensor:
        return ops.scale(super().embed(p), sqrt(self.params.n_embd)).named("inp_scaled")
