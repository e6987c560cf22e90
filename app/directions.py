"""Directions between two sets of texts, from what leaves each layer of a model."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engine.errors import BadSetting
from engine.protocol import ChatMessage, DumpResults, ResultPart

Floats = NDArray[np.float64]
Method = Literal["mean", "pca"]
At = Literal["last", "mean"]
LEAVES = r"l_out-\d+"
"""Results that leave a layer."""
_LAYER = re.compile(r"l_out-(\d+)", re.ASCII)
LLAMA_LEAST, LLAMA_ROUNDS, LLAMA_CLOSE = 1e-6, 1000, 1e-7
"""Of llama-cvector-generator: the least difference, rounds of the power iteration and their end."""
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


def request_of(text: str, chat: bool, ids: list[int] | None = None) -> DumpResults:
    """Requests what leaves each layer, of a text or its ids; with `chat` the text is a message."""
    if ids is not None:
        return DumpResults(0, [LEAVES], prompt_tokens=ids)
    messages = [ChatMessage("user", text)] if chat else []
    return DumpResults(0, [LEAVES], messages=messages, prompt=None if chat else text)


class LayerRows:
    """Collects the replies to one request, which may come in parts and of several steps."""

    def __init__(self) -> None:
        self._parts: defaultdict[tuple[int, int], list[bytes]] = defaultdict(list)
        self._widths: dict[int, int] = {}

    def take(self, part: ResultPart) -> None:
        """Add a part of a result."""
        if named := _LAYER.fullmatch(part.info.name):
            layer = int(named[1])
            self._parts[layer, part.info.step].append(part.data)
            self._widths[layer] = part.info.dims[0]

    def whole(self) -> dict[int, Floats]:
        """Rows f64 [tokens, E] that left each layer."""
        found = {}
        for layer, width in self._widths.items():
            steps = [b"".join(data) for (i, _), data in sorted(self._parts.items()) if i == layer]
            rows = np.frombuffer(b"".join(steps), "<f4").reshape(-1, width)
            found[layer] = rows.astype(np.float64)
        return found

    def rows(self, at: At) -> dict[int, Floats]:
        """Rows f64 [E] that left each layer: at the last token, or the mean over the tokens."""
        return {
            layer: rows[-1] if at == "last" else rows.mean(0)
            for layer, rows in self.whole().items()
        }


def stacked(texts: Iterable[Mapping[int, Floats]], at: At) -> dict[int, Floats]:
    """Rows f64 [texts, E] by layer, from 1 on: what `LayerRows` collected of each text."""
    found: defaultdict[int, list[Floats]] = defaultdict(list)
    for rows in texts:
        for layer, row in rows.items():
            found[layer].append(row)
    last = max(found, default=0)  # of the last layer only the last token's result is computed
    kept = (i for i in found if i >= 1 and (at == "last" or i != last))
    return {i: np.stack(found[i]) for i in sorted(kept)}


def directions(
    positive: Mapping[int, Floats],
    negative: Mapping[int, Floats],
    method: Method = "mean",
    raw: bool = False,
) -> dict[int, Direction]:
    """A direction for each layer, as `direction`."""
    return {i: direction(positive[i], negative[i], method, raw) for i in positive}


def facts_of(found: Mapping[int, Direction]) -> dict[str, float]:
    """Collect the `cutaway.*` keys of a control vector's file."""
    facts = {f"residual_norm.{i}": one.norm for i, one in found.items()}
    facts |= {f"auc.{i}": one.auc for i, one in found.items() if one.auc is not None}
    return facts | {f"gap.{i}": one.gap for i, one in found.items() if one.gap is not None}


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


def padded(positive: Sequence[int], negative: Sequence[int], blank: int) -> list[list[int]]:
    """Both as long as the longer one, with `blank` at the end, as llama-cvector-generator does."""
    n = max(len(positive), len(negative))
    return [[*ids, *[blank] * (n - len(ids))] for ids in (positive, negative)]


def like_llama(
    pairs: Sequence[tuple[Mapping[int, Floats], Mapping[int, Floats]]], method: Method
) -> dict[int, Direction]:
    """Directions as llama-cvector-generator makes them, of rows [tokens, E] of both texts of each
    pair by layer: of all tokens' differences the mean, or the first component of what is not
    centred; length 1. Of layer i it is direction i + 1, and the last layer is left out. Raises
    `BadSetting` if both sides are equal.
    """
    found = {}
    for layer in range(max(max(ours) for ours, _ in pairs)):
        rows = np.concatenate([ours[layer] - theirs[layer] for ours, theirs in pairs])
        rows = rows[(rows > LLAMA_LEAST).any(axis=1)]  # signed: so the tool drops rows
        made = rows.mean(0) if method == "mean" and len(rows) else _powered(rows)
        size = float(np.linalg.norm(made))
        if size == 0.0:
            raise BadSetting("--negative", "the same results", "texts unlike the positive ones")
        both = np.concatenate([side[layer] for pair in pairs for side in pair])
        norm = float(np.linalg.norm(both, axis=1).mean())
        found[layer + 1] = Direction(made / size, norm, None, None)
    return found


def _powered(rows: Floats) -> Floats:
    """The first right singular vector of rows, by power iteration with the tool's bounds."""
    squares = rows.T @ rows
    now: Floats = np.asarray(np.random.default_rng(0).random(len(squares)))
    for _ in range(LLAMA_ROUNDS):
        then: Floats = squares @ now
        size = float(np.linalg.norm(then))
        if size == 0.0:
            return then
        before, now = now, then / size
        if float(np.linalg.norm(now - before)) < LLAMA_CLOSE:
            break
    return now


def _auc(positive: Floats, negative: Floats) -> float:
    """The share of pairs in which the positive side is ahead; equal ones count a half."""
    ahead = positive[:, None] - negative[None]
    return float(((ahead > 0) + 0.5 * (ahead == 0)).mean())


def lines_of(text: str) -> Sequence[str]:
    """The texts of a file or a field, one a line; \\n in a line is a line break."""
    return [line.replace("\\n", "\n") for line in text.splitlines() if line.strip()]
