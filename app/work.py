"""A background job as one object: `Work(fn, *args).then(ok).fail(err).progress(cb).start(parent)`.

The function runs in a thread; what it returns, raises and reports comes back in the window's
thread, at most once a frame.
"""

import logging
import threading
from collections.abc import Callable
from time import monotonic
from typing import Any, Self

import shiboken6
from PySide6.QtCore import QObject

from app.files import problem
from app.inbox import Inbox
from app.translated import in_language
from engine.errors import CutawayError

PATIENCE = 2.0  # seconds that `close_jobs` waits; a thread that waits for the network goes later

log = logging.getLogger("window.work")


class Work:
    """One job. `fn(*args)` is called, or `fn(job, *args)` of one made by `Work.polling`.

    `then` gets its result, `fail` one line of text, `progress` what `report` was given last. None
    of them is called after `cancel`, nor when `parent` no longer exists.
    """

    def __init__(self, fn: Callable[..., Any], *args: Any) -> None:
        self._fn, self._args = fn, args
        self._done: Callable[[Any], None] | None = None
        self._failed: Callable[[str], None] | None = None
        self._reported: Callable[..., None] | None = None
        self._parent: QObject | None = None
        self._jobs: _Jobs | None = None
        self._cancelled = False

    @classmethod
    def polling(cls, fn: Callable[..., Any], *args: Any) -> Self:
        """A job whose function takes the job first, to poll `cancelled` and to `report`."""
        job = cls(fn)
        job._args = (job, *args)
        return job

    def then(self, done: Callable[[Any], None]) -> Self:
        """Set the callback for the result."""
        self._done = done
        return self

    def fail(self, failed: Callable[[str], None]) -> Self:
        """Set the callback for an error, which gets its one line."""
        self._failed = failed
        return self

    def progress(self, reported: Callable[..., None]) -> Self:
        """Set the callback for the values of `report`."""
        self._reported = reported
        return self

    def start(self, parent: QObject) -> Self:
        """Begin, in a thread of its own; to be called in the window's thread."""
        self._parent, self._jobs = parent, _jobs()
        self._jobs.submit(self)
        return self

    @property
    def cancelled(self) -> bool:
        """True after the job was cancelled; for the function to poll, from its thread."""
        return self._cancelled

    def report(self, *values: Any) -> None:
        """Report progress from its thread; only the latest of a frame is delivered."""
        if self._jobs is not None:
            self._jobs.inbox.put((self, "progress", values))

    def cancel(self) -> None:
        """Stop it; harmless when done twice or too late."""
        self._cancelled = True

    def run(self) -> None:
        """Do it and send what came of it; in its thread."""
        assert self._jobs is not None
        outcome: tuple[str, tuple[Any, ...]]
        try:
            outcome = "done", (None if self._cancelled else self._fn(*self._args),)
        except CutawayError as error:
            outcome = "failed", (in_language(str(error)),)
        except OSError as error:
            outcome = "failed", (in_language(problem(error)),)
        except Exception as error:  # noqa: BLE001  shown to the person and logged
            if not self._cancelled:
                log.exception("a job failed")
            outcome = "failed", (f"unexpected {type(error).__name__}: {error}",)
        self._jobs.inbox.put((self, *outcome))

    def deliver(self, event: str, values: tuple[Any, ...]) -> None:
        """Call the callbacks; in the window's thread."""
        callbacks = {"progress": self._reported, "done": self._done, "failed": self._failed}
        callback = callbacks[event]
        if callback and not self._cancelled and shiboken6.isValid(self._parent):
            callback(*values)


class _Jobs:
    """The jobs' threads and the way back; jobs are held here until they have ended."""

    def __init__(self) -> None:
        self.inbox = Inbox(self._deliver)
        self._running: dict[Work, threading.Thread] = {}

    def submit(self, work: Work) -> None:
        self._running[work] = threading.Thread(target=work.run, name="job", daemon=True)
        self._running[work].start()

    def close(self) -> None:
        for work in self._running:
            work.cancel()
        latest = monotonic() + PATIENCE
        for thread in self._running.values():
            thread.join(max(0.0, latest - monotonic()))
        self.inbox.close()
        self._running.clear()

    def _deliver(self, arrived: list[tuple[Work, str, tuple[Any, ...]]]) -> None:
        latest = {id(work): n for n, (work, event, _) in enumerate(arrived) if event == "progress"}
        for n, (work, event, values) in enumerate(arrived):
            if event != "progress":
                self._running.pop(work, None)
            elif latest[id(work)] != n:
                continue
            work.deliver(event, values)


_current: _Jobs | None = None


def _jobs() -> _Jobs:
    global _current
    if _current is None:
        _current = _Jobs()
    return _current


def close_jobs() -> None:
    """Cancel all jobs and wait PATIENCE for their threads; before the application ends."""
    global _current
    if _current is not None:
        _current.close()
        _current = None
