"""Makes any step inside the engine fail: the n-th function that its code calls, Python's or C's."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import engine

ROOT = str(Path(engine.__file__).parent)


class Steps:
    """Counts what the engine's code calls; raises at step `nth`, from 1 (0: never)."""

    def __init__(self, nth: int = 0, error: BaseException | None = None) -> None:
        self.count, self.nth, self.error = 0, nth, error

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        if event not in ("call", "c_call") or not frame.f_code.co_filename.startswith(ROOT):
            return
        self.count += 1
        if self.count == self.nth:
            assert self.error is not None
            raise self.error


@contextmanager
def counted(steps: Steps) -> Iterator[Steps]:
    """Everything that this thread does within is a step."""
    sys.setprofile(steps)
    try:
        yield steps
    finally:
        sys.setprofile(None)


def n_steps(work: Callable[[], object]) -> int:
    """How many there are in a piece of work."""
    with counted(Steps()) as steps:
        work()
    return steps.count


def fail(work: Callable[[], object], nth: int, error: BaseException) -> BaseException | None:
    """Do the work with that step failing; what came out of it, None where it was made good."""
    with counted(Steps(nth, error)):
        try:
            work()
        except BaseException as raised:  # noqa: BLE001  whatever it is, the caller looks at it
            return raised
    return None


class Closable(Protocol):
    def close(self) -> None: ...


def n_steps_of_opening(work: Callable[[], Closable]) -> int:
    """How many there are in opening something, without its end."""
    made: list[Closable] = []
    n = n_steps(lambda: made.append(work()))
    made.pop().close()
    return n


def fail_opening(work: Callable[[], Closable], nth: int, error: BaseException) -> None:
    """Open something with that step failing; what opens nevertheless is closed undisturbed."""
    made: list[Closable] = []
    fail(lambda: made.append(work()), nth, error)
    for one in made:
        one.close()
