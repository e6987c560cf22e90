"""Generators that tell how far they are and return what they found."""

from collections.abc import Callable, Generator
from typing import TypeVar

T = TypeVar("T")
U = TypeVar("U")
R = TypeVar("R")


def telling(steps: Generator[T, None, R], tell: Callable[[T], U]) -> Generator[U, None, R]:
    """Yields what `tell` makes of what the steps yield; returns what they return."""
    while True:
        try:
            one = next(steps)
        except StopIteration as end:
            result: R = end.value
            return result
        yield tell(one)


def finished(steps: Generator[T, None, R], hear: Callable[[T], object] = lambda _: None) -> R:
    """Run the steps, pass each progress to `hear`, and return their result."""
    heard = telling(steps, hear)
    while True:
        try:
            next(heard)
        except StopIteration as end:
            result: R = end.value
            return result
