"""What strangers may not: each is refused as it should be, and the engine hears nothing of it."""

import json
import os
import resource
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.serve.web import connections, guard
from tests.app.serve.running import HTTP, Served, rest_of, served

KEY = "a-long-secret"
PORT_MARK = "PORT"
WITH_KEY = {"authorization": f"Bearer {KEY}"}
CHAT = "/v1/chat/completions"
BODY = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}


@pytest.fixture(scope="module")
def locked(tiny_path: Path) -> Iterator[Served]:
    """A server that wants a key."""
    with served(tiny_path, key=KEY, allow_origins=("https://ok.example",)) as running:
        yield running


@pytest.fixture(autouse=True)
def worker_untouched(locked: Served) -> Iterator[None]:
    """The same engine, which nobody asked anything, and that answers."""
    before, pid = locked.serving.counts.predicted, locked.engine.pid
    yield
    assert locked.engine.pid == pid
    asked = locked.serving.counts.predicted - before
    assert asked <= 2, "the engine computed something for a stranger"
    answer = locked.post(CHAT, BODY, headers=WITH_KEY)
    assert answer.status_code == 200, answer.text


def head(locked: Served, *lines: str, method: str = "POST", path: str = CHAT) -> bytes:
    """A request's head, with the right key and Host unless the lines say another."""
    host = f"127.0.0.1:{locked.place[1]}"
    usual = {"Host": host, "Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    given = {line.partition(":")[0] for line in lines}
    all_lines = [f"{name}: {value}" for name, value in usual.items() if name not in given]
    return "\r\n".join([f"{method} {path} HTTP/1.1", *all_lines, *lines, "", ""]).encode()


def status_of(answer: bytes) -> int:
    assert answer.startswith(b"HTTP/1.1 "), answer
    assert answer.count(b"HTTP/1.1 ") == 1, "two answers to one request"
    assert b"Traceback" not in answer
    return int(answer[9:12])


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example:PORT", "127.0.0.1:1", "localhost:PORT@evil.example",
     "", "[::2]:PORT", "169.254.169.254", "0.0.0.0:PORT", "localhost:PORTx"],
)  # fmt: skip
@pytest.mark.parametrize("path", [CHAT, "/health", "/nowhere"])
def test_a_foreign_host(locked: Served, host: str, path: str) -> None:
    name = host.replace(PORT_MARK, str(locked.place[1]))
    method = "GET" if path == "/health" else "POST"
    data = head(locked, f"Host: {name}", "Connection: close", method=method, path=path)
    assert status_of(locked.raw(data)) == 403


@pytest.mark.parametrize("host", ["localhost:PORT", "127.0.0.1", "LOCALHOST", "[::1]:PORT"])
def test_our_own_names(locked: Served, host: str) -> None:
    name = host.replace(PORT_MARK, str(locked.place[1]))
    data = head(locked, f"Host: {name}", "Connection: close", method="GET", path="/health")
    assert status_of(locked.raw(data)) == 200


@pytest.mark.parametrize(
    ("target", "status"),
    [("http://127.0.0.1:PORT/health", 200), ("HTTP://localhost/health?a=b", 200),
     ("http://evil.example/health", 403), ("http://127.0.0.1:1/health", 403),
     ("http://localhost", 200), ("http://localhost/none", 404)],
)  # fmt: skip
def test_a_target_that_is_a_whole_address(locked: Served, target: str, status: int) -> None:
    path = target.replace(PORT_MARK, str(locked.place[1]))
    assert (
        status_of(locked.raw(head(locked, "Connection: close", method="GET", path=path))) == status
    )


@pytest.mark.parametrize("path", [CHAT, "/health"])
def test_a_client_that_closes_its_writing_half(locked: Served, path: str) -> None:
    """It has said that it sends no more, and reads its answer."""
    body = json.dumps(BODY).encode() if path == CHAT else b""
    lines = (f"Content-Length: {len(body)}", "Connection: close")
    with socket.create_connection(locked.place, timeout=60) as connection:
        connection.sendall(head(locked, *lines, path=path, method="POST" if body else "GET") + body)
        connection.shutdown(socket.SHUT_WR)
        assert status_of(rest_of(connection)) == 200


