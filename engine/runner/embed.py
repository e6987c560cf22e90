"""Embeddings of texts: one vector each, close where meanings are."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from engine.errors import BadSetting, OnlyRanks, UnsupportedModel
from engine.models.base import Output
from engine.models.head import Pooling
from engine.runner.aside import check_length, least_tokens
from engine.runner.loading import LoadedModel
from engine.runner.pooled import Vector, check_fits, pooled_in_parts
from engine.tokenizer import Tokenizer
from engine.tokenizer.words import Pause


@dataclass(frozen=True)
class TextEmbedding:
    """The embedding of one text, f32 [width], and its number of tokens."""

    vector: Vector
    n_tokens: int


def embed(
    model: LoadedModel,
    texts: Sequence[str],
    width: int | None = None,
    normalized: bool = True,
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[TextEmbedding]:
    """Each text's, in order. Raises as `embed_in_parts`."""
    for part in embed_in_parts(model, texts, width, normalized, cancelled):
        yield from part


def embed_in_parts(
    model: LoadedModel,
    texts: Sequence[str],
    width: int | None = None,
    normalized: bool = True,
    cancelled: Callable[[], bool] = lambda: False,
    claim: Callable[[int], None] = lambda _: None,
) -> Iterator[list[TextEmbedding]]:
    """Yield the embeddings that each step completes, as `pooled_in_parts`.

    Raises `UnsupportedModel` and `OnlyRanks` where a model has none, `BadSetting` for a text that
    is empty or too long and a width that is not there, `Cancelled`.
    """
    built = model.built
    if Output.EMBEDDINGS not in built.model.gives:
        raise UnsupportedModel(f"{built.arch} with", "embeddings", sorted(built.model.gives))
    if built.pooling is Pooling.RANK:
        raise OnlyRanks
    encode, length = partial(_encoded, model, texts), sum(map(len, texts))
    rows = pooled_in_parts(model, encode, length, built.pooling, cancelled, claim, "embedding")
    for part in rows:
        yield [
            TextEmbedding(_cut(built.model.pooled(row), width, normalized), n) for n, row in part
        ]


def _encoded(model: LoadedModel, texts: Sequence[str], pause: Pause) -> list[list[int]]:
    tokenizer = model.tokenizer.pausing(pause)
    return [_ids(model, tokenizer, text, number) for number, text in enumerate(texts, 1)]


def _ids(model: LoadedModel, tokenizer: Tokenizer, text: str, number: int) -> list[int]:
    """A text's tokens, all of which the model must be able to read."""
    most = model.built.n_ctx
    check_length(f"text {number}", text, most)
    n = least_tokens(tokenizer, text, most)
    ids: list[int] = []
    if n <= most:
        ids = tokenizer.encode(text, parse_special=False)
        n = len(ids)
    check_fits(f"text {number}", text, n, most)
    return ids


def _cut(vector: Vector, width: int | None, normalized: bool) -> Vector:
    if width is not None and not 1 <= width <= len(vector):
        raise BadSetting("width", width, f"1 to {len(vector)}, the width of this model")
    kept: Vector = vector[:width]
    length = float(np.linalg.norm(kept.astype(np.float64)))
    return (kept / length).astype(np.float32) if normalized and length else kept
