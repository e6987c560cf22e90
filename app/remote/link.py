"""HTTP to one server: no redirect elsewhere, bounded bodies, errors as sentences."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self
from urllib.parse import urljoin

import httpx2
import msgspec

from app.remote.connection import Connection
from app.remote.problems import ServerFailed, no_interface, refused, unreachable
from app.trust import trusted
from app.version import version

PROBE_SECONDS = 3.0  # for one question of a probe, whatever it waits for
MOST_BODY = 16 << 20  # bytes of an answer that is read as a whole
MOST_ERROR = 1 << 16  # of a response with an error
CONNECT, WRITE = 5.0, 60.0  # seconds
SILENCE = 600.0  # seconds without a byte: a long prompt on a slow machine takes minutes
MOST_REDIRECTS = 3


class ServerLink:
    """One client of one server, in the loop that runs now. `key` travels in its header alone."""

    def __init__(self, to: Connection, key: str, silence: float = SILENCE) -> None:
        """Raises ServerFailed for a key that others could read, and a CA file that is none."""
        if key and to.shows_key and not to.key_in_clear:
            problem = f"the key would be sent to {to.host} unencrypted; use https, or allow it"
            raise ServerFailed(to.name, problem)
        if not key.isascii() or not key.isprintable():
            raise ServerFailed(to.name, "the key has characters that are not allowed in a header")
        self.to, self.key = to, key
        headers = {"User-Agent": f"cutaway/{version()}", "Accept-Encoding": "identity"}
        headers |= to.headers
        if key:
            headers["Authorization"] = f"Bearer {key}"
        self._client = httpx2.AsyncClient(
            headers=headers,
            verify=_trust(to),
            trust_env=not to.is_here,  # a proxy is for others, not for this machine
            timeout=httpx2.Timeout(silence, connect=CONNECT, write=WRITE, pool=CONNECT),
            follow_redirects=False,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def get(self, url: str, body: Any = None) -> Any:
        """The JSON at an address, or what a POST of `body` answers, within PROBE_SECONDS. Raises
        ServerFailed.
        """
        try:
            async with (
                asyncio.timeout(PROBE_SECONDS),
                self.send("GET" if body is None else "POST", url, body) as answer,
            ):
                content = await _read(answer, MOST_BODY)
                if answer.status_code != 200:
                    raise refused(
                        self.to, answer.status_code, answer.headers, content[:MOST_ERROR], self.key
                    )
        except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError, OSError) as error:
            raise unreachable(self.to, error) from error
        try:
            return msgspec.json.decode(content)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise no_interface(self.to, answer.headers) from None

    @asynccontextmanager
    async def send(self, method: str, url: str, body: Any) -> AsyncIterator[httpx2.Response]:
        """An answer whose body has not been read. A redirect is followed within this server."""
        content = None if body is None else msgspec.json.encode(body)
        headers = {} if body is None else {"Content-Type": "application/json"}
        for _ in range(MOST_REDIRECTS):
            async with self._client.stream(method, url, content=content, headers=headers) as answer:
                there = _within(url, answer)
                if there is None:
                    yield answer
                    return
                url = there
        raise ServerFailed(self.to.name, "it redirects in a loop")

    async def content(self, answer: httpx2.Response) -> bytes:
        """All of a body, or its first MOST_BODY bytes."""
        return await _read(answer, MOST_BODY)

    async def error(self, answer: httpx2.Response) -> bytes:
        """The beginning of a body with an error."""
        return await _read(answer, MOST_ERROR)


async def _read(answer: httpx2.Response, most: int) -> bytes:
    """All of a body, or its first bytes where it is longer."""
    parts, size = [], 0
    async for part in answer.aiter_bytes():
        parts.append(part)
        size += len(part)
        if size > most:
            break
    return b"".join(parts)[:most]


def _within(url: str, answer: httpx2.Response) -> str | None:
    """Where an answer sends on to, on the same server and with the same method."""
    if answer.status_code not in (307, 308) and not (
        answer.status_code in (301, 302) and answer.request.method == "GET"
    ):
        return None
    try:
        there = httpx2.URL(urljoin(url, answer.headers.get("location", "")))
    except (ValueError, httpx2.InvalidURL):  # the response is treated as a redirect
        return None
    here = httpx2.URL(url)
    same = (here.scheme, here.host, here.port) == (there.scheme, there.host, there.port)
    return str(there) if same and there != here else None


def _trust(to: Connection) -> ssl.SSLContext:
    if not to.ca:
        return trusted()
    try:
        return ssl.create_default_context(cafile=to.ca)
    except OSError as error:
        problem = f"{to.ca} is not a file of certificates ({error.strerror or error})"
        raise ServerFailed(to.name, problem) from None
