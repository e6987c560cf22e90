"""The values that something has had: undone, and done again."""

from typing import Generic, TypeVar

T = TypeVar("T")
MOST = 500  # steps that are kept


class History(Generic[T]):
    """`now` is the present value. Steps of the same `subject` in a row are one step."""

    def __init__(self, now: T) -> None:
        self.now = now
        self._past: list[T] = []
        self._future: list[T] = []
        self._subject: object = None

    def put(self, value: T, subject: object = None) -> None:
        """A step; none where nothing changes."""
        if value == self.now:
            return
        if subject is None or subject != self._subject:
            self._past = [*self._past, self.now][-MOST:]
        self._subject = subject
        self._future.clear()
        self.now = value
        if self._past and self._past[-1] == value:  # back where these steps began
            self._past.pop()
            self._subject = None

    def amend(self, value: T) -> None:
        """More is known of the present value; no step."""
        self.now = value

    def settle(self) -> None:
        """Make the next edit a step of its own."""
        self._subject = None

    @property
    def can_undo(self) -> bool:
        return bool(self._past)

    @property
    def can_redo(self) -> bool:
        return bool(self._future)

    def undo(self) -> None:
        """To the value before."""
        if self._past:
            self._future.append(self.now)
            self.now = self._past.pop()
            self._subject = None

    def redo(self) -> None:
        """To the value before `undo`."""
        if self._future:
            self._past.append(self.now)
            self.now = self._future.pop()
            self._subject = None
