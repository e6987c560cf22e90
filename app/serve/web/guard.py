"""Checks before every route: framing, Host, Origin, key, and the body's kind, size and time.

Nobody reaches a route, not even one that is not there, without passing all of it.
"""

import asyncio
import hmac
import ipaddress
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from app.serve.settings import ServeSettings, is_loopback
from app.serve.web.refusal import Refusal
from engine.units import MIB

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
MOST_BODY = 32 * MIB
MOST_HEADERS = 1 << 16  # bytes; h11 counts only those that did not come in one piece
MOST_TOGETHER = 256 * MIB  # of bodies that are held at one time
BODY_SECONDS = 30.0
OPEN_PATHS = ("/health", "/v1/health")  # for monitors, who have no key
METHODS = "GET, POST, OPTIONS, HEAD"
HEADERS = ("authorization", "content-type", "x-api-key", "anthropic-version", "anthropic-beta")
NEGLECTED = (
    *(b"", b"text/plain", b"application/octet-stream"),
    b"application/x-www-form-urlencoded",
)
STAINLESS = "x-stainless-"  # what OpenAI's and Anthropic's packages say of themselves


class Guard:
    """Checks requests by the settings; `port` is the one it listens on."""

    def __init__(self, settings: ServeSettings, port: int) -> None:
        self._key = settings.key.encode()
        self._origins = {origin.rstrip("/").lower() for origin in settings.allow_origins}
        names = {"localhost", "127.0.0.1", "::1"}
        self._hosts = {(name, at) for name in names for at in (port, None)}
        self._hosts |= {split_host(host) for host in settings.allowed_hosts}
        self._any_port = {
            name for name, at in map(split_host, settings.allowed_hosts) if at is None
        }
        self._port = port
        self._held = 0

    def check(self, scope: Scope) -> dict[str, str]:
        """Raise `Refusal`, or give the headers that the answer has because of the Origin."""
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        self._check_framing(headers)
        self._check_host(scope, _one(headers, b"host").decode("latin-1"))
        self._take_absolute(scope)
        allowed = self._check_origin(headers)
        preflight = scope["method"] == "OPTIONS"
        if self._key and not preflight and scope["path"] not in OPEN_PATHS:
            self._check_key(headers)
        return allowed

    def preflight(self, scope: Scope) -> dict[str, str]:
        """The headers that answer a browser which asks before it sends."""
        wanted = _one(scope["headers"], b"access-control-request-headers").decode("latin-1")
        named = [name.strip().lower() for name in wanted.split(",")]
        known = [name for name in named if name in HEADERS or name.startswith(STAINLESS)]
        return {
            "access-control-allow-methods": METHODS,
            "access-control-allow-headers": ", ".join(known or HEADERS),
            "access-control-max-age": "600",
        }

    async def body(self, scope: Scope, receive: Receive) -> bytes:
        """The whole body. Raises `Refusal`, ConnectionError where the client leaves."""
        headers = scope["headers"]
        kind = _one(headers, b"content-type").partition(b";")[0].strip().lower()
        # Pages name their origin, and might send such types without asking. Programs send JSON as
        # them by neglect: curl's -d, LiteLLM for Ollama.
        by_page = not {name for name, _ in headers}.isdisjoint((b"origin", b"sec-fetch-site"))
        if kind != b"application/json" and (by_page or kind not in NEGLECTED):
            text = "the body must be JSON: send the header Content-Type: application/json"
            raise Refusal(415, text, close=True)
        if _one(headers, b"content-encoding") not in (b"", b"identity"):
            raise Refusal(415, "the body must not be compressed", close=True)
        if int(_one(headers, b"content-length") or 0) > MOST_BODY:
            raise _too_large()
        data = bytearray()
        try:
            async with asyncio.timeout(BODY_SECONDS):
                await self._read(receive, data)
        except TimeoutError:
            text = f"the body was not received within {BODY_SECONDS:.0f} s"
            raise Refusal(400, text, close=True) from None
        finally:
            self._held -= len(data)
        return bytes(data)

    async def _read(self, receive: Receive, data: bytearray) -> None:
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ConnectionError
            part = message.get("body", b"")
            data += part
            self._held += len(part)
            more = message.get("more_body", False)
            if len(data) > MOST_BODY:
                raise _too_large()
            if self._held > MOST_TOGETHER:
                raise Refusal(
                    429, "too many large bodies", headers={"retry-after": "1"}, close=True
                )

    def _check_framing(self, headers: list[tuple[bytes, bytes]]) -> None:
        names = [name for name, _ in headers]
        if b"content-length" in names and b"transfer-encoding" in names:
            raise Refusal(400, "Content-Length and Transfer-Encoding in one request", close=True)
        if sum(len(name) + len(value) for name, value in headers) > MOST_HEADERS:
            raise Refusal(400, f"headers of more than {MOST_HEADERS >> 10} KiB", close=True)
        if names.count(b"host") != 1:
            raise Refusal(400, "there must be one Host header", close=True)

    def _take_absolute(self, scope: Scope) -> None:
        """Keep only the path of a target that is a whole address (RFC 9112, section 3.2.2)."""
        scheme, mark, rest = scope["path"].partition("://")
        if mark and scheme.lower() in ("http", "https"):
            host, _, path = rest.partition("/")
            self._check_host(scope, host)
            scope["path"] = f"/{path}"

    def _check_host(self, scope: Scope, host: str) -> None:
        name, port = split_host(host)
        if (name, port) in self._hosts or name in self._any_port:
            return
        here = scope.get("server") or ("", 0)
        if _same_address(name, here[0]) and port in (None, self._port):
            return  # the address it came in by: no name that a stranger's page could rebind
        shown = name[:200]
        raise Refusal(
            403, f"the Host {shown!r} is not served; allow it with --allowed-host", close=True
        )

    def _check_origin(self, headers: list[tuple[bytes, bytes]]) -> dict[str, str]:
        origins = [value.decode("latin-1") for name, value in headers if name == b"origin"]
        if not origins:
            return {}
        origin = origins[0]
        if len(origins) > 1 or not self._is_allowed(origin):
            text = f"the origin {origin[:200]!r} is not allowed; use --allow-origin"
            raise Refusal(403, text, close=True)
        return {"access-control-allow-origin": origin, "vary": "Origin"}

    def _is_allowed(self, origin: str) -> bool:
        if origin.lower() in self._origins:
            return True
        try:
            parts = urlsplit(origin)
            name = parts.hostname or ""
        except ValueError:
            return False
        bare = not (parts.path or parts.query or parts.fragment or parts.username)
        return bare and parts.scheme in ("http", "https") and bool(name) and is_loopback(name)

    def _check_key(self, headers: list[tuple[bytes, bytes]]) -> None:
        sent_key = _one(headers, b"x-api-key")
        scheme, _, token = _one(headers, b"authorization").partition(b" ")
        if scheme.lower() == b"bearer":
            sent_key = token.strip()
        if not sent_key:
            raise Refusal(
                401, "an API key is required: Authorization: Bearer KEY, or x-api-key: KEY"
            )
        if not hmac.compare_digest(sent_key, self._key):
            raise Refusal(401, "the API key is wrong", code="invalid_api_key")


def split_host(host: str) -> tuple[str, int | None]:
    """The name in lower case, without brackets, and the port."""
    name, colon, port = host.strip().lower().rpartition(":")
    if not colon or not port.isdecimal() or not port.isascii() or (":" in name and name[:1] != "["):
        name, port = host.strip().lower(), ""
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]
    return name.removesuffix("."), int(port[:6]) if port else None


def _same_address(name: str, here: str) -> bool:
    try:
        return ipaddress.ip_address(name) == ipaddress.ip_address(here)
    except ValueError:
        return False


def _one(headers: list[tuple[bytes, bytes]], wanted: bytes) -> bytes:
    return next((value for name, value in headers if name == wanted), b"")


def _too_large() -> Refusal:
    text = f"the body is larger than {MOST_BODY // MIB} MiB"
    return Refusal(413, text, close=True)
