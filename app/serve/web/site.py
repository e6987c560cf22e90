"""The whole of the server as one ASGI application: guard, routes, and errors in each API's form."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from starlette.routing import Match, Route

from app.serve.answers import Answers
from app.serve.clients import Clients
from app.serve.fetching import RequestPictures
from app.serve.flow import Gate
from app.serve.served import OpenModel, Shelf
from app.serve.settings import ServeSettings
from app.serve.web.guard import Guard, Receive, Scope
from app.serve.web.refusal import Refusal, a_bug, field_of
from app.serve.web.stream import Reply, Send, Whole, send_frames, send_whole
from engine.protocol import Generate, Sampling

log = logging.getLogger("server")
BODIES = ("POST", "PUT", "PATCH", "DELETE")
OPENAI = Sampling(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)


@dataclass(frozen=True)
class ServingDesk:
    """Shared objects that answer requests."""

    gate: Gate
    shelf: Shelf
    clients: Clients
    settings: ServeSettings


@dataclass(frozen=True)
class HttpCall:
    """One request: its body, the parts of its path, and its client."""

    desk: ServingDesk
    body: bytes
    path: str
    parts: Mapping[str, str]
    query: Mapping[str, str]
    client: str
    sent_pictures: dict[str, bytes] = field(default_factory=dict)
    models: list[OpenModel] = field(default_factory=list)

    @property
    def gate(self) -> Gate:
        """The way to the engine."""
        return self.desk.gate

    @property
    def pictures(self) -> RequestPictures:
        """Brings this request's pictures."""
        return RequestPictures(self.gate, self.desk.settings.fetch_images, self.sent_pictures)

    async def model(self, name: str | None) -> OpenModel:
        """The model that is requested. Raises `Refusal`."""
        self.models.append(await self.desk.shelf.open_model(name))
        return self.models[-1]

    def sampling(
        self,
        values: Mapping[str, Any],
        template: Mapping[str, Any] = {},  # noqa: B006
        openai: bool = False,
    ) -> Sampling:
        """A request's own values, else those that suit the model, or OpenAI's where settings say so
        and the interface is `openai`. Raises `Refusal` where no model is open.
        """
        usual = self.desk.shelf.ready.sampling[template.get("enable_thinking") is not False]
        if openai and self.desk.settings.openai_defaults:
            usual = OPENAI
        own = {key: value for key, value in values.items() if value is not None}
        return msgspec.structs.replace(usual, **own)

    def answers(self, requests: list[Generate]) -> Answers:
        """Their answers, as a context."""
        who = self.client, self.path
        settings, stop = self.desk.settings, [*self.desk.shelf.ready.stop]
        requests = [
            msgspec.structs.replace(
                one,
                stop=one.stop or stop,
                stop_loops=settings.stop_loops,
                edits=[*settings.edits, *one.edits],
                chat="" if settings.keeps else None,
            )
            for one in requests
        ]
        made = Answers(self.gate, self.desk.clients, who, requests, self.sent_pictures)
        made.check = self._check
        return made

    def _check(self) -> None:
        for model in self.models:
            self.desk.shelf.still(model)


Handler = Callable[[HttpCall], Awaitable[Reply]]


@dataclass(frozen=True)
class Dialect:
    """An API: its handlers by method and path, and its form of errors. The `prefixes` are where its
    errors have that form, also those of unknown paths.
    """

    routes: Mapping[tuple[str, str], Handler]
    error: Callable[[Refusal], bytes]
    prefixes: tuple[str, ...] = ()


