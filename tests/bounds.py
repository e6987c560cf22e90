"""Bounds on work, not on seconds: a slow or busy machine must pass what a fast one passes."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

TODAY = 0.010  # seconds that a processor of today takes for the loop in `slowness`


class TooMuchWork(AssertionError):
    """More was done than what was asked for needs."""


@contextmanager
def at_most_lines(most: int) -> Iterator[None]:
    """Ends the block once this thread has executed more than `most` lines of Python in it.

    Unlike a clock it also ends a loop without end. What NumPy does inside a call counts as one.
    """
    done = 0

    def count(frame: FrameType, event: str, _: object) -> Any:
        nonlocal done
        if event == "line":
            done += 1
            if done > most:
                raise TooMuchWork(f"more than {most} lines, now in {frame.f_code.co_qualname}")
        return count

    before, block = sys.gettrace(), sys._getframe(2)  # below: this generator, and `contextlib`
    sys.settrace(count)
    block.f_trace = count  # only frames made from now on would have it by themselves
    try:
        yield
    finally:
        sys.settrace(before)
        block.f_trace = before
    if done > most:  # somebody caught it
        raise TooMuchWork(f"more than {most} lines")


@contextmanager
def steps_executed() -> Iterator[list[int]]:
    """The one item counts the instructions of Python that this thread has executed in functions
    called from the block: unlike lines also those of a loop within one line.
    """
    done = [0]

    def count(frame: FrameType, event: str, _: object) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        done[0] += event == "opcode"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        yield done
    finally:
        sys.settrace(before)


def times_as_long(work: Callable[[], object], plain: Callable[[], object], tries: int = 3) -> float:
    """The processor time of `work` in those of `plain`: the least of each, measured in turn."""
    takes = {work: float("inf"), plain: float("inf")}
    for _ in range(tries):
        for call in takes:
            began = time.process_time()
            call()
            takes[call] = min(takes[call], time.process_time() - began)
    return takes[work] / takes[plain]


def holds_once(check: Callable[[], None], tries: int = 3) -> None:
    """Run a check of speed until it passes: a machine may pause at any moment, a fault is there
    each time. Raises the last `AssertionError`.
    """
    for _ in range(tries - 1):
        with suppress(AssertionError):
            return check()
    return check()


def slowness(loops: int = 200_000, tries: int = 5) -> float:
    """How much slower this processor is than one of today, by a plain loop; never below 1."""
    best = float("inf")
    for _ in range(tries):
        began = time.thread_time()
        for n in range(100_000, 100_000 + loops):
            str(n)
        best = min(best, time.thread_time() - began)
    return max(1.0, best / TODAY * 200_000 / loops)
