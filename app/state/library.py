"""Models on this disk, and those that can be fetched."""

from PySide6.QtCore import QObject, Signal

from app.fetch.known import KnownModel
from app.library import Stored


class LibraryState(QObject):
    """The lists of the chooser."""

    changed = Signal()

    models: list[Stored]
    looking: bool
    problem: str

    @property
    def fetchable(self) -> list[KnownModel]:
        """Known models that are not on this disk."""
        ...

    def refresh(self) -> None:
        """Look at the disk in the background."""
