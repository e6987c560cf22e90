"""LoRA adapters as files: what their headers say (llama.cpp: convert_lora_to_gguf.py)."""

from engine.gguf.reader import GGUFFile

TYPE, ALPHA = "adapter.type", "adapter.lora.alpha"
ALORA = "adapter.alora.invocation_tokens"
"""Tokens of a prompt behind which alone an adapter is to act."""
LONGEST = 60


def is_adapter(file: GGUFFile) -> bool:
    """True if a file holds what is added to a model's matrices, and no model."""
    return file.metadata.get("general.type", str, "") == "adapter"


def base_name(file: GGUFFile) -> str:
    """Return the name of the model that an adapter is for, cut to LONGEST characters; "" where it
    does not say.
    """
    for key in ("name", "repo_url"):
        name = file.metadata.get(f"general.base_model.0.{key}", str, "").rstrip("/")
        if name:
            return " ".join(name.rpartition("/")[2].split())[:LONGEST]
    return ""
