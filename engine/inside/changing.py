"""Steps of a changed model, while others compute it as it is."""

from collections.abc import Generator, Sequence
from typing import TypeVar

from engine.layers.change import UNCHANGED
from engine.protocol import Change
from engine.runner.sequence import Sequenced

T = TypeVar("T")
R = TypeVar("R")


def changing(
    sequence: Sequenced, wanted: Sequence[Change], steps: Generator[T, None, R]
) -> Generator[T, None, R]:
    """Like `steps`, each of which computes the changed model in this sequence; between two of them
    the model is as it was. What another one computed is forgotten before and after. Raises
    `BadSetting`.
    """
    stepper = sequence.stepper
    changes = stepper.built.changes(wanted) if wanted else UNCHANGED
    if wanted:
        sequence.clear()
    try:
        while True:
            before, stepper.changes = stepper.changes, changes
            try:
                told = next(steps)
            except StopIteration as end:
                result: R = end.value
                return result
            finally:
                stepper.changes = before
            yield told
    finally:
        if wanted:
            sequence.clear()
