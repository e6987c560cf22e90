"""A web server on this machine that can misbehave as servers do."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CHUNK = 1 << 15


@dataclass
class Page:
    """One address. `breaks` holds, for the next requests, after how many bytes each is cut off.

    `range_error` is by how many bytes it misses the part that was asked for.
    """

    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    status: int = 200
    ranges: bool = True
    range_error: int = 0
    breaks: list[int] = field(default_factory=list)
    seconds_a_chunk: float = 0


@dataclass
class Server:
    """The pages, and what was asked: (method, path, Range), (path, Authorization)."""

    url: str
    pages: dict[str, Page] = field(default_factory=dict)
    asked: list[tuple[str, str, str | None]] = field(default_factory=list)
    logins: list[tuple[str, str | None]] = field(default_factory=list)

    def ranges_of(self, path: str) -> list[str | None]:
        """The Range headers of the GET requests for a path, in order."""
        return [r for method, p, r in self.asked if method == "GET" and p == path]


@contextmanager
def serve() -> Iterator[Server]:
    """A running server; it ends with the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def do_GET(self) -> None:
            self._answer(with_body=True)

        def _answer(self, with_body: bool) -> None:
            path, asked = self.path.partition("?")[0], self.headers.get("Range")
            server.asked.append((self.command, path, asked))
            server.logins.append((path, self.headers.get("Authorization")))
            page = server.pages.get(path, Page(b"nothing here", status=404))
            status, body, headers = page.status, page.body, dict(page.headers)
            if asked and page.ranges and status == 200:
                first = int(asked.removeprefix("bytes=").rstrip("-")) + page.range_error
                if first >= len(body):
                    status, body = 416, b""
                else:
                    headers["Content-Range"] = f"bytes {first}-{len(body) - 1}/{len(body)}"
                    status, body = 206, body[first:]
            self.send_response(status)
            headers.setdefault("Content-Length", str(len(body)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if with_body:
                cut = page.breaks.pop(0) if page.breaks else None
                self.close_connection = cut is not None or self.close_connection
                with suppress(ConnectionError):  # a client that has gone
                    self._send(body[:cut], page.seconds_a_chunk)

        def _send(self, body: bytes, seconds_a_chunk: float) -> None:
            for at in range(0, len(body), CHUNK):
                self.wfile.write(body[at : at + CHUNK])
                time.sleep(seconds_a_chunk)

        def log_message(self, format: str, *args: object) -> None:
            return

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server = Server(f"http://127.0.0.1:{httpd.server_address[1]}")
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()
