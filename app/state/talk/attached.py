"""The pictures of the message that is being written, and of one that is written anew."""

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.language import tr
from app.state.preferences import PreferencesState
from app.state.problem import Problem
from app.state.session import Session
from app.state.talk.disk.picture_files import read_picture
from app.state.talk.disk.store import ChatStore, StoreError
from app.state.talk.message import Picture
from app.work import Work
from engine.protocol import PictureLimits

MOST_PICTURES = 100  # of a message


@dataclass(frozen=True)
class Arrival:
    """A picture on its way: whose it is to be, where its bytes come from, what it may take."""

    chat: int | None
    name: str
    bytes: Callable[[], bytes]
    limits: PictureLimits


class PictureList(QObject):
    """Files are read and kept in a thread, one after the other, in the order they were given. What
    is chosen for one picture is from then on the usual for the open model.
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
        """The names of those that are on their way here."""
        return tuple(arrival.name for arrival in self._coming if arrival.chat == self._chat)

    def add_files(self, paths: Sequence[Path]) -> None:
        """Files that were dropped, pasted or chosen, as many as a message takes."""
        self._add([(path.name, partial(read_picture, path)) for path in paths])

    def add_data(self, name: str, data: Callable[[], bytes]) -> None:
        """A picture that is not a file; its bytes are requested in a thread."""
        self._add([(name, data)])

    def remove(self, place: int) -> None:
        """Take one out."""
        self._replace(self.pictures[:place] + self.pictures[place + 1 :])

    def move(self, place: int, to: int) -> None:
        """Move one, the others close up."""
        rest = self.pictures[:place] + self.pictures[place + 1 :]
        self._replace((*rest[:to], self.pictures[place], *rest[to:]))

    def limit(self, place: int, limits: PictureLimits) -> None:
        """Set the limits of one picture, and of pictures added later."""
        changed = replace(self.pictures[place], limits=limits)
        self._replace((*self.pictures[:place], changed, *self.pictures[place + 1 :]))
        if self._session.path is not None:
            self._preferences.update_model(str(self._session.path), picture=limits)

    @abstractmethod
    def _replace(self, pictures: tuple[Picture, ...]) -> None:
        """Have these instead, or report the problem."""

    @abstractmethod
    def _keep(self, arrival: Arrival) -> Picture:
        """Keep a picture's file; in a thread."""

    @abstractmethod
    def _take(self, picture: Picture) -> None:
        """It is kept; `changed` is emitted after this."""

    def _add(self, pasted: Sequence[tuple[str, Callable[[], bytes]]]) -> None:
        room = max(0, MOST_PICTURES - len(self.pictures) - len(self.arriving))
        usual = self._preferences.of_model(str(self._session.path or "")).picture
        self._coming.extend(Arrival(self._chat, name, data, usual) for name, data in pasted[:room])
        if len(pasted) > room:
            many = tr(
                "a message takes at most {most_pictures} pictures", most_pictures=MOST_PICTURES
            )
            self.problem.emit(
                Problem(
                    "Picture", tr("{many}; {count} left out", many=many, count=len(pasted) - room)
                )
            )
        self._next()

    def _next(self) -> None:
        if self._job is None and self._coming:
            work = Work(self._keep, self._coming[0])
            self._job = work.then(self._end).fail(self._failed).start(self)
        self.changed.emit()

    def _failed(self, why: str) -> None:
        self.problem.emit(Problem("Picture", why))
        self._end(None)

    def _end(self, picture: Picture | None) -> None:
        self._job = None
        self._coming.popleft()
        if picture is not None:
            self._take(picture)
        self._next()


class Attached(PictureList):
    """Pictures of the open chat's draft; kept with the chat, also over a restart."""

    def show(self, chat: int | None) -> None:
        """Show the pictures of this chat's draft; None is the new chat that is not stored yet."""
        self._chat = chat
        self._load()
        self.changed.emit()

    def _replace(self, pictures: tuple[Picture, ...]) -> None:
        try:
            self._store.pictures.set_draft(self._chat, pictures)
        except StoreError as error:
            self.problem.emit(Problem(error.kind, str(error)))
            return
        self.pictures = pictures
        self.changed.emit()

    def _keep(self, arrival: Arrival) -> Picture:
        data = arrival.bytes()
        with self._store.elsewhere() as here:
            return here.pictures.add_to_draft(arrival.chat, data, arrival.name, arrival.limits)

    def _take(self, picture: Picture) -> None:
        self._load()

    def _load(self) -> None:
        try:
            self.pictures = self._store.pictures.of_draft(self._chat)
        except StoreError as error:
            self.problem.emit(Problem(error.kind, str(error)))


class EditedPictures(PictureList):
    """Pictures of a message that is being edited. Nothing names a file that is added before the
    message is sent; it goes with the window where that never happens.
    """

    def __init__(
        self,
        store: ChatStore,
        session: Session,
        preferences: PreferencesState,
        pictures: tuple[Picture, ...],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(store, session, preferences, parent)
        self.pictures = pictures

    def _replace(self, pictures: tuple[Picture, ...]) -> None:
        self.pictures = pictures
        self.changed.emit()

    def _keep(self, arrival: Arrival) -> Picture:
        hash = self._store.pictures.keep(arrival.bytes(), arrival.name)
        return Picture(hash, arrival.name, arrival.limits)

    def _take(self, picture: Picture) -> None:
        self.pictures = (*self.pictures, picture)
