"""CodeShell 7B: StarCoder2 with joint queries, keys and values, embeddings of the output.

WisdomShell 2023; tensor names and keys by the GGUF spec.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.layers.linear import Embedding, Linear
from engine.models.decoder import LayerNormWeights
from engine.models.text import starcoder2
from engine.models.text.starcoder2 import Block, Params
from engine.weights.bind import Name

__all__ = ["Model", "Params", "Weights"]


@dataclass(frozen=True)
class Weights(LayerNormWeights[Block]):
    """Published files have the output's matrix alone."""

    embedding: Annotated[Embedding, Name("token_embd", alt="output", rows=True)]
    output: Annotated[Linear, Name("output")]


class Model(starcoder2.Model):
    """All is as in StarCoder2."""
