"""Qwen2.5-VL in a file that Ollama made: the text of Qwen2-VL under another name."""

from engine.models.text.qwen2vl import Model, Params, Weights

__all__ = ["Model", "Params", "Weights"]
