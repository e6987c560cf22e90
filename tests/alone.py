"""Tests marked `alone` measure time: nothing runs beside them, in no worker and no other run."""

import fcntl
import os
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

FOLDER = Path(tempfile.gettempdir())


@contextmanager
def room(alone: bool) -> Iterator[None]:
    """Held while a test runs: by many, or by one that wants to be alone.

    Who comes waits at the gate, so that one who wants to be alone is not overtaken for ever.
    """
    own = f"cutaway-tests-{os.getuid()}"
    with open(FOLDER / f"{own}-gate", "w") as gate, open(FOLDER / f"{own}-room", "w") as inside:
        fcntl.flock(gate, fcntl.LOCK_EX)
        fcntl.flock(inside, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        if not alone:
            fcntl.flock(gate, fcntl.LOCK_UN)
        yield


def is_alone(item: pytest.Item) -> bool:
    return item.get_closest_marker("alone") is not None


@pytest.hookimpl(wrapper=True, tryfirst=True)  # before the clock of pytest-timeout
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    with room(is_alone(item)):
        return (yield)
