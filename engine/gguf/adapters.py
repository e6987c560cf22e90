"""LoRA adapters as files: what their headers say (llama.cpp: convert_lora_to_gguf.py)."""

from engine.gguf.reader import GGUFFile

TYPE, ALPHA = "adapter.type", "adapter.lora.alpha"
ALORA = "adapter.alora.invocation_tokens"
"""Tokens of a prompt behind which alone an adapter is to act."""


def is_adapter(file: GGUFFile) -> bool:
    """True if a file holds what is added to a model's matrices, and no model."""
    return file.metadata.get("general.type", str, "") == "adapter"
