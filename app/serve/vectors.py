"""Embeddings of texts, for every API alike."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.serve.web.refusal import Refusal
from app.serve.web.site import HttpCall
from engine.protocol import Embed

MOST_INPUTS = 2048


async def vectors(
    call: HttpCall, texts: list[str], width: int | None
) -> tuple[NDArray[np.float32], list[int]]:
    """f32 [texts, width] of length 1, and how many tokens each text has. Raises `Refusal`."""
    if len(texts) > MOST_INPUTS:
        raise Refusal(400, f"input: at most {MOST_INPUTS} texts", param="input")
    if not texts:
        return np.empty((0, 0), np.float32), []
    try:
        with await call.gate.turns.enter(1):
            found: Any = await call.gate.get(Embed(0, texts, width))
    except Refusal as refusal:
        if refusal.status != 400:
            raise
        param = "dimensions" if refusal.param == "width" else "input"
        raise Refusal(400, refusal.message, param=param) from None
    return np.frombuffer(found.vectors, "<f4").reshape(len(texts), found.width), found.n_tokens
