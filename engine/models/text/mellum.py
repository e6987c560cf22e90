"""Mellum 2: experts in every layer, windows whose turning is not scaled, YaRN in the others.

JetBrains 2026; tensor names and keys by the GGUF spec. Norms of queries and keys; NeoX pairs.
Windowed layers turn by their own base, as in transformers; llama.cpp reads it and takes the other.
"""

from dataclasses import dataclass

from engine.graph.ops.experts import Scoring
from engine.layers.rope import RopeParams
from engine.models.routed import RoutedDecoder
from engine.models.text import laguna
from engine.models.text.qwen3moe import Weights
from engine.models.windowed import WindowedDecoder

__all__ = ["Model", "Params", "Weights"]


@dataclass(frozen=True, kw_only=True)
class Params(laguna.Params):
    full_first = False
    score = Scoring.SOFTMAX


class Model(RoutedDecoder[Params, Weights], WindowedDecoder[Params, Weights]):
    """Layers differ in what they see and how they turn."""

    def rope(self, i: int) -> RopeParams:
        return self.params.turned(i)
