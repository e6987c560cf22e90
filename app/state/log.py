"""The log's entries."""

import logging
from dataclasses import dataclass

from PySide6.QtCore import QObject, Signal

from app.inbox import Inbox

LONGEST = 5000  # lines that are kept
LIBRARIES = ("httpx", "httpx2", "httpcore")
"""Their information about each request is of no use to a person; their warnings are."""


@dataclass(frozen=True)
class LogLine:
    """`source` is the logger's first name: engine, chats, fetch, window. `details` may be long."""

    time: float
    level: int  # of logging
    source: str
    text: str
    details: str = ""


class LogState(QObject):
    """The latest lines of Python's logging, from all threads; bounded."""

    appended = Signal(int)  # how many lines came, at the end
    dropped = Signal(int)  # how many went from the start

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.lines: list[LogLine] = []
        self._inbox = Inbox(self.take, self)
        self._handler = _Handler(self._inbox)
        root = logging.getLogger()
        self._level_before = root.level
        root.addHandler(self._handler)
        root.setLevel(min(root.level, logging.INFO))

    def clear(self) -> None:
        """Forget all lines."""
        n = len(self.lines)
        self.lines.clear()
        self.dropped.emit(n)

    def close(self) -> None:
        """Take no more records. Harmless when done twice."""
        root = logging.getLogger()
        if self._handler in root.handlers:
            root.removeHandler(self._handler)
            root.setLevel(self._level_before)
        self._inbox.close()

    def take(self, lines: list[LogLine]) -> None:
        self.lines += lines
        self.appended.emit(len(lines))
        excess = len(self.lines) - LONGEST
        if excess > 0:
            del self.lines[:excess]
            self.dropped.emit(excess)


class _Handler(logging.Handler):
    def __init__(self, inbox: Inbox) -> None:
        super().__init__(logging.INFO)
        self._inbox = inbox

    def emit(self, record: logging.LogRecord) -> None:
        """From any thread."""
        if record.levelno < logging.WARNING and record.name.split(".")[0] in LIBRARIES:
            return
        formatter = self.formatter or logging.Formatter()
        details = formatter.formatException(record.exc_info) if record.exc_info else ""
        source = record.name.partition(".")[0]
        line = LogLine(record.created, record.levelno, source, record.getMessage(), details)
        self._inbox.put(line)
