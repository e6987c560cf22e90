"""The `general.*` values of a file: its name, origin and suggested sampling; if it reranks."""

from math import isfinite

import numpy as np

from engine.gguf.metadata import Metadata
from engine.gguf.reader import GGUFFile
from engine.gguf.values import Array, ValueType

GENERAL = "general."
LONGEST = 1000
MOST = 200
HEADS = ("cls.weight", "cls.output.weight")
RANK = 4
"""`pooling_type` of rerankers."""


def general_values(metadata: Metadata) -> dict[str, str | int | float | bool]:
    """Scalars and texts under `general.`, at most MOST of them, texts cut to LONGEST characters.

    A float32 becomes the shortest decimal that is the same float32: 0.95, not 0.949999988.
    """
    found: dict[str, str | int | float | bool] = {}
    for key in metadata:
        if not key.startswith(GENERAL) or len(key) > LONGEST or len(found) == MOST:
            continue
        entry = metadata[key]
        value = entry.value
        if isinstance(value, Array):
            continue
        if isinstance(value, str):
            value = value[:LONGEST]
        elif isinstance(value, float) and entry.type == ValueType.FLOAT32 and isfinite(value):
            value = float(str(np.float32(value)))
        found[key] = value
    return found


def is_reranker(file: GGUFFile) -> bool:
    """True if a file's head scores texts or puts them into classes, and it gives no embeddings."""
    pooling = file.metadata.get(f"{file.metadata.architecture}.pooling_type", int, 0)
    return pooling == RANK or (pooling == 0 and any(name in file.tensors for name in HEADS))
