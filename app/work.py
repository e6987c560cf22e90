"""A background job as one object: `Work(fn, *args).then(ok).fail(err).progress(cb).start(parent)`.

The function runs in a thread; what it returns, raises and reports comes back in the window's
thread, at most once a frame.
"""

from collections.abc import Callable
from typing import Any, Self

from PySide6.QtCore import QObject


class Work:
    """One job. `fn(*args)` is called, or `fn(job, *args)` of one made by `Work.polling`.

    `then` gets its result, `fail` one line of text, `progress` what `report` was given last. None
    of them is called after `cancel`, nor when `parent` no longer exists.
    """

    def __init__(self, fn: Callable[..., Any], *args: Any) -> None: ...

    @classmethod
    def polling(cls, fn: Callable[..., Any], *args: Any) -> Self:
        """A job whose function takes the job first, to poll `cancelled` and to `report`."""
        ...

    def then(self, done: Callable[[Any], None]) -> Self: ...
    def fail(self, failed: Callable[[str], None]) -> Self: ...
    def progress(self, reported: Callable[[Any], None]) -> Self: ...

    def start(self, parent: QObject) -> Self:
        """Queue it; to be called in the window's thread."""
        ...

    @property
    def cancelled(self) -> bool:
        """Whether the job was told to stop; for the function to poll, from its thread."""
        ...

    def report(self, *values: Any) -> None:
        """Tell how far it is, from its thread; only the latest of a frame is delivered."""

    def cancel(self) -> None:
        """Stop it; harmless when done twice or too late."""


def close_jobs() -> None:
    """Cancel all jobs and wait for their threads; before the application ends."""
