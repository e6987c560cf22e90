"""An engine as Qt signals, for the window's thread."""

from collections.abc import Callable
from itertools import groupby
from typing import Any, TypeVar

from msgspec import structs
from PySide6.QtCore import QObject, Signal

from app.engine import Abilities, Client, Died, Engine, Event, Restarted, Silent, WeightReader
from app.inbox import Inbox
from app.translated import in_language
from engine.protocol import (
    Edit,
    Failed,
    Finished,
    Live,
    Loaded,
    Piece,
    Progress,
    QualityMeasured,
    R,
    Reply,
    Request,
    ReviseEdits,
    Unload,
)

K = TypeVar("K", bound=Reply)
TURNS = Loaded, Finished  # loads and answers
GIVE_WAY = *TURNS, QualityMeasured  # what ends when another model is opened


class _Kind(QObject):
    """The signal of replies of one class."""

    received = Signal(object)


class PendingRequest(QObject):
    """A request that was sent to the engine: its id, how far it is, how it ends, how to stop it.

    It ends once, with a reply of `request.ends` or `Failed`, also where the engine dies.
    """

    progress = Signal(object)  # Progress, the latest of a frame
    pieces = Signal(list)  # its Pieces of a frame
    replied = Signal(object)  # any other reply on the way
    ended = Signal(object)  # the reply that ends it

    def __init__(self, client: Client, ends: type[Reply]) -> None:
        super().__init__()
        self._client, self.ends = client, ends
        self.id = 0  # until it is sent

    def cancel(self) -> None:
        """Stop it; it still ends. Nothing where it has ended."""
        self._client.cancel(self.id)

    def revise(self, edits: list[Edit], number: int) -> None:
        """From its next step on an answer has other values of its edits; nothing where it has
        ended.
        """
        self._client.revise(ReviseEdits(self.id, edits, number))

    def look(self, live: Live) -> None:
        """From now on an answer reports this of its inside; nothing where it has ended."""
        self._client.look(self.id, live)


class EngineClient(QObject):
    """One client of an engine.

    All methods are for the window's thread and return at once; ids are never used twice, also not
    after a restart. Events come in their order, at most once a frame.
    """

    failed = Signal(object)  # Failed, of a load or an answer
    died = Signal(object)  # the error, once a death
    silent = Signal(float)  # seconds without a sign of life; 0 when it responds again
    restarted = Signal()  # a fresh engine runs where one had died, hung or was ended

    def __init__(self, engine: Engine, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._inbox = Inbox(self._deliver, self)
        self._engine = engine
        self._client = engine.join(lambda event: self._inbox.put((None, event)))
        self._kinds: dict[type[Reply], _Kind] = {}
        self._open: list[PendingRequest] = []
        self._closed = False

    @property
    def abilities(self) -> Abilities:
        """The abilities of the current engine."""
        return self._engine.abilities

    def on(self, kind: type[K], callback: Callable[[K], None]) -> None:
        """Call `callback` with all replies of a class, this client's and those for everybody."""
        if kind not in self._kinds:
            self._kinds[kind] = _Kind(self)
        self._kinds[kind].received.connect(callback)

    def send(
        self,
        request: Request[R],
        then: Callable[[R], None] | None = None,
        fail: Callable[[Failed], None] | None = None,
    ) -> PendingRequest:
        """Send a request, with what is called once it has ended, or failed. Its id is new."""
        pending = PendingRequest(self._client, request.ends)
        pending.ended.connect(
            lambda reply: _call(fail if isinstance(reply, Failed) else then, reply)
        )
        if not self._closed:
            self._open.append(pending)
            pending.id = self._client.send(request, lambda reply: self._inbox.put((pending, reply)))
        return pending

    def weights(self, path: str) -> WeightReader:
        """A model's numbers; for a job, as it may take a while. Raises `BadFile`."""
        return self._engine.weights(path)

    def open(
        self,
        request: Request[R],
        then: Callable[[R], None] | None = None,
        fail: Callable[[Failed], None] | None = None,
    ) -> PendingRequest:
        """Open a model or two in place of the one before; what is under way is cancelled."""
        self._cancel_all()
        return self.send(request, then, fail)

    def unload(self) -> PendingRequest:
        """Close the model; what is under way is cancelled."""
        self._cancel_all()
        return self.send(Unload(0))

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
        for pending in list(self._open):
            if pending.ends in GIVE_WAY:
                pending.cancel()

    def _deliver(self, arrived: list[tuple[PendingRequest | None, Event]]) -> None:
        for (kind, pending), group in groupby(arrived, lambda one: (type(one[1]), one[0])):
            if self._closed:  # by a slot just now
                return
            events: list[Any] = [event for _, event in group]
            if issubclass(kind, Piece) and pending is not None:
                pending.pieces.emit(events)
            elif issubclass(kind, Progress) and pending is not None:
                pending.progress.emit(events[-1])
            else:
                for event in events:
                    if not self._closed:
                        self._pass_on(pending, event)

    def _pass_on(self, pending: PendingRequest | None, event: Event) -> None:
        if isinstance(event, Died):
            self.died.emit(event.error)
        elif isinstance(event, Restarted):
            self.restarted.emit()
        elif isinstance(event, Silent):
            self.silent.emit(event.seconds)
        else:
            if isinstance(event, Failed):
                event = structs.replace(event, message=in_language(event.message))
            if pending is not None and isinstance(event, Failed | pending.ends):
                self._open.remove(pending)
                pending.ended.emit(event)
                if isinstance(event, Failed) and pending.ends in TURNS:
                    self.failed.emit(event)
            elif pending is not None:
                pending.replied.emit(event)
            if type(event) in self._kinds:
                self._kinds[type(event)].received.emit(event)


Send = Callable[[Request[Any], Callable[[Any], None], Callable[[Failed], None]], PendingRequest]


class Latest(QObject):
    """The newest request of a view: an older one is cancelled, and nothing of it arrives any more.
    `done` of `total` is how far it is.
    """

    moved = Signal()  # done or total
    replied = Signal(object)  # a reply on the way to the one that ends it

    def __init__(self, client: EngineClient, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._client = client
        self._pending: PendingRequest | None = None
        self.done = self.total = 0

    @property
    def running(self) -> bool:
        """True until it has ended."""
        return self._pending is not None

    def send(
        self,
        request: Request[R],
        then: Callable[[R], None],
        fail: Callable[[Failed], None],
        send: Send | None = None,
    ) -> None:
        """Send a request in place of the one before, by `send` where the caller passes one."""
        self.forget()

        def end(reply: Any) -> None:
            if pending is self._pending:
                self._pending = None
                (fail if isinstance(reply, Failed) else then)(reply)

        pending = self._pending = (send or self._client.send)(request, end, end)
        self.done = self.total = 0
        pending.progress.connect(self._on_progress)
        pending.replied.connect(self._on_reply)

    def cancel(self) -> None:
        """Stop it; it still ends, as a rule with Failed of the kind Cancelled."""
        if self._pending is not None:
            self._pending.cancel()

    def forget(self) -> None:
        """Stop it; what becomes of it no longer matters."""
        self.cancel()
        self._pending = None

    def _on_progress(self, progress: Progress) -> None:
        if self._pending is not None and progress.id == self._pending.id:
            self.done, self.total = progress.done, progress.total
            self.moved.emit()

    def _on_reply(self, reply: Reply) -> None:
        if self._pending is not None and reply.id == self._pending.id:
            self.replied.emit(reply)


def _call(then: Callable[[Any], None] | None, reply: Reply) -> None:
    if then is not None:
        then(reply)
