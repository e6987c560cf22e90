"""A server as an engine: typed requests in, typed replies out; one client, in its own thread."""

import asyncio
import contextlib
import hashlib
import io
import logging
import threading
from collections.abc import Callable, Coroutine
from random import getrandbits
from typing import Any

from PIL import Image

from app.engine import Abilities, Engine, Restarted
from app.remote.connection import (
    KINDS,
    Connection,
    OpenServer,
    ProbeServer,
    ServedModel,
    ServerProbed,
)
from app.remote.embedding import embedded
from app.remote.keys import Keys
from app.remote.link import SILENCE, ServerLink
from app.remote.probe import ServerFacts, probe, probe_model
from app.remote.problems import ServerFailed
from app.remote.remote_answer import OpenedModel, RemoteAnswer, unknown_seed
from engine.errors import BadPicture, Cancelled, CutawayError, UnknownPictures
from engine.protocol import (
    Embed,
    Failed,
    Generate,
    Loaded,
    Look,
    PictureInfo,
    PutPicture,
    Reply,
    Request,
    ReviseEdits,
    Unload,
    Unloaded,
    Vision,
)

PATIENCE = 2.0  # seconds that the thread gets to end
SENDABLE = ("PNG", "JPEG", "GIF", "WEBP")

log = logging.getLogger("engine")


