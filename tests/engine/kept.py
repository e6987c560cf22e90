"""One engine process for many tests, since to start one takes as long as most of them."""

import time
import uuid
from contextlib import suppress

import pytest

from engine.errors import WorkerDied
from engine.protocol import Unload, Unloaded
from engine.worker import Worker
from tests.program import MARK, still_there

PATIENCE = 20.0
"""Seconds in which a model is closed, unless a test that failed left something running."""


class KeptWorker:
    """A process that is started when a test asks for it, and anew where one has ended it.

    What it leaves behind is looked for once, when it is closed.
    """

    def __init__(self, program: str = "engine.worker") -> None:
        self._program = program
        self._mark = uuid.uuid4().hex
        self._worker: Worker | None = None

    def start(self) -> Worker:
        """It runs, without a model."""
        if self._worker is None:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv(MARK, self._mark)
                self._worker = Worker(self._program)
        return self._worker

    def leave(self) -> None:
        """Close its model behind a test; end it where it does not hear of that."""
        if self._worker is not None and not self._is_empty(self._worker):
            self._worker.close()
            self._worker = None

    def close(self) -> None:
        """End it. Fails where a process that it started outlives it."""
        if self._worker is not None:
            self._worker.close()
        deadline = time.monotonic() + 60
        while left := [p.as_dict(["pid", "cmdline"]) for p in still_there(self._mark)]:
            assert time.monotonic() < deadline, f"left behind: {left}"
            time.sleep(0.05)

    def _is_empty(self, worker: Worker) -> bool:
        with suppress(WorkerDied):
            request = Unload(worker.new_id())
            worker.send(request)
            while (reply := worker.receive(PATIENCE)) is not None:
                if reply.id == request.id:
                    return isinstance(reply, Unloaded)
        return False
