"""Directions between two sets of texts, from what leaves each layer of a model."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from app.terminal.engine import CommandEngine
from engine.errors import BadSetting
from engine.protocol import ChatMessage, DumpResults, Loaded, ResultPart

Floats = NDArray[np.float64]
Method = Literal["mean", "pca"]
At = Literal["last", "mean"]
_LAYER = re.compile(r"l_out-(\d+)", re.ASCII)
HELD_OUT = 5
"""One pair in so many measures the direction that the others make."""


@dataclass(frozen=True)
class Direction:
    """A layer's direction [E] with what pairs that it was not made of say: the `gap` between the
    means of both sides along it, and the area under the ROC curve (`auc`; None of fewer than five
    pairs). `norm` is the mean length of the rows that it is added to.
    """

    values: Floats
    norm: float
    gap: float | None
    auc: float | None


def rows_of(
    engine: CommandEngine, loaded: Loaded, texts: Sequence[str], at: At, chat: bool
) -> Mapping[int, Floats]:
    """Compute what leaves each layer from 1 on, f64 [texts, E] by layer: of the last token, or the
    mean over the tokens of a text. Raises as `CommandEngine.ask`.
    """
    found: defaultdict[int, list[Floats]] = defaultdict(list)
    for text in texts:
        request = DumpResults(
            engine.worker.new_id(),
            [r"l_out-\d+"],
            messages=[ChatMessage("user", text)] if chat else [],
            prompt=None if chat else text,
        )
        parts: defaultdict[tuple[int, int], list[bytes]] = defaultdict(list)
        widths: dict[int, int] = {}
        for reply in engine.ask(request):
            if isinstance(reply, ResultPart) and (named := _LAYER.fullmatch(reply.info.name)):
                layer = int(named[1])
                parts[layer, reply.info.step].append(reply.data)
                widths[layer] = reply.info.dims[0]
        for layer, width in widths.items():
            steps = [b"".join(data) for (i, _), data in sorted(parts.items()) if i == layer]
            rows = np.frombuffer(b"".join(steps), "<f4").reshape(-1, width).astype(np.float64)
            found[layer].append(rows[-1] if at == "last" else rows.mean(0))
    last = max(found, default=0)  # of the last layer only the last token's result is computed
    kept = (i for i in found if i >= 1 and (at == "last" or i != last))
    return {i: np.stack(found[i]) for i in sorted(kept)}


def direction(
    positive: Floats, negative: Floats, method: Method = "mean", raw: bool = False
) -> Direction:
    """From rows [pairs, E] of both sides: the difference of their means, or the first principal
    component of the pairs' differences that points the same way; of length 1 unless `raw`. Raises
    `BadSetting` if both sides are equal.
    """
    fits = np.ones(len(positive), bool)
    if len(positive) >= HELD_OUT:
        fits[HELD_OUT - 1 :: HELD_OUT] = False
    whole = _fitted(positive, negative, method, raw)
    held = None
    if not fits.all():
        part = _fitted(positive[fits], negative[fits], method, raw=False)
        held = [rows[~fits] @ part for rows in (positive, negative)]
    norm = float(np.linalg.norm(np.concatenate([positive, negative]), axis=1).mean())
    if held is None:
        return Direction(whole, norm, None, None)
    return Direction(whole, norm, float(held[0].mean() - held[1].mean()), _auc(*held))


def _fitted(positive: Floats, negative: Floats, method: Method, raw: bool) -> Floats:
    differences = positive - negative
    mean = differences.mean(0)
    if method == "pca":
        centred = differences - mean
        if np.any(centred):
            along: Floats = np.linalg.svd(centred, full_matrices=False)[2][0]
            size = float(along @ mean)
            return along * (size if raw else 1.0 if size >= 0 else -1.0)
    size = float(np.linalg.norm(mean))
    if size == 0.0:
        raise BadSetting("--negative", "the same results", "texts unlike the positive ones")
    fitted: Floats = mean if raw else mean / size
    return fitted


def _auc(positive: Floats, negative: Floats) -> float:
    """The share of pairs in which the positive side is ahead; equal ones count a half."""
    ahead = positive[:, None] - negative[None]
    return float(((ahead > 0) + 0.5 * (ahead == 0)).mean())