class RemoteEngine(Engine):
    """Answers by the model of a server that `OpenServer` names. Nothing is connected, and no thread
    runs, before the first request.
    """

    def __init__(self, keys: Keys, silence: float = SILENCE) -> None:
        super().__init__()
        self._keys, self._silence = keys, silence
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._opened: OpenedModel | None = None
        self._pictures: dict[str, bytes] = {}
        self._where = ""
        self._closed = False
        self._answers: dict[type, Callable[[Any], Coroutine[Any, Any, Reply]]] = {
            ProbeServer: self._probe,
            OpenServer: self._open,
            Generate: self._generate,
            PutPicture: self._put,
            Embed: self._embed,
            Unload: self._unload,
        }

    @property
    def abilities(self) -> Abilities:
        return Abilities(
            memory=False,
            splits=False,
            tokenize=False,
            file=False,
            examine=False,
            ids=False,
            where=self._where,
        )

    def send(self, request: Request[Any]) -> None:
        if self._closed:
            return
        if isinstance(request, OpenServer):
            self._where = request.connection.name
        loop = self._loop or self._start()
        loop.call_soon_threadsafe(self._begin, request)

    def stop(self, request: Request[Any]) -> None:
        if self._loop is not None and not self._closed:
            self._loop.call_soon_threadsafe(self._cancel, request.id)

    def order(self, order: Look | ReviseEdits) -> None:
        """A server reports nothing of its inside."""

    def restart(self) -> None:
        """End all running requests; the server itself is not ours to restart."""
        with self.lock:
            open_requests = [pending.request for pending in self.requests.values()]
            self.notify(Restarted())
            for request in open_requests:
                self.stop(request)

    def close(self) -> None:
        with self.lock:
            self._closed = True
            loop, self._loop = self._loop, None
        if loop is not None and self._thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join(PATIENCE)

    def _start(self) -> asyncio.AbstractEventLoop:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._run, args=(self._loop,), name="servers", daemon=True
        )
        self._thread.start()
        return self._loop

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        rest = asyncio.all_tasks(loop)
        with contextlib.suppress(Exception):
            loop.run_until_complete(asyncio.gather(*rest, return_exceptions=True))
            loop.run_until_complete(self._forget())
            loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    def _begin(self, request: Request[Any]) -> None:
        task = asyncio.get_running_loop().create_task(self._answer(request))
        self._tasks[request.id] = task
        task.add_done_callback(lambda _: self._tasks.pop(request.id, None))

    def _cancel(self, request_id: int) -> None:
        if request_id in self._tasks:
            self._tasks[request_id].cancel()

    async def _answer(self, request: Request[Any]) -> None:
        """Exactly one reply that ends the request, whatever happens."""
        reply: Reply
        try:
            answer = self._answers.get(type(request))
            reply = self._unseen(request) if answer is None else await answer(request)
        except asyncio.CancelledError:
            error = Cancelled("the request")
            reply = Failed(request.id, error.kind, str(error))
        except CutawayError as error:
            missing = list(error.digests) if isinstance(error, UnknownPictures) else []
            reply = Failed(request.id, error.kind, str(error), missing)
        except Exception as error:  # noqa: BLE001  shown to the person and logged
            log.exception("a request to a server failed")
            text = f"unexpected {type(error).__name__}: {error}"
            reply = Failed(request.id, "Unexpected", text)
        if not self._closed:
            self.notify(reply)

    def _unseen(self, request: Request[Any]) -> Failed:
        where = f"the server {self._where}" if self._where else "a server"
        text = f"The model runs on {where}; this is not available for remote models."
        return Failed(request.id, "NotSupported", text)

    async def _link(self, to: Connection, key: str | None = None) -> ServerLink:
        to.check()
        if key is None:  # the keyring may ask the person to unlock it
            key = await asyncio.to_thread(self._keys.of, to)
        return ServerLink(to, key, self._silence)

    async def _probe(self, request: ProbeServer) -> ServerProbed:
        async with await self._link(request.connection, request.key) as link:
            facts = await probe(link)
        return ServerProbed(request.id, facts.kind, facts.version, facts.models, facts.seconds)

    async def _open(self, request: OpenServer) -> Loaded:
        await self._forget()
        link = await self._link(request.connection)
        try:
            facts = await probe(link)
            model = await probe_model(link, facts, _found(request, facts))
            if request.writes and not model.writes:
                raise ServerFailed(
                    link.to.name, f"{model.id!r} is an embedding model; it cannot chat"
                )
        except BaseException:
            await link.__aexit__(None, None, None)
            raise
        others = [other.id for other in facts.models if other.writes]
        self._opened = OpenedModel(link, facts.kind, model, others)
        name = request.connection.name
        log.info("%s on server %s (%s)", model.id, name, KINDS[facts.kind])
        n_ctx = model.n_ctx or 0
        sees = None if model.sees is False else Vision("server", request.path, 0)
        kind = f"{KINDS[facts.kind]} {facts.version}".strip()
        return Loaded(
            request.id, request.path, model.id, kind, f"server {name}", request.connection.host,
            n_ctx, n_ctx, 0, "file", vision=sees,
        )  # fmt: skip

    async def _generate(self, request: Generate) -> Reply:
        opened = self._model()
        wanted = [p.digest for message in request.messages for p in message.pictures]
        missing = [digest for digest in wanted if digest not in self._pictures]
        if missing:
            raise UnknownPictures(missing)
        seed = unknown_seed(request, lambda: getrandbits(32))
        return await RemoteAnswer(opened, request, seed, self._pictures, self.notify).run()

    async def _embed(self, request: Embed) -> Reply:
        return await embedded(self._model(), request)

    def _model(self) -> OpenedModel:
        if self._opened is None:
            raise ServerFailed(self._where or "–", "none is open; choose a model of a server")
        return self._opened

    async def _put(self, request: PutPicture) -> PictureInfo:
        width, height = await asyncio.to_thread(_size, request.data)
        digest = hashlib.sha256(request.data).hexdigest()
        self._pictures[digest] = request.data
        return PictureInfo(request.id, digest, width, height, [])

    async def _unload(self, request: Unload) -> Unloaded:
        await self._forget()
        return Unloaded(request.id)

    async def _forget(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.link.__aexit__(None, None, None)


def _found(request: OpenServer, facts: ServerFacts) -> ServedModel:
    """The model that was requested. Raises ServerFailed with those that there are."""
    for model in facts.models:
        if model.id == request.model:
            return model
    there = ", ".join(repr(model.id) for model in facts.models[:5]) or "none"
    raise ServerFailed(
        request.connection.name, f"it has no model {request.model!r}; it has {there}"
    )


def _size(data: bytes) -> tuple[int, int]:
    """Width and height by the file's header; nothing is decoded. Raises BadPicture."""
    try:
        with Image.open(io.BytesIO(data), formats=SENDABLE) as picture:
            return picture.size
    except Exception:  # noqa: BLE001  what a hostile file makes of its reader
        kinds = ", ".join(SENDABLE)
        raise BadPicture("picture", f"it cannot be read; servers accept {kinds}") from None
