"""Sequences of tiny models whose prefixes are kept, in a folder of the test's."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from engine import prefixes as files
from engine.runner.answering.slots import Slots
from engine.runner.api import Model, load
from engine.runner.prefixes import kept, rows
from engine.runner.sequence import Sequenced
from engine.runner.stepper import Logits
from engine.worker.prefixes import SavingPrefixes

BLOCK = 16
GB = 1_000_000_000
"""Small, so that a tiny model's context has several."""


@pytest.fixture(autouse=True)
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of few items, in a folder of the test's."""
    monkeypatch.setattr(files, "cache_folder", lambda: tmp_path / "cache")
    for module in (kept, rows):
        monkeypatch.setattr(module, "BLOCK", BLOCK)
    monkeypatch.setattr(kept, "LEAST", BLOCK)
    monkeypatch.setattr(kept, "GAIN", 4)


@contextmanager
def opened(path: Path, **options: object) -> Iterator[Model]:
    given = {"device": "host", "ctx": 200, "kept_chats": 1, "cache_ram": 0} | options
    with load(path, **given) as model:
        yield model


def prefilled(sequence: Sequenced, items: list[object]) -> Logits:
    """Have it read the items; logits after the last."""
    n = sequence.reuse(items)
    *_, logits = [None, *_returned(sequence, items[n:])]
    return logits


def _returned(sequence: Sequenced, items: list[object]) -> Iterator[Logits]:
    logits = yield from _only(sequence.prefill(items, lambda: False))
    yield logits


def _only(steps: Iterator[object]) -> Iterator[Logits]:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
    yield


def drawn(sequence: Sequenced, logits: Logits, n: int) -> list[Logits]:
    """Logits of n greedy steps, these first."""
    found = [logits]
    for _ in range(n - 1):
        found.append(sequence.append(int(found[-1].argmax())).copy())
    return found


def save(model: Model, sequence: Sequenced, chat: str = "1") -> str:
    """Write what it holds; why not."""
    sequence.chat = chat
    slots = cast(Slots, SimpleNamespace(idle=[sequence], sequences=[sequence]))
    saving = SavingPrefixes(model.loaded.prefixes, slots, Event())
    saving.finish(20)
    assert not saving.is_pending or saving.problem
    saving.stop()
    return saving.problem


def restored(model: Model, sequence: Sequenced, items: list[object]) -> int:
    """How many of the items it holds now without having read them."""
    prefixes = model.loaded.prefixes
    found = prefixes.find(items, 0)
    if found is None:
        sequence.clear()
        return 0
    for _ in prefixes.restore(sequence, items, found):
        pass
    return len(sequence.items)


def names() -> list[str]:
    return sorted(path.name for path in files.folder().glob("*"))


def equal(one: list[Logits], other: list[Logits]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
