"""Embeddings of texts: one vector each, close where meanings are."""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial

import numpy as np
from numpy.typing import NDArray

from engine.errors import BadSetting, Cancelled, UnsupportedModel
from engine.gguf import GGUFFile
from engine.kvcache.causal import MAX_SEQUENCES
from engine.models.base import Output
from engine.runner.aside import LONG, Aside, check_length, least_tokens
from engine.runner.batch import pieces_of
from engine.runner.loading import LoadedModel
from engine.runner.stepper import StepPart
from engine.tokenizer import Tokenizer
from engine.tokenizer.words import Pause, no_pause

KEY = "pooling_type"


class Pooling(IntEnum):
    """`<architecture>.pooling_type`, as llama.cpp numbers it."""

    NONE = 0
    MEAN = 1
    CLS = 2
    LAST = 3
    RANK = 4


def pooling_of(file: GGUFFile, whole: bool) -> Pooling:
    """The file's pooling. Where it names none, models whose tokens see a `whole` text take the
    mean, others the last token, which has seen all.
    """
    metadata = file.metadata
    usual = Pooling.MEAN if whole else Pooling.LAST
    number = metadata.get(f"{metadata.architecture}.{KEY}", int, int(usual))
    known = {int(kind) for kind in Pooling}
    found = Pooling(number) if number in known else usual
    return usual if found is Pooling.NONE else found


Vector = NDArray[np.float32]
_LOOKS = 0.002  # seconds between two looks whether long texts are tokenised
BESIDE = MAX_SEQUENCES - 1
"""The number of the sequence that texts are computed in."""


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
    """Yield the embeddings that each step completes, in order; none behind a step that read a part
    of a text. Others may compute between two. `claim` hears how many tokens the longest step or
    text takes.

    Raises `UnsupportedModel` where a model has none, `BadSetting` for a text that is empty or too
    long and a width that is not there, `Cancelled`.
    """
    built = model.built
    if Output.EMBEDDINGS not in built.model.gives:
        raise UnsupportedModel(f"{built.arch} with", "embeddings", sorted(built.model.gives))
    pooling = pooling_of(model.file, built.model.whole)
    if pooling is Pooling.RANK:
        raise UnsupportedModel("pooling", "rank (of a reranker)", ("mean", "cls", "last"))
    if sum(map(len, texts)) < LONG:
        encoded = _encoded(model, texts, no_pause)
    else:
        aside = Aside(partial(_encoded, model, texts), cancelled)
        while not aside.wait(_LOOKS):
            yield []
        encoded = aside.result()
    groups = list(_groups(model, encoded))
    claim(max((sum(map(len, group)) for group in groups), default=0))
    try:
        for group in groups:
            if len(group) == 1:
                vectors = [(yield from _pooled(model, group[0], pooling, cancelled))]
            else:
                vectors = _together(model, group, pooling, cancelled)
            yield [
                TextEmbedding(_cut(built.model.pooled(vector), width, normalized), len(ids))
                for ids, vector in zip(group, vectors, strict=True)
            ]
    finally:
        model.stepper.forget(0, sequence=BESIDE)


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
    if not n:
        raise BadSetting(f"text {number}", text, "a text that is not empty")
    if n > most:
        expected = f"at most {most} tokens; split it, or raise --ctx"
        raise BadSetting(f"text {number}", f"{n} tokens", expected)
    return ids


def _groups(model: LoadedModel, encoded: Sequence[list[int]]) -> Iterator[list[list[int]]]:
    """Texts that follow one another and fit one step, each as a sequence that nobody else has."""
    built = model.built
    most = 1 if built.model.whole or built.caches.states.n_slots else BESIDE - built.n_sequences
    group: list[list[int]] = []
    for ids in encoded:
        if group and (len(group) == most or sum(map(len, (*group, ids))) > _most_tokens(model)):
            yield group
            group = []
        group.append(ids)
    if group:
        yield group


def _most_tokens(model: LoadedModel) -> int:
    """The most tokens of a step: of models that see whole texts always a whole batch."""
    most = model.built.n_batch
    return most if model.built.model.whole else min(most, model.stepper.patience.most)


def _together(
    model: LoadedModel,
    texts: Sequence[list[int]],
    pooling: Pooling,
    cancelled: Callable[[], bool],
) -> list[Vector]:
    """[E] of each text, all in one step; the caches hold nothing of them afterwards."""
    if cancelled():
        raise Cancelled("embedding")
    stepper, first = model.stepper, model.built.n_sequences
    wanted = [list(_wanted(pooling, 0, len(ids), len(ids))) for ids in texts]
    parts = [
        StepPart(ids, 0, outputs, first + i)
        for i, (ids, outputs) in enumerate(zip(texts, wanted, strict=True))
    ]
    try:
        rows = stepper.start_together(parts, output=Output.EMBEDDINGS)()
    finally:
        for part in parts:
            stepper.forget(0, sequence=part.sequence)
    starts = np.cumsum([0, *map(len, wanted)]).tolist()
    return [
        rows[begin:end].mean(0, dtype=np.float64).astype(np.float32)
        for begin, end in zip(starts, starts[1:], strict=False)
    ]


def _pooled(
    model: LoadedModel, ids: Sequence[int], pooling: Pooling, cancelled: Callable[[], bool]
) -> Generator[list[TextEmbedding], None, Vector]:
    """[E] of a text's rows, computed in parts where no token looks ahead. Between them others may
    compute, as long as its cells are none that windows of theirs may want.
    """
    stepper = model.stepper
    windows = [one.window or one.chunk or 0 for one in stepper.built.caches.caches]
    pauses = max(windows, default=0) <= stepper.built.n_batch
    total = np.zeros(stepper.built.width(Output.EMBEDDINGS))
    stepper.forget(0, sequence=BESIDE)
    for start, part in pieces_of(ids, lambda: _most_tokens(model)):
        if cancelled():
            raise Cancelled("embedding")
        wanted = _wanted(pooling, start, len(part), len(ids))
        # A step gives at least one row.
        rows = stepper.step(part, start, wanted or [0], BESIDE, output=Output.EMBEDDINGS)
        total += rows[: len(wanted)].sum(0, dtype=np.float64)
        if pauses and start + len(part) < len(ids):
            yield []
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
        raise BadSetting("width", width, f"1 to {len(vector)}, the width of this model")
    kept: Vector = vector[:width]
    length = float(np.linalg.norm(kept.astype(np.float64)))
    return (kept / length).astype(np.float32) if normalized and length else kept
