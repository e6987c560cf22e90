"""Maincoder 1B: queries and keys are normalised behind their turning; pairs (2i, 2i+1).

Maincode 2025; tensor names and keys by the GGUF spec.
"""

from engine.models.text import hunyuan_dense
from engine.models.text.hunyuan_dense import Params, Weights

__all__ = ["Model", "Params", "Weights"]


class Model(hunyuan_dense.Model):
    neox = False
