"""`cutaway WORDS` in this process, by an engine that was started for the command before it.

For what is said, refused and computed. That a program starts, ends and leaves nothing behind is
proven by `tests.program.run`, which each command's tests use as well.
"""

import atexit
import io
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any
from unittest.mock import patch

import pytest

from app import cli
from engine.errors import CutawayError
from engine.protocol import Unload
from engine.worker import Worker
from engine.worker.handle import PROGRAM
from tests.program import MARK, Ended

PATIENCE = 10.0  # seconds that an engine has to become free, else it is ended
KEPT = 2  # engines
_start, _end = Worker.__init__, Worker.close
_kept: list[tuple[dict[str, str], dict[str, Any]]] = []
"""Environments, and the state of handles whose engines were started there."""


def run_here(*words: str, given: str | bytes = "") -> Ended:
    """As `tests.program.run`, without a process for the program."""
    given = given.encode() if isinstance(given, str) else given
    out, err = io.BytesIO(), io.BytesIO()
    streams = [io.TextIOWrapper(one, "utf-8", newline="\n") for one in (out, err)]
    with patch.multiple(
        sys, stdin=io.TextIOWrapper(io.BytesIO(given)), stdout=streams[0], stderr=streams[1]
    ):
        status = cli.main(words)
        for stream in streams:
            stream.flush()
    return Ended(words, status, out.getvalue().decode(), err.getvalue().decode())


@pytest.fixture
def kept_engines() -> Iterator[None]:
    """Handles of engines give theirs back when they are closed, for the next one to take."""
    with patch.object(Worker, "__init__", _take), patch.object(Worker, "close", _give_back):
        yield


def _environment() -> dict[str, str]:
    # What engines do not look at.
    other = (MARK, "PYTEST_CURRENT_TEST", "CUTAWAY_MODELS", "XDG_CONFIG_HOME")
    return {k: v for k, v in os.environ.items() if k not in other}


def _take(worker: Worker, program: str = PROGRAM) -> None:
    if program != PROGRAM:
        _start(worker, program)
        vars(worker)["close"] = partial(_end, worker)
        return
    here = _environment()
    for at, (environment, state) in enumerate(_kept):
        if environment == here:
            vars(worker).update(state)
            del _kept[at]
            if worker.alive:
                return
            _end(worker)
            break
    with patch.dict(os.environ):
        os.environ.pop(MARK, None)  # it outlives the test that starts it
        _start(worker)


def _give_back(worker: Worker) -> None:
    if not vars(worker):  # it has
        return
    if _is_free(worker):
        _kept.append((_environment(), dict(vars(worker))))
        vars(worker).clear()
        if len(_kept) > KEPT:
            _end_first()
    else:
        _end(worker)


def _is_free(worker: Worker) -> bool:
    """Whether what was asked of it has ended; it holds no model then."""
    if not isinstance(sys.exc_info()[1], CutawayError | None):
        return False
    request, deadline = Unload(worker.new_id()), monotonic() + PATIENCE
    with suppress(CutawayError):
        worker.send(request)
        while monotonic() < deadline:
            reply = worker.receive(0.1)
            if reply is not None and reply.id == request.id:
                return isinstance(reply, request.ends)
    return False


def _end_first() -> None:
    worker = Worker.__new__(Worker)
    vars(worker).update(_kept.pop(0)[1])
    _end(worker)


@atexit.register
def _end_all() -> None:
    while _kept:
        _end_first()