class Site:
    """An ASGI application over a desk; the first dialect's errors are those of all other paths."""

    def __init__(self, desk: ServingDesk, guard: Guard, dialects: Iterable[Dialect]) -> None:
        self._desk, self._guard = desk, guard
        self._dialects = list(dialects)
        self._routes = [
            (Route(path, _unused, methods=[method]), handler)
            for dialect in self._dialects
            for (method, path), handler in dialect.routes.items()
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        cors: dict[str, str] = {}
        begun = False

        async def sending(message: dict[str, Any]) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                more = [(k.encode("latin-1"), v.encode("latin-1")) for k, v in cors.items()]
                message = message | {"headers": [*message["headers"], *more]}
            await send(message)

        try:
            cors = self._guard.check(scope)
            await self._serve(scope, receive, sending)
        except Refusal as refusal:
            await self._refuse(scope, sending, refusal)
        except (ConnectionError, TimeoutError):
            _abort(scope)
        except Exception as error:
            if begun:
                log.exception("a request failed")
                _abort(scope)
                return
            await self._refuse(scope, sending, bug(error))

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "OPTIONS":
            headers = self._guard.preflight(scope)
            await send_whole(send, Whole(b"", status=204, headers=headers))
            return
        handler, parts = self._find(scope)
        body = await self._guard.body(scope, receive) if scope["method"] in BODIES else b""
        call = HttpCall(
            self._desk, body, scope["path"], parts, _query(scope["query_string"]), _client(scope)
        )
        await _until_gone(self._answer(handler, call, send), receive)

    async def _answer(self, handler: Handler, call: HttpCall, send: Send) -> None:
        reply = await handler(call)
        if isinstance(reply, Whole):
            await send_whole(send, reply)
        else:
            await send_frames(send, reply, bug)

    def _find(self, scope: Scope) -> tuple[Handler, Mapping[str, str]]:
        """The handler of a path, with or without /v1. Raises `Refusal`."""
        path, method = scope["path"], scope["method"]
        wrong_method = False
        for route, handler in self._routes:
            match, found = route.matches({"type": "http", "path": path, "method": method})
            if match is Match.FULL:
                return handler, found["path_params"]
            wrong_method = wrong_method or match is Match.PARTIAL
        if wrong_method:
            raise Refusal(405, f"{path[:200]} does not support {method}")
        raise Refusal(404, f"unknown path {path[:200]}")

    async def _refuse(self, scope: Scope, send: Send, refusal: Refusal) -> None:
        self._desk.gate.counts.turned_away(refusal.status)
        refusal.param = field_of(scope["path"], refusal.param)
        body = self._error(scope["path"])(refusal)
        headers = dict(refusal.headers)
        if refusal.close or scope["method"] in BODIES and refusal.status in (401, 403, 404, 405):
            headers["connection"] = "close"  # or what is left of the body would be read
        if refusal.status == 401:
            headers["www-authenticate"] = "Bearer"
        await send_whole(send, Whole(body, status=refusal.status, headers=headers))

    def _error(self, path: str) -> Callable[[Refusal], bytes]:
        for dialect in self._dialects:
            if any(path == p or path.startswith(p + "/") for p in dialect.prefixes):
                return dialect.error
        return self._dialects[0].error


def bug(error: Exception) -> Refusal:
    """An error that nobody foresaw: sent as a number, with details in the log."""
    refusal = a_bug(f"{type(error).__name__}: {error}")
    log.error("details of %s", refusal.code, exc_info=error)
    return refusal


def with_and_without(
    prefix: str, routes: Mapping[tuple[str, str], Handler]
) -> dict[tuple[str, str], Handler]:
    """The same handlers also without the prefix of their paths."""
    return {(m, p): h for (m, path), h in routes.items() for p in (path, path.removeprefix(prefix))}


async def _until_gone(work: Any, receive: Receive) -> None:
    """Do it, or stop when the client leaves."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        if not working.done():
            working.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({working})
    if not working.cancelled():
        working.result()


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _unused(request: Any) -> None:
    """Routes are matched by starlette and answered by us."""


def _query(raw: bytes) -> dict[str, str]:
    from urllib.parse import parse_qsl

    return (
        dict(parse_qsl(raw.decode("latin-1"), max_num_fields=100)) if raw.count(b"&") < 100 else {}
    )


def _client(scope: Scope) -> str:
    """The client in a few words: the address, and the program as it calls itself."""
    agent = next((v for k, v in scope["headers"] if k == b"user-agent"), b"").decode("latin-1")
    name = "".join(c for c in agent.split(" ")[0][:60] if c.isprintable())
    address = (scope.get("client") or ("somebody", 0))[0]
    return f"{address} {name}".strip()


def _abort(scope: Scope) -> None:
    """End the connection without waiting for a reader."""
    abort = scope.get("state", {}).get("abort")
    if abort is not None:
        abort()
