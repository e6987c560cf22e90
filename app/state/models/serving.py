"""The open model for other programs: on and off, its address and key, who is using it."""

import socket
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import ip_address
from secrets import token_urlsafe

import psutil
from PySide6.QtCore import QObject, Signal

from app.engine import Engine
from app.inbox import Inbox
from app.language import tr
from app.remote.connection import Connection
from app.remote.keys import Keys
from app.serve.clients import RequestBegan, RequestEnded, RequestText, ServedEvent, ServedRequest
from app.serve.server import Serving
from app.serve.settings import PORT, ServeSettings
from app.state.models.model import ModelState
from app.state.session import Session
from engine.errors import CutawayError
from engine.protocol import ChatMessage, FileContent, Generate, Loaded

OWN = Connection("this machine", "http://localhost")  # whose key the keyring has
EVERYWHERE = "0.0.0.0"
SLOTS = 4
KEY_BYTES = 18
KEPT = 100  # requests whose texts can be read
LONGEST = 100_000  # characters of one that are kept


@dataclass
class ServedText:
    """The prompt of a served request, and the answer so far."""

    conversation: Sequence[ChatMessage]
    answer: str = ""


class ServingState(QObject):
    """A server over the window's own engine; it listens on this machine alone unless `start` says
    otherwise, and then needs a key. Requests are kept in memory, for the person to read.

    The server's commands run in a thread of their own, in order: nobody waits for them here.
    """

    changed = Signal()  # on, address, problem
    moved = Signal()  # rows or texts, at most once a frame
    ended = Signal(object, object)  # RequestEnded, its ServedText

    def __init__(
        self,
        engine: Engine,
        session: Session,
        file: ModelState,
        keys: Keys,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._engine, self._session, self._file, self._keys = engine, session, file, keys
        self.serving: Serving | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._inbox = Inbox(self._deliver, self)
        self.busy = False  # it starts or stops
        self.address = self.key = self.problem = ""
        self.texts: OrderedDict[int, ServedText] = OrderedDict()
        session.opened.connect(self._open)
        session.changed.connect(self._follow)
        file.changed.connect(self._open)
        self._open_model: tuple[Loaded, FileContent | None] | None = None

    @property
    def is_on(self) -> bool:
        """True while the server is running."""
        return self.serving is not None

    @property
    def rows(self) -> list[ServedRequest]:
        """Current and past requests, the newest first."""
        serving = self.serving
        if serving is None:
            return []
        return [*reversed(serving.clients.now), *reversed(serving.clients.log)]

    @property
    def answers(self) -> bool:
        """Whether a request is under way."""
        return self.serving is not None and bool(self.serving.clients.now)

    def start(self, port: int = PORT, shared: bool = False) -> None:
        """Listen; `shared` for other machines too, which then need the key."""
        if self.busy or self.is_on:
            return
        self.busy, self.problem = True, ""
        self.texts.clear()
        self.changed.emit()
        self._do(lambda: self._listen(port, shared), self._started)

    def stop(self) -> None:
        """Accept no more requests; answers under way get some seconds to end."""
        serving, self.serving = self.serving, None
        if serving is not None:
            self.busy, self.address, self.key = True, "", ""
            self._open_model = None
            self.changed.emit()
            self._do(serving.stop, self._stopped)

    def close(self) -> None:
        """End it now; to be called before the engine is left."""
        self._inbox.close()
        serving, self.serving = self.serving, None
        if self._thread is not None:
            if serving is not None:
                self._thread.submit(serving.stop, 0)
            self._thread.shutdown(wait=True)
            self._thread = None

    def _listen(self, port: int, shared: bool) -> Serving:
        key = self._key() if shared else ""
        host = EVERYWHERE if shared else ""
        names = _names() if shared else ()
        settings = ServeSettings(host, port, key, SLOTS, allowed_hosts=names)
        serving = Serving(self._engine, settings)
        serving.clients.listen(self._inbox.put)
        serving.start()
        return serving

    def _key(self) -> str:
        """Return the stored key; create and store one if there is none."""
        key = self._keys.of(OWN)
        if not key:
            key = token_urlsafe(KEY_BYTES)
            self._keys.keep(OWN, key)
        return key

    def _started(self, serving: Serving) -> None:
        self.busy, self.serving = False, serving
        port = serving.address.rpartition(":")[2]
        near = f"http://{_names()[0]}:{port}"  # where others find it
        self.address = near if serving.settings.key else serving.address
        self.key = serving.settings.key
        self._open()
        self.changed.emit()

    def _stopped(self, _: None) -> None:
        self.busy = False
        self.changed.emit()

    def _open(self) -> None:
        """Have the model of the session answer, once it is open and when its file has been read."""
        session, serving = self._session, self.serving
        if serving is None or session.model is None or session.connection is not None:
            return
        content = self._file.content if self._file.path == session.path else None
        if self._open_model != (session.model, content):
            self._open_model = session.model, content
            name, model = session.model_name, session.model
            self._do(lambda: serving.open(name, model, content))

    def _follow(self) -> None:
        """While no model is open, requests wait or get an error."""
        serving = self.serving
        gone = self._session.model is None or self._session.connection is not None
        if serving is not None and gone and self._open_model is not None:
            self._open_model = None
            self._do(serving.shut)

    def _do(
        self, what: Callable[[], object], then: Callable[..., None] = lambda result: None
    ) -> None:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="serving")
        job: Future[object] = self._thread.submit(what)
        job.add_done_callback(lambda done: self._inbox.put((done, then)))

    def _deliver(self, arrived: list[object]) -> None:
        for event in arrived:
            if isinstance(event, tuple):
                self._end(*event)
            else:
                self._note(event)  # type: ignore[arg-type]
        self.moved.emit()

    def _end(self, done: Future[object], then: Callable[[object], None]) -> None:
        error = done.exception()
        if error is None:
            then(done.result())
            return
        self.busy = False
        known = isinstance(error, CutawayError)
        self.problem = (
            str(error)
            if known
            else tr("unexpected {name}: {error}", name=type(error).__name__, error=error)
        )
        self.changed.emit()

    def _note(self, event: ServedEvent) -> None:
        """Keep questions and answers of the last KEPT requests."""
        number = event.row.number
        if isinstance(event, RequestBegan):
            request = event.request
            messages = request.messages or [ChatMessage("user", _plain(request))]
            self.texts[number] = ServedText(messages)
            while len(self.texts) > KEPT:
                self.texts.popitem(last=False)
        elif isinstance(event, RequestText) and number in self.texts:
            text = self.texts[number]
            text.answer = (text.answer + event.text)[:LONGEST]
        elif isinstance(event, RequestEnded) and number in self.texts:
            self.ended.emit(event, self.texts[number])


def _plain(request: Generate) -> str:
    """The text of a request that is no chat; a cursor marks a place that is to be filled in."""
    if (place := request.infill) is not None:
        return f"{place.prefix}{place.line}\u2038{place.suffix}"
    return request.prompt or ""


def _names() -> tuple[str, ...]:
    """Return the names by which other machines reach this one: IPv4 addresses and the host name."""
    rows = (row for rows in psutil.net_if_addrs().values() for row in rows)
    addresses = (row.address for row in rows if row.family == socket.AF_INET)
    near = [address for address in addresses if not ip_address(address).is_loopback]
    return (*near, socket.gethostname())
