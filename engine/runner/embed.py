"""Embeddings of texts: one vector each, close where meanings are."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.errors import BadSetting, Cancelled, UnsupportedModel
from engine.kvcache.causal import MAX_SEQUENCES
from engine.models.base import Output
from engine.models.pooling import Pooling, pooling_of
from engine.runner.loading import LoadedModel

Vector = NDArray[np.float32]
BESIDE = MAX_SEQUENCES - 1
"""The number of the sequence that texts are computed in."""


@dataclass(frozen=True)
class TextEmbedding:
    """Of one text: f32 [width], from so many tokens."""

    vector: Vector
    n_tokens: int


def embed(
    model: LoadedModel,
    texts: Sequence[str],
    width: int | None = None,
    normalized: bool = True,
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[TextEmbedding]:
    """Each text's, in order. What the caches held is forgotten.

    Raises `UnsupportedModel` where a model has none, `BadSetting` for a text that is empty or too
    long and a width that is not there, `Cancelled`.
    """
    built = model.built
    if Output.EMBEDDINGS not in built.model.gives:
        raise UnsupportedModel(f"asking {built.arch} for", "embeddings", sorted(built.model.gives))
    pooling = pooling_of(model.file, built.model.whole)
    if pooling is Pooling.RANK:
        raise UnsupportedModel("pooling", "rank (of a reranker)", ("mean", "cls", "last"))
    encoded = [_ids(model, text, number) for number, text in enumerate(texts, 1)]
    try:
        for ids in encoded:
            vector = built.model.pooled(_pooled(model, ids, pooling, cancelled))
            yield TextEmbedding(_cut(vector, width, normalized), len(ids))
    finally:
        model.stepper.forget(0, sequence=BESIDE)


def _ids(model: LoadedModel, text: str, number: int) -> list[int]:
    """A text's tokens, all of which the model must be able to read."""
    ids, most = model.tokenizer.encode(text, parse_special=False), model.built.n_ctx
    if not ids:
        raise BadSetting(f"text {number}", text, "a text that is not empty")
    if len(ids) > most:
        expected = f"at most {most} tokens; split it, or give more context with --ctx"
        raise BadSetting(f"text {number}", f"{len(ids)} tokens", expected)
    return ids


def _pooled(
    model: LoadedModel, ids: Sequence[int], pooling: Pooling, cancelled: Callable[[], bool]
) -> Vector:
    """[E] of a text's rows, computed in parts where no token looks ahead."""
    stepper = model.stepper
    total = np.zeros(stepper.built.width(Output.EMBEDDINGS))
    stepper.forget(0, sequence=BESIDE)
    for start in range(0, len(ids), stepper.built.n_batch):
        if cancelled():
            raise Cancelled("embedding")
        part = ids[start : start + stepper.built.n_batch]
        wanted = _wanted(pooling, start, len(part), len(ids))
        # A step gives at least one row.
        rows = stepper.step(part, start, wanted or [0], BESIDE, output=Output.EMBEDDINGS)
        total += rows[: len(wanted)].sum(0, dtype=np.float64)
    count = len(ids) if pooling is Pooling.MEAN else 1
    return (total / count).astype(np.float32)


def _wanted(pooling: Pooling, start: int, n: int, total: int) -> Sequence[int]:
    """Which of a part's n tokens count, the part beginning at `start`."""
    if pooling is Pooling.MEAN:
        return range(n)
    place = 0 if pooling is Pooling.CLS else total - 1
    return [place - start] if start <= place < start + n else []


def _cut(vector: Vector, width: int | None, normalized: bool) -> Vector:
    if width is not None and not 1 <= width <= len(vector):
        raise BadSetting("width", width, f"1 to {len(vector)}, all that this model gives")
    kept: Vector = vector[:width]
    length = float(np.linalg.norm(kept.astype(np.float64)))
    return (kept / length).astype(np.float32) if normalized and length else kept
