"""The pictures of the message that is being written."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.state.preferences import PreferencesState
from app.state.problem import Problem
from app.state.session import Session
from app.state.talk.disk.picture_files import read_picture
from app.state.talk.disk.store import ChatStore, StoreError
from app.state.talk.message import Picture
from app.work import Work
from engine.protocol import PictureLimits


@dataclass(frozen=True)
class Arrival:
    """A picture on its way: whose draft it is for, where its bytes come from, what it may take."""

    chat: int | None
    name: str
    bytes: Callable[[], bytes]
    limits: PictureLimits


class Attached(QObject):
    """Those of the open chat's draft, in order; kept with the chat, also over a restart.

    Files are read and kept in a thread, one after the other, in the order they were given. What is
    chosen for one picture is from then on the usual for the open model.
    """

    changed = Signal()
    problem = Signal(object)  # Problem of one that could not be kept

    def __init__(
        self,
        store: ChatStore,
        session: Session,
        preferences: PreferencesState,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._store, self._session, self._preferences = store, session, preferences
        self._chat: int | None = None
        self._coming: deque[Arrival] = deque()
        self._job: Work | None = None
        self.pictures: tuple[Picture, ...] = ()

    @property
    def arriving(self) -> tuple[str, ...]:
        """The names of those that are on their way to this draft."""
        return tuple(arrival.name for arrival in self._coming if arrival.chat == self._chat)

    def show(self, chat: int | None) -> None:
        """Those of this chat's draft; None is the chat that is not begun."""
        self._chat = chat
        self._reload()

    def add_files(self, paths: Sequence[Path]) -> None:
        """Files that were dropped, pasted or chosen."""
        for path in paths:
            self._come(path.name, partial(read_picture, path))
        self._next()

    def add_data(self, name: str, data: Callable[[], bytes]) -> None:
        """A picture that is no file; its bytes are asked for in a thread."""
        self._come(name, data)
        self._next()

    def remove(self, place: int) -> None:
        """Take one out."""
        self._replace(self.pictures[:place] + self.pictures[place + 1 :])

    def move(self, place: int, to: int) -> None:
        """Move one, the others close up."""
        rest = self.pictures[:place] + self.pictures[place + 1 :]
        self._replace((*rest[:to], self.pictures[place], *rest[to:]))

    def limit(self, place: int, limits: PictureLimits) -> None:
        """What models may make of one, and of those that are added after it."""
        changed = replace(self.pictures[place], limits=limits)
        self._replace((*self.pictures[:place], changed, *self.pictures[place + 1 :]))
        if self._session.path is not None:
            self._preferences.update_model(str(self._session.path), picture=limits)

    def _come(self, name: str, data: Callable[[], bytes]) -> None:
        usual = self._preferences.of_model(str(self._session.path or "")).picture
        self._coming.append(Arrival(self._chat, name, data, usual))

    def _replace(self, pictures: tuple[Picture, ...]) -> None:
        try:
            self._store.pictures.set_draft(self._chat, pictures)
        except StoreError as error:
            self.problem.emit(Problem(error.kind, str(error)))
            return
        self.pictures = pictures
        self.changed.emit()

    def _next(self) -> None:
        if self._job is None and self._coming:
            work = Work(_keep, self._store, self._coming[0])
            self._job = work.then(lambda _: self._end()).fail(self._failed).start(self)
        self.changed.emit()

    def _failed(self, why: str) -> None:
        self.problem.emit(Problem("Picture", why))
        self._end()

    def _end(self) -> None:
        self._job = None
        self._coming.popleft()
        self._reload()
        self._next()

    def _reload(self) -> None:
        try:
            self.pictures = self._store.pictures.of_draft(self._chat)
        except StoreError as error:
            self.problem.emit(Problem(error.kind, str(error)))
        self.changed.emit()


def _keep(store: ChatStore, arrival: Arrival) -> None:
    data = arrival.bytes()
    with store.elsewhere() as here:
        here.pictures.add_to_draft(arrival.chat, data, arrival.name, arrival.limits)
