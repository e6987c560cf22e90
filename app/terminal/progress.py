"""A progress bar on stderr: only on a terminal, and only for what takes over half a second."""

import shutil
import sys
import time
from types import TracebackType
from typing import Self

from app.terminal.text import control, plain

APPEARS_AFTER = 0.5  # seconds
REDRAW_EVERY = 0.1
WIDTH = 24


class Bar:
    """A context manager; `update` may be called as often as one likes."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._drawn = 0.0
        self._on = sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.clear()

    def clear(self) -> None:
        """Erases the bar, so that something else can be written in its line."""
        if self._drawn:
            self._drawn = 0.0
            control("\r\x1b[K")

    def update(self, label: str, done: float, total: float, amount: str = "") -> None:
        """Draws `done` of `total`; `amount` is put behind the bar."""
        now = time.monotonic()
        late_enough = now - self._start >= APPEARS_AFTER and now - self._drawn >= REDRAW_EVERY
        if not self._on or not late_enough:
            return
        self._drawn = now
        part = min(done / total, 1.0) if total > 0 else 0.0
        bar = "#" * round(part * WIDTH)
        line = f"{plain(label)} [{bar:<{WIDTH}}] {part:4.0%} {amount}"
        line = line[: shutil.get_terminal_size().columns - 1]  # a second line could not be erased
        control(f"\r\x1b[K{line}")


def remaining(start: float, done: int, total: int) -> str:
    """How many of them are done since `start`, and how long the others will take."""
    if not done:
        return f"0 of {total}"
    left = (time.monotonic() - start) / done * (total - done)
    return f"{done} of {total}, {left:.0f} s left"
