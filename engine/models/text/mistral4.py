"""Mistral Small 4: DeepSeek-V2's latent attention and experts, queries that rise with position.

Mistral AI 2026; tensor names and keys by the GGUF spec. Files of llama.cpp do not report the rise,
which the model was trained with: it is the published one, and llama.cpp's answers differ from the
length of the context before scaling on.
"""

from dataclasses import dataclass
from typing import Annotated

from engine.models.text import deepseek2
from engine.models.text.deepseek2 import Model, Weights
from engine.weights.params import Meta, Range

__all__ = ["Model", "Params", "Weights"]


@dataclass(frozen=True, kw_only=True)
class Params(deepseek2.Params):
    rise: Annotated[float, Meta("attention.temperature_scale", Range(0, 1e3))] = 0.1
