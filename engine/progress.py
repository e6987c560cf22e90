"""How far work is, and what its time goes to."""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter
from typing import TypeVar

T = TypeVar("T")
U = TypeVar("U")
R = TypeVar("R")


def reporting(steps: Generator[T, None, R], convert: Callable[[T], U]) -> Generator[U, None, R]:
    """Yields what `convert` makes of what the steps yield; returns what they return."""
    while True:
        try:
            one = next(steps)
        except StopIteration as end:
            result: R = end.value
            return result
        yield convert(one)


def finished(
    steps: Generator[T, None, R], on_progress: Callable[[T], object] = lambda _: None
) -> R:
    """Run the steps, pass each progress to `on_progress`, and return their result."""
    reported = reporting(steps, on_progress)
    while True:
        try:
            next(reported)
        except StopIteration as end:
            result: R = end.value
            return result


class Clock:
    """Seconds that a thread spends in parts of its work, by their names. While a part is within
    another the outer one's stand still: together they are never more than the whole.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._part, self._since = "", 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count this thread's parts here for as long."""
        token = _clock.set(self)
        try:
            yield
        finally:
            _clock.reset(token)

    def turn(self, part: str) -> str:
        """Count for this part from now on, for none if it is ""; return the one before."""
        now, before = perf_counter(), self._part
        if before:
            self.seconds[before] = self.seconds.get(before, 0.0) + now - self._since
        self._part, self._since = part, now
        return before


_clock: ContextVar[Clock | None] = ContextVar("clock", default=None)


@contextmanager
def part(name: str) -> Iterator[None]:
    """Count what is done within as this part of the work, where a clock runs. A generator yields
    outside of it.
    """
    clock = _clock.get()
    before = clock.turn(name) if clock is not None else ""
    try:
        yield
    finally:
        if clock is not None:
            clock.turn(before)
