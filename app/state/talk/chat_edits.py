"""The edits of the open chat: changed, undone, stored, and as the engine takes them."""

from collections.abc import Callable, Mapping

from msgspec.structs import replace
from PySide6.QtCore import QObject, QTimer, Signal

from app.state.history import History
from app.state.problem import Problem
from app.state.talk.disk.database import StoreError
from app.state.talk.disk.vector_rows import VectorRows
from app.state.talk.edits import NO_EDITS, ChatEdit, EditSet
from app.state.talk.message import Message
from engine.errors import BadSetting
from engine.protocol import Edit

SETTLED_MS = 60


class ChatEdits(QObject):
    """The edits of the open chat's next answer, with undo and redo. `write` stores fields of the
    chat and returns False where there is no chat yet; then they are stored with its first question.
    """

    changed = Signal()
    settled = Signal()  # a person has changed them; while a slider moves now and then
    problem = Signal(object)  # Problem: an answer's directions are gone

    def __init__(self, vectors: VectorRows, write: Callable[..., bool], parent: QObject) -> None:
        super().__init__(parent)
        self._vectors, self._write = vectors, write
        self._soon = QTimer(self, singleShot=True, interval=SETTLED_MS)
        self._soon.timeout.connect(self.settled)
        self._history = History(NO_EDITS)
        self.fresh: dict[str, bytes] = {}  # directions that are not stored yet, by hash

    def take(self, value: EditSet) -> None:
        """Show those of another chat, which has no past."""
        self._history, self.fresh = History(value), {}
        self._soon.stop()
        self.changed.emit()

    @property
    def value(self) -> EditSet:
        return self._history.now

    def now(self, wanted: bool = True) -> tuple[EditSet, list[Edit]]:
        """The edits of the next answer, and the same as `request` makes them; none if unwanted."""
        active = self.value.active if wanted else NO_EDITS
        return active, self.request(active)

    def request(self, edits: EditSet) -> list[Edit]:
        """Edits as the engine takes them, with vectors. Raises StoreError, BadSetting."""
        return self._vectors.request(edits, self.fresh)

    def of(self, message: Message) -> list[Edit]:
        """The edits that an answer was written with, as the engine takes them; none, and a problem,
        where their directions are gone.
        """
        try:
            return self.request(message.edits)
        except (StoreError, BadSetting) as error:
            self.problem.emit(Problem(error.kind, str(error)))
            return []

    @property
    def can_undo(self) -> bool:
        return self._history.can_undo

    @property
    def can_redo(self) -> bool:
        return self._history.can_redo

    def add(self, one: ChatEdit, vectors: Mapping[str, bytes] | None = None) -> None:
        """One more; `vectors` are its packed directions by their hash. It is on, as all are then.
        Raises `BadSetting`.
        """
        edits = replace(self.value, edits=(*self.value.edits, one), on=True)
        edits.check()
        self.fresh |= vectors or {}
        self._go(edits)

    def put(self, at: int, one: ChatEdit, sliding: bool = False) -> None:
        """Another one in the place of number `at`; values of a slider are one step to undo. Raises
        `BadSetting`.
        """
        one.check()
        edits = list(self.value.edits)
        edits[at] = one
        self._go(replace(self.value, edits=tuple(edits)), at if sliding else None)
        if not sliding:
            self._history.settle()

    def remove(self, at: int) -> None:
        """Take out number `at`."""
        edits = self.value.edits
        self._go(replace(self.value, edits=edits[:at] + edits[at + 1 :]))

    def switch(self, at: int, on: bool) -> None:
        """Apply number `at` to the next answers, or not."""
        self.put(at, replace(self.value.edits[at], on=on))

    def switch_all(self, on: bool) -> None:
        """Apply the edits to the next answers, or none of them."""
        self._go(replace(self.value, on=on))

    def clear(self) -> None:
        """Have no edits."""
        self._go(NO_EDITS)

    def undo(self) -> None:
        if self.can_undo:
            self._history.undo()
            self._store()

    def redo(self) -> None:
        if self.can_redo:
            self._history.redo()
            self._store()

    def _go(self, value: EditSet, slider: int | None = None) -> None:
        if value != self.value:
            self._history.put(value, slider)
            self._store()

    def _store(self) -> None:
        self._write(edits=self.value, vectors=self.fresh)
        self.changed.emit()
        if not self._soon.isActive():
            self._soon.start()
