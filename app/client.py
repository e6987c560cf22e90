"""An engine as Qt signals, for the window's thread."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeVar

from PySide6.QtCore import QObject, Signal

from app.engine import Abilities, Died, Engine, Event, Restarted, Silent, WeightReader
from app.inbox import Inbox
from engine.protocol import (
    Failed,
    Finished,
    Generate,
    Live,
    Loaded,
    Piece,
    Progress,
    R,
    Reply,
    Request,
    Unload,
)

K = TypeVar("K", bound=Reply)


class _Kind(QObject):
    """Where replies of one class are heard."""

    told = Signal(object)


@dataclass(frozen=True)
class _Question:
    """A request that has not ended, and whom its end is for."""

    request: Request[Any]
    then: Callable[[Any], None] | None
    fail: Callable[[Failed], None] | None


class EngineClient(QObject):
    """One client of an engine.

    All methods are for the window's thread and return at once; ids are never used twice, also not
    after a restart. Events come in the order they were told, at most once a frame.
    """

    progress = Signal(object)  # Progress, the latest of a frame
    pieces = Signal(object, list)  # request id, its Pieces of this frame
    failed = Signal(object)  # Failed, of a request that was asked without `fail`
    died = Signal(object)  # the error, once a death
    silent = Signal(float)  # seconds without a sign of life; 0 when it responds again
    restarted = Signal()  # a fresh engine runs where one had died, hung or was ended

    def __init__(self, engine: Engine, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._inbox = Inbox(self._deliver, self)
        self._engine = engine
        self._client = engine.join(self._inbox.put)
        self._kinds: dict[type[Reply], _Kind] = {}
        self._questions: dict[int, _Question] = {}
        self._closed = False

    @property
    def abilities(self) -> Abilities:
        """The abilities of the current engine."""
        return self._engine.abilities

    def on(self, kind: type[K], hear: Callable[[K], None]) -> None:
        """Hear all replies of a class, this client's and those for everybody; of Piece and
        Progress the signals tell.
        """
        if kind not in self._kinds:
            self._kinds[kind] = _Kind(self)
        self._kinds[kind].told.connect(hear)

    def ask(
        self,
        request: Request[R],
        then: Callable[[R], None] | None = None,
        fail: Callable[[Failed], None] | None = None,
    ) -> int:
        """Ask for something, and hear how it ends; `request.id` is replaced by the one returned."""
        if self._closed:
            return 0
        number = self._client.ask(request)
        self._questions[number] = _Question(request, then, fail)
        return number

    def weights(self, path: str) -> WeightReader:
        """A model's numbers; for a job, as it may take a while. Raises `BadFile`."""
        return self._engine.weights(path)

    def cancel(self, request_id: int) -> None:
        """Stop a request; it still ends."""
        self._client.cancel(request_id)

    def look(self, request_id: int, live: Live) -> None:
        """From now on an answer tells this of its inside; nothing where it has ended."""
        self._client.look(request_id, live)

    def open(self, request: Request[Loaded]) -> int:
        """Open a model in place of the one before; what is under way is cancelled."""
        self._cancel_all()
        return self.ask(request)

    def unload(self) -> int:
        """Close the model; what is under way is cancelled."""
        self._cancel_all()
        return self.ask(Unload(0))

    def generate(self, request: Generate) -> int:
        """Ask for an answer."""
        return self.ask(request)

    def restart(self) -> None:
        """A fresh engine, whatever became of the one before; what that ends has ended on return."""
        self._engine.restart()
        self.drain()

    def drain(self) -> None:
        """Deliver what has come, without waiting for the next frame."""
        self._inbox.drain()

    def close(self) -> None:
        """Leave the engine, which others may still use; harmless when done twice."""
        self._closed = True
        self._client.leave()
        self._inbox.close()

    def _cancel_all(self) -> None:
        for number, question in list(self._questions.items()):
            if question.request.ends in (Loaded, Finished):
                self.cancel(number)

    def _deliver(self, arrived: list[Event]) -> None:
        for (kind, _), group in groupby(arrived, _key):
            if self._closed:  # by a slot just now
                return
            events: list[Any] = list(group)
            if issubclass(kind, Piece):
                self.pieces.emit(events[0].id, events)
            elif issubclass(kind, Progress):
                self.progress.emit(events[-1])
            else:
                for event in events:
                    if not self._closed:
                        self._pass_on(event)

    def _pass_on(self, event: Event) -> None:
        if isinstance(event, Died):
            self.died.emit(event.error)
        elif isinstance(event, Restarted):
            self.restarted.emit()
        elif isinstance(event, Silent):
            self.silent.emit(event.seconds)
        else:
            if type(event) in self._kinds:
                self._kinds[type(event)].told.emit(event)
            self._end(event)

    def _end(self, reply: Reply) -> None:
        question = self._questions.get(reply.id)
        if question is None:
            return
        if isinstance(reply, Failed):
            del self._questions[reply.id]
            (question.fail or self.failed.emit)(reply)
        elif isinstance(reply, question.request.ends):
            del self._questions[reply.id]
            if question.then is not None:
                question.then(reply)


class Latest:
    """Questions of which only the newest matters: an older one is cancelled, and not answered."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client
        self._id: int | None = None

    def ask(
        self, request: Request[R], then: Callable[[R], None], fail: Callable[[Failed], None]
    ) -> None:
        """Ask in place of what was asked before."""
        self.forget()

        def end(reply: Any) -> None:
            if reply.id == self._id:
                self._id = None
                (fail if isinstance(reply, Failed) else then)(reply)

        self._id = self._client.ask(request, end, end)

    def forget(self) -> None:
        """The answer to what was asked no longer matters."""
        if self._id is not None:
            self._client.cancel(self._id)
            self._id = None


def _key(event: Event) -> tuple[type, int]:
    return type(event), event.id if isinstance(event, Reply) else 0