def test_an_answer_that_does_not_begin_is_not_waited_for(
    locked: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that has left looks as one that closed its writing half."""
    monkeypatch.setattr(connections, "HALF_SECONDS", 0.05)
    body = json.dumps(BODY).encode()
    lines = (f"Content-Length: {len(body)}", "Connection: close")
    assert locked.engine.pid is not None
    os.kill(locked.engine.pid, signal.SIGSTOP)
    try:
        with socket.create_connection(locked.place, timeout=60) as connection:
            connection.sendall(head(locked, *lines) + body)
            connection.shutdown(socket.SHUT_WR)
            assert rest_of(connection) == b""
    finally:
        os.kill(locked.engine.pid, signal.SIGCONT)


def test_no_host_or_two(locked: Served) -> None:
    none = b"GET /health HTTP/1.0\r\n\r\n"
    assert status_of(locked.raw(none)) == 400
    for lines in (b"", b"Host: localhost\r\nHost: evil.example\r\n"):
        assert status_of(locked.raw(b"GET /health HTTP/1.1\r\n" + lines + b"\r\n")) == 400


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "http://localhost.evil.example", "https://ok.example:444",
     "http://127.0.0.1@evil.example", "file://", "http://localhost/x", "http://169.254.169.254"],
)  # fmt: skip
def test_a_foreign_origin(locked: Served, origin: str) -> None:
    answer = locked.post(CHAT, BODY, headers=WITH_KEY | {"origin": origin})
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers
    preflight = {"origin": origin, "access-control-request-method": "POST"}
    assert locked_options(locked, preflight)[0] == 403


@pytest.mark.parametrize(
    "origin", ["http://localhost:3000", "http://[::1]:1", "https://ok.example"]
)
def test_an_origin_that_may_ask(locked: Served, origin: str) -> None:
    answer = locked.get("/v1/models", headers=WITH_KEY | {"origin": origin})
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == origin
    assert answer.headers["vary"] == "Origin"
    asked = {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization, x-stainless-os, x-evil",
    }
    status, headers = locked_options(locked, asked)
    assert status == 204
    assert headers["access-control-allow-headers"] == "authorization, x-stainless-os"


def locked_options(locked: Served, headers: dict[str, str]) -> tuple[int, Any]:
    answer = HTTP.request("OPTIONS", locked.url + CHAT, headers=headers)
    return answer.status_code, answer.headers


def test_keys(locked: Served) -> None:
    wrong: list[dict[str, str]] = [
        {},
        {"authorization": "Bearer"},
        {"authorization": f"Bearer {KEY}x"},
        {"authorization": f"Bearer {KEY[:-1]}"},
        {"authorization": f"Basic {KEY}"},
        {"x-api-key": KEY.upper()},
        {"authorization": "Bearer \xfc\xfc"},
    ]
    for headers in wrong:
        raw = {k: v.encode("latin-1") for k, v in headers.items()}
        for path in (CHAT, "/v1/messages", "/api/chat", "/tokenize", "/nowhere"):
            answer = locked.post(path, BODY, headers=raw)
            assert answer.status_code == 401, (headers, path)
            assert KEY not in answer.text
        assert locked.get("/metrics", headers=raw).status_code == 401
    assert locked.get("/health").status_code == 200
    assert locked.get("/v1/models", headers={"x-api-key": KEY}).status_code == 200
    assert locked.post("/v1/messages", {}, headers={}).json()["type"] == "error"
    assert isinstance(locked.post("/api/chat", {}, headers={}).json()["error"], str)


def test_a_body_of_100_mib(locked: Served) -> None:
    size = 100 << 20
    said = head(locked, f"Content-Length: {size}")
    with socket.create_connection(locked.place, timeout=60) as connection:
        connection.sendall(said)
        assert status_of(rest_of(connection)) == 413  # before a byte of it
    chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    with socket.create_connection(locked.place, timeout=60) as connection:
        connection.sendall(head(locked, "Transfer-Encoding: chunked"))
        sent = 0
        try:
            while sent < size:
                connection.sendall(chunk)
                sent += len(chunk)
        except (ConnectionResetError, BrokenPipeError):
            pass
        assert sent < size


def test_a_slow_body(locked: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.3)
    with socket.create_connection(locked.place, timeout=60) as connection:
        connection.sendall(head(locked, "Content-Length: 100") + b"{")
        assert status_of(rest_of(connection)) == 400


def test_slow_headers(locked: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.3)
    for begun in (b"", b"GET / HTTP/1.1\r\nHost: lo"):
        with socket.create_connection(locked.place, timeout=60) as connection:
            connection.sendall(begun)
            assert rest_of(connection) == b""


@pytest.mark.parametrize(
    "lines",
    [
        ("Content-Length: 2", "Transfer-Encoding: chunked"),
        ("Content-Length: 2", "Content-Length: 3"),
        ("Content-Length: +2",),
        ("Content-Length: 2, 3",),
        ("Content-Length: -1",),
        ("Content-Length: " + "9" * 5000,),
        ("Content-Length : 2",),
        ("Transfer-Encoding: chunked, identity",),
        ("Transfer-Encoding: gzip",),
        ("X: a\r\n\tb: c", "Content-Length: 2", "X\0: 1"),
        ("X: " + "y" * 70000, "Content-Length: 2"),
    ],
)
def test_malformed_frames(locked: Served, lines: tuple[str, ...]) -> None:
    smuggled = head(locked, method="GET", path="/health")
    answer = locked.raw(head(locked, *lines) + b"0\r\n\r\n" + smuggled)
    assert status_of(answer) in (400, 413, 501)


def test_bodies_that_are_no_json(locked: Served) -> None:
    def sent(**headers: str) -> httpx2.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return HTTP.post(locked.url + CHAT, content=b"{}", headers=WITH_KEY | named)

    neglected = ("text/plain; charset=utf-8", "application/x-www-form-urlencoded", "")
    neglected += ("application/octet-stream",)
    for kind in (*neglected, "multipart/form-data", "text/html"):
        assert sent(content_type=kind, origin="http://localhost:1").status_code == 415
        assert sent(content_type=kind, sec_fetch_site="cross-site").status_code == 415
        told = sent(content_type=kind)
        if kind in neglected:  # by programs, as curl -d and LiteLLM
            assert "messages" in told.json()["error"]["message"]
        else:
            assert told.status_code == 415
    assert "messages" in sent().json()["error"]["message"]
    assert sent(origin="http://localhost:1").status_code == 415
    packed = WITH_KEY | {"content-type": "application/json", "content-encoding": "gzip"}
    assert HTTP.post(locked.url + CHAT, content=b"{}", headers=packed).status_code == 415


def test_a_connection_too_many_is_refused_in_json(
    locked: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(connections, "MOST_CONNECTIONS", 0)
        patch.setattr(connections.BoundedProtocol, "_make_room", lambda self: False)
        head, _, body = locked.raw(b"").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert b"content-length: %d" % len(body) in head
    assert json.loads(body)["error"]["type"] == "unavailable_error"


@pytest.mark.parametrize(
    "path",
    ["/../etc/passwd", "/v1/../../etc/passwd", "/v1/models/../../../etc/passwd", "/%2e%2e/x",
     "/v1/models/..%2f..%2fetc%2fpasswd", "//etc/passwd", "/v1/models/%00", "http://evil.example/",
     "/v1/models/" + "x" * 3000],
)  # fmt: skip
def test_paths_that_lead_elsewhere(locked: Served, path: str) -> None:
    data = head(locked, "Connection: close", method="GET", path=path)
    answer = locked.raw(data)
    whole_address = path.startswith("http")  # of a host that is not served
    assert status_of(answer) == (403 if whole_address else 404)
    assert b"root:" not in answer
    assert len(answer) < 2000


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:PORT/health", "http://169.254.169.254/latest/meta-data", "https://[::1]/x",
     "file:///etc/passwd", "http://localhost/", "https://evil.example/x.png", "ftp://x/", "x",
     "data:image/png,notbase64", "data:image/png;base64,%%%", "data:text/html;base64,PGI+"],
)  # fmt: skip
def test_addresses_of_pictures(locked: Served, url: str) -> None:
    name = url.replace(PORT_MARK, str(locked.place[1]))
    part = {"type": "image_url", "image_url": {"url": name}}
    chat = {"messages": [{"role": "user", "content": [part]}]}
    answer = locked.post(CHAT, chat, headers=WITH_KEY)
    assert answer.status_code == 400
    source = {"type": "url", "url": name}
    turn = {"role": "user", "content": [{"type": "image", "source": source}]}
    body = {"model": "tiny", "max_tokens": 1, "messages": [turn]}
    assert locked.post("/v1/messages", body, headers=WITH_KEY).status_code == 400


@pytest.mark.parametrize("most", [1000, pytest.param(10_000, marks=pytest.mark.full)])
def test_idle_connections(locked: Served, most: int) -> None:
    """As many as this process may open, at most so many: 256 stay, and whoever asks is heard."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    many = min(most, hard // 2 - 200)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 2 * many + 400), hard))
    idle: list[socket.socket] = []
    try:
        for n in range(many):
            idle.append(socket.create_connection(locked.place, timeout=60))
            if n % 500 == 499:
                assert locked.get("/health").status_code == 200
        answer = locked.post(CHAT, BODY, headers=WITH_KEY)
        assert answer.status_code == 200
        running = locked.serving._running._server.server_state.connections
        assert len(running) <= connections.MOST_CONNECTIONS
        deadline = time.monotonic() + 60
        while sum(is_open(one) for one in idle) > connections.MOST_CONNECTIONS:
            assert time.monotonic() < deadline
    finally:
        for one in idle:
            one.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False
