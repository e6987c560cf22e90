"""Texts to a row each: all that are read whole in few steps, for embeddings and for rankings."""

from collections.abc import Callable, Generator, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.errors import BadSetting, Cancelled
from engine.kvcache.causal import MAX_SEQUENCES
from engine.models.base import Output
from engine.models.head import Pooling
from engine.runner.aside import LONG, Aside
from engine.runner.batch import pieces_of
from engine.runner.loading import LoadedModel
from engine.runner.stepper import StepPart
from engine.tokenizer.words import Pause, no_pause

Vector = NDArray[np.float32]
_LOOKS = 0.002  # seconds between two looks whether long texts are tokenised
BESIDE = MAX_SEQUENCES - 1
"""The number of the sequence that texts are computed in."""


def check_fits(name: str, text: str, n: int, most: int) -> None:
    """Raise `BadSetting` for a text of n tokens that is empty or too long."""
    if not n:
        raise BadSetting(name, text, "a text that is not empty")
    if n > most:
        expected = f"at most {most} tokens; split it, or raise --ctx"
        raise BadSetting(name, f"{n} tokens", expected)


def pooled_in_parts(
    model: LoadedModel,
    encode: Callable[[Pause], list[list[int]]],
    length: int,
    pooling: Pooling,
    cancelled: Callable[[], bool],
    claim: Callable[[int], None],
    doing: str,
) -> Iterator[list[tuple[int, Vector]]]:
    """Yield how many tokens each text has that `encode` gives, and its row, pooled to [E], as steps
    complete them, in order; none behind a step that read a part of a text. Others may compute
    between two. Texts of a large `length`, in characters, are encoded in a thread. `claim` is
    called with the tokens of the longest step or text. Raises `Cancelled`, of what was `doing`.
    """

    def check() -> None:
        if cancelled():
            raise Cancelled(doing)

    if length < LONG:
        texts = encode(no_pause)
    else:
        aside = Aside(encode, cancelled)
        while not aside.wait(_LOOKS):
            yield []
        texts = aside.result()
    groups = list(_groups(model, texts))
    claim(max((sum(map(len, group)) for group in groups), default=0))
    try:
        for group in groups:
            if len(group) == 1:
                vectors = [(yield from _pooled(model, group[0], pooling, check))]
            else:
                vectors = _together(model, group, pooling, check)
            yield [(len(ids), vector) for ids, vector in zip(group, vectors, strict=True)]
    finally:
        model.stepper.forget(0, sequence=BESIDE)


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
    check: Callable[[], None],
) -> list[Vector]:
    """[E] of each text, all in one step; the caches hold nothing of them afterwards."""
    check()
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
    model: LoadedModel, ids: Sequence[int], pooling: Pooling, check: Callable[[], None]
) -> Generator[list[tuple[int, Vector]], None, Vector]:
    """[E] of a text's rows, computed in parts where no token looks ahead. Between them others may
    compute, as long as its cells are none that windows of theirs may want.
    """
    stepper = model.stepper
    windows = [one.window or one.chunk or 0 for one in stepper.built.caches.caches]
    pauses = max(windows, default=0) <= stepper.built.n_batch
    total = np.zeros(stepper.built.width(Output.EMBEDDINGS))
    stepper.forget(0, sequence=BESIDE)
    for start, part in pieces_of(ids, lambda: _most_tokens(model)):
        check()
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
