"""A server of the OpenAI interface that answers as a test scripts it, faults included."""

import json
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

MODELS = {"object": "list", "data": [{"id": "tiny", "object": "model", "owned_by": "someone"}]}


@dataclass(frozen=True)
class Said:
    """One answer; `body` is cut in pieces where it is no bytes, perhaps without end. With `hangs`
    nothing follows it, until the test ends; else, `cut` off, the connection ends though more was
    announced.
    """

    body: bytes | Iterable[bytes] = b""
    status: int = 200
    kind: str = "text/event-stream"
    headers: dict[str, str] = field(default_factory=dict)
    hangs: bool = False
    cut: bool = False


@dataclass(frozen=True)
class Heard:
    """What was asked: `body` is JSON."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


Script = Said | Callable[[Heard], Said]


@dataclass
class ChatServer:
    """`pages` by path; chats take the next of `answers`, and the last one again and again."""

    url: str
    pages: dict[str, Script] = field(default_factory=dict)
    answers: list[Script] = field(default_factory=list)
    heard: list[Heard] = field(default_factory=list)
    gone: threading.Event = field(default_factory=threading.Event)  # a client has left
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def chats(self) -> list[Heard]:
        """The questions."""
        return [one for one in self.heard if one.path.endswith("/chat/completions")]

    def script(self, heard: Heard) -> Said:
        """What is answered to this."""
        if heard.path in self.pages:
            script = self.pages[heard.path]
        elif heard.path.endswith("/chat/completions") and self.answers:
            script = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        else:
            return Said(b'{"error": "nothing here"}', 404, "application/json")
        return script if isinstance(script, Said) else script(heard)


def frame(**fields: Any) -> bytes:
    """A chunk of a stream."""
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def delta(text: str = "", finish: str | None = None, likely: Any = None, **more: Any) -> bytes:
    """A chunk that adds to the answer; `likely` are tokens with their log-probabilities."""
    added = {"content": text, **more} if text else more
    choice: dict[str, Any] = {"index": 0, "delta": added, "finish_reason": finish}
    if likely is not None:
        choice["logprobs"] = {"content": likely}
    return frame(choices=[choice])


DONE = b"data: [DONE]\n\n"
USAGE = frame(choices=[], usage={"prompt_tokens": 11, "completion_tokens": 2})
HELLO = [delta("Hel"), delta("lo"), delta(finish="stop"), USAGE, DONE]


def page(content: Any, status: int = 200, **headers: str) -> Said:
    """JSON."""
    return Said(json.dumps(content).encode(), status, "application/json", headers)


@contextmanager
def chat_server(
    port: int = 0, certificate: tuple[Path, Path] | None = None
) -> Iterator[ChatServer]:
    """A running server; it ends with the block, whatever hangs. Port 0 is any that is free. With a
    `certificate` and its key it is encrypted.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def _answer(self) -> None:
            data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            heard = Heard(self.command, self.path, headers, json.loads(data) if data else None)
            server.heard.append(heard)
            said = server.script(heard)
            parts = [said.body] if isinstance(said.body, bytes) else said.body
            self.send_response(said.status)
            self.send_header("Content-Type", said.kind)
            for name, value in said.headers.items():
                self.send_header(name, value)
            if said.cut:
                self.send_header("Content-Length", str(sum(map(len, [*parts])) + 100))
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            with suppress(ConnectionError):
                for part in parts:
                    self.wfile.write(part)
                if said.hangs:
                    self._hang()

        def _hang(self) -> None:
            """Until the client leaves, or the test ends."""
            self.connection.settimeout(0.02)
            while not server.over.is_set():
                with suppress(TimeoutError):
                    if not self.connection.recv(1):
                        server.gone.set()
                        return

        def log_message(self, format: str, *args: object) -> None:
            return

    httpd = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    httpd.daemon_threads = True
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        httpd.socket = context.wrap_socket(httpd.socket, server_side=True)
    scheme = "https" if certificate is not None else "http"
    server = ChatServer(f"{scheme}://127.0.0.1:{httpd.server_address[1]}")
    server.pages["/v1/models"] = page(MODELS)
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        httpd.shutdown()
        thread.join()
        httpd.server_close()
