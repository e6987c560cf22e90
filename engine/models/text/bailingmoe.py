"""Ling-lite, Ling-plus, Ling-Coder, Ring-lite: Llama with experts and shared ones in every layer.

inclusionAI 2025; tensor names and keys by the GGUF spec. Scores are a softmax, normalised where the
file says so. Rope pairs are (2i, 2i+1): the converter permutes q and k.
"""

from engine.models.text.deepseek import Model, Params, Weights

__all__ = ["Model", "Params", "Weights"]
