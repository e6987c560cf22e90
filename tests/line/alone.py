"""Tests marked `alone` measure time: no other test of this checkout runs beside them."""

import fcntl
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

# What is locked: any two files of the checkout.
GATE, ROOM = Path(__file__), Path(__file__).with_name("smoke.py")
INSIDE = "CUTAWAY_TEST_ROOM"  # set while a test runs: what it starts is in the room already


@contextmanager
def room(alone: bool) -> Iterator[None]:
    """Held while a test runs: by many, or by one that wants to be alone.

    Who comes waits at the gate, so that one who wants to be alone is not overtaken for ever.
    """
    if INSIDE in os.environ:
        yield
        return
    with GATE.open() as gate, ROOM.open() as inside:
        fcntl.flock(gate, fcntl.LOCK_EX)
        fcntl.flock(inside, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        if not alone:
            fcntl.flock(gate, fcntl.LOCK_UN)
        os.environ[INSIDE] = "alone" if alone else "with others"
        try:
            yield
        finally:
            del os.environ[INSIDE]


def is_alone(item: pytest.Item) -> bool:
    return item.get_closest_marker("alone") is not None


@pytest.hookimpl(wrapper=True, tryfirst=True)  # before the clock of pytest-timeout
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    with room(is_alone(item)):
        return (yield)
