"""What happened, line by line."""

from dataclasses import dataclass

from PySide6.QtCore import QObject, Signal


@dataclass(frozen=True)
class LogLine:
    """`source` is the subject: engine, chats, fetch, window. `details` may have many lines."""

    time: float
    level: int  # of logging
    source: str
    text: str
    details: str = ""


class LogState(QObject):
    """The latest lines, of Python's logging and of the engine; bounded."""

    appended = Signal(int)  # how many lines came, at the end
    dropped = Signal(int)  # how many went from the start

    lines: list[LogLine]

    def clear(self) -> None: ...
    def close(self) -> None:
        """Hear no more."""
