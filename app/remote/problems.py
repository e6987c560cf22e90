"""Failures of servers, each as a sentence with the next step."""

import asyncio
import ssl
from collections.abc import Sequence
from typing import Any

import httpx2
import msgspec

from app.remote.connection import Connection
from engine.errors import CutawayError

LONGEST = 300  # characters of what a server says
RETRIED = frozenset({408, 409, 429, 502, 503, 504})
PAGE = "it responds with a web page instead of the API; the address may be wrong, or lack its /v1"


class ServerFailed(CutawayError):
    """A server that could not be reached, refused, or broke off. `again` says that the same may
    work later, `after` the seconds the server demands; `status` is HTTP's, `server_text` its own
    words.
    """

    def __init__(
        self,
        name: str,
        problem: str,
        again: bool = False,
        after: float | None = None,
        status: int = 0,
        server_text: str = "",
    ) -> None:
        self.name, self.problem, self.again, self.after = name, problem, again, after
        self.status, self.server_text = status, server_text
        super().__init__(f"server {name}: {problem}")


def quoted(text: object, key: str = "") -> str:
    """Return a server's text on one line, bounded, without the key that it may repeat."""
    line = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    if key:
        line = line.replace(key, "…")
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}…"


def unreachable(to: Connection, error: Exception, began: bool = False) -> ServerFailed:
    """Convert an exception of the HTTP client; `began` where an answer was on its way."""
    name, host = to.name, to.host
    if isinstance(error, ServerFailed):
        return error
    if isinstance(error, httpx2.SSEError):
        return ServerFailed(name, "it sent an event larger than 4 MiB; the answer ends here")
    tls = _tls(error)
    if tls is not None and not isinstance(tls, ssl.SSLCertVerificationError):
        step = "try http:// instead of https://, or check the port"
        return ServerFailed(name, f"the TLS handshake with {host} failed; {step}")
    if tls is not None:
        why = tls.verify_message
        step = "name the file of its certificate authority in the connection, or check the address"
        return ServerFailed(name, f"its certificate is not trusted ({quoted(why)}); {step}")
    if began:
        problem = "the connection closed during the answer; the text so far is kept"
        return ServerFailed(name, problem)
    if isinstance(error, httpx2.ConnectTimeout):
        problem = f"{host} does not respond; check the address, the network and a firewall between"
        return ServerFailed(name, problem, again=True)
    if isinstance(error, TimeoutError | asyncio.TimeoutError | httpx2.TimeoutException):
        problem = f"{host} took too long to answer; it may be busy: try again, or look at its log"
        return ServerFailed(name, problem)
    if isinstance(error, httpx2.ConnectError):
        problem = (
            f"no server responds at {host}; start the server, or check the address and the port"
        )
        return ServerFailed(name, problem, again=True)
    if isinstance(error, httpx2.UnsupportedProtocol | httpx2.InvalidURL):
        return ServerFailed(name, f"{quoted(to.url)} is not a server address")
    problem = f"the connection to {host} closed before a response arrived"
    return ServerFailed(name, problem, again=isinstance(error, httpx2.TransportError))


def refused(
    to: Connection,
    status: int,
    headers: httpx2.Headers,
    body: bytes,
    key: str,
    model: str = "",
    models: Sequence[str] = (),
) -> ServerFailed:
    """Convert a status other than 200."""
    name, text, code, tokens = to.name, *_error(body)
    text = quoted(text, key)
    again, after = status in RETRIED, _seconds(headers.get("retry-after", ""))
    if headers.get("x-should-retry", "").lower() == "false":
        again = False
    more = f": {text}" if text else ""
    if status == 401:
        cause = "the key is wrong" if key else "it requires a key"
        problem = f"{cause}; add it to the connection (401{more})"
    elif status == 403:
        problem = f"it does not allow this (403{more}); the key may lack the permission"
    elif status == 404 and (model or code == "model_not_found"):
        there = f"; it has {', '.join(map(quoted, models[:5]))}" if models else ""
        problem = f"it has no model {model!r} (404{more}){there}"
    elif _is_too_long(code, text):
        counts = " ({} tokens, where {} fit)".format(*tokens) if all(tokens) else ""
        problem = f"the chat is too long for it{counts}; shorten it or start a new one{more}"
    elif status == 429:
        problem = f"its rate limit is reached (429{more}); try again later"
    elif status in (408, 502, 503, 504):
        problem = f"it cannot answer now ({status}{more}); it may be loading: try again"
    elif status >= 500:
        problem = f"it failed ({status}{more}); see its log"
    elif 300 <= status < 400:
        there = quoted(headers.get("location", "elsewhere"))
        problem = f"it redirects to {there}; enter that address if you trust it"
    elif _is_page(headers):
        problem = f"{PAGE} ({status})"
    else:
        problem = f"it refused ({status}{more})"
    return ServerFailed(name, problem, again, after, status, text)


def no_interface(to: Connection, headers: httpx2.Headers) -> ServerFailed:
    """A good status with something else than JSON."""
    kind = quoted(headers.get("content-type", "no type"))
    if _is_page(headers):
        return ServerFailed(to.name, PAGE)
    what = "not valid JSON" if "json" in kind.lower() else f"{kind}, not JSON"
    return ServerFailed(to.name, f"its response is {what}")


def stream_error(name: str, error: Any, key: str) -> ServerFailed:
    """An error inside a stream, after a good status."""
    text = quoted(_message(error)[0], key) or "no reason given"
    return ServerFailed(
        name, f"it aborted the answer: {text}; the text so far is kept", server_text=text
    )


def _error(body: bytes) -> tuple[str, str, tuple[Any, Any]]:
    """Message, code, and tokens wanted and there are, as the many servers write them."""
    try:
        content = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return "", "", (None, None)
    error = content.get("error", content) if isinstance(content, dict) else content
    text, code = _message(error)
    fields = error if isinstance(error, dict) else {}
    return text, code, (fields.get("n_prompt_tokens"), fields.get("n_ctx"))


def _message(error: Any) -> tuple[str, str]:
    if isinstance(error, dict):
        text = error.get("message") or error.get("detail") or ""
        return str(text), str(error.get("code") or error.get("type") or "")
    return (error if isinstance(error, str) else ""), ""


def _is_too_long(code: str, text: str) -> bool:
    words = text.lower()
    named = "context" in words and any(
        part in words for part in ("length", "exceed", "too long", "maximum", "longer")
    )
    return code in ("context_length_exceeded", "exceed_context_size_error") or named


def _is_page(headers: httpx2.Headers) -> bool:
    return "html" in headers.get("content-type", "").lower()


def _seconds(text: str) -> float | None:
    """Parse Retry-After in seconds; dates are not read."""
    return float(text) if text.strip().isdecimal() and len(text) < 8 else None


def _tls(error: BaseException | None) -> ssl.SSLError | None:
    """Return the TLS error among an exception's causes, or None. None where something else did."""
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    return error
