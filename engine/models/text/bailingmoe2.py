"""Ling and Ring mini 2.0, flash 2.0, 1T: experts in groups, norms of queries and keys.

inclusionAI 2025; tensor names and keys by the GGUF spec. The first layers are dense. A bias
corrects the choice of experts, whose scores are sigmoids. Half of a head turns, in NeoX pairs.
"""

from engine.models.text.dots1 import Model, Params, Weights

__all__ = ["Model", "Params", "Weights"]
