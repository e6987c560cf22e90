"""ERNIE 4.5, also with experts: Llama with biases where the file has them, and shared experts.

Baidu 2025; tensor names and keys by the GGUF spec. Rope pairs are (2i, 2i+1), as in the original.
A bias corrects the choice of experts, whose scores are a softmax. The first layers have none, and
further ones where the file says so by its tensors.
"""

from engine.models.text.llama import Model, Params, Weights

__all__ = ["Model", "Params", "Weights"]
