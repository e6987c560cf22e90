"""A Hugging Face Hub on this machine: its paths and field names, and the ways in which it fails.

Two servers: the endpoint, and another host that holds the bytes of large files. Each request is
noted, so that a test can look at ranges and logins.
"""

import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, unquote, urlsplit

COMMIT = "c" * 40
CHUNK = 1 << 15
SORTED = {
    "trendingScore": "trending",
    "downloads": "downloads",
    "likes": "likes",
    "lastModified": "modified",
}


@dataclass
class HubFile:
    """A file. `served` replaces its bytes on the way, `cuts` ends that many next responses after so
    many bytes, `beyond` adds bytes without end, `ranges` False ignores the Range header.
    """

    content: bytes
    lfs: bool = True
    etag: str = ""
    served: bytes | None = None
    ranges: bool = True
    cuts: list[int] = field(default_factory=list)
    beyond: bool = False
    length: bool = True
    seconds_a_chunk: float = 0.0
    statuses: list[tuple[int, dict[str, str]]] = field(default_factory=list)

    @property
    def sha256(self) -> str:
        """Of the right content."""
        return hashlib.sha256(self.content).hexdigest()

    @property
    def tag(self) -> str:
        """The ETag: the content's hash, as the Hub has it for large files."""
        return self.etag or (self.sha256 if self.lfs else hashlib.sha1(self.content).hexdigest())


@dataclass
class HubRepo:
    """A repository with what a search shows of it."""

    files: dict[str, HubFile]
    gated: str | bool = False
    downloads: int = 0
    likes: int = 0
    trending: int = 0
    modified: str = "2026-01-01T00:00:00.000Z"
    licence: str = "apache-2.0"
    parameters: int | None = None
    architecture: str | None = None
    task: str = "text-generation"
    tags: list[str] = field(default_factory=list)
    more: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Asked:
    """A request. `host` is "hub" or "cdn"; `sent` counts the body's bytes that went out."""

    host: str
    method: str
    path: str
    query: dict[str, list[str]]
    range: str | None
    login: str | None


@dataclass
class FakeHub:
    """The repositories, and what was asked for. `limits` are seconds of the next 429s."""

    url: str
    cdn: str
    repos: dict[str, HubRepo] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    sent: dict[str, int] = field(default_factory=dict)
    limits: list[int] = field(default_factory=list)
    token: str = "hf_secret"
    tree_page: int = 1000
    raw: dict[str, bytes] = field(default_factory=dict)
    silent: bool = False
    chunk: int = CHUNK
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, name: str, files: dict[str, bytes], **about: object) -> HubRepo:
        """A repository of plain files."""
        repo = HubRepo({path: HubFile(content) for path, content in files.items()})
        for key, value in about.items():
            setattr(repo, key, value)
        self.repos[name] = repo
        return repo

    def ranges(self, file: str) -> list[str | None]:
        """The Range headers of GET requests for a file's bytes, in order."""
        return [a.range for a in self.asked if a.method == "GET" and a.path.endswith(f"/{file}")]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: FakeHub
    host: str

    def do_HEAD(self) -> None:
        self._route(body=False)

    def do_GET(self) -> None:
        self._route(body=True)

    def _route(self, body: bool) -> None:
        hub, parts = self.hub, urlsplit(self.path)
        path, query = unquote(parts.path), parse_qs(parts.query)
        login, span = self.headers.get("Authorization"), self.headers.get("Range")
        hub.asked.append(Asked(self.host, self.command, path, query, span, login))
        if hub.silent:
            time.sleep(30)
        words = path.strip("/").split("/")
        if path in hub.raw:
            self._json(200, {}, hub.raw[path])
        elif self.host == "cdn":
            repo = hub.repos["/".join(words[:2])]
            self._bytes(repo.files["/".join(words[2:])], body)
        elif hub.limits and path.startswith("/api/"):
            seconds = hub.limits.pop(0)
            limited = {"RateLimit": f'"api";r=0;t={seconds}', "X-Error-Code": ""}
            limited["RateLimit-Policy"] = '"fixed window";"api";q=500;w=300'
            self._json(429, limited, b"{}")
        elif words[:2] == ["api", "models"] and len(words) == 2:
            self._search(query)
        elif words[:2] == ["api", "models"]:
            self._about("/".join(words[2:4]), words[4:], query)
        elif len(words) > 4 and words[2] == "resolve":
            self._resolve("/".join(words[:2]), "/".join(words[4:]), body)
        else:
            self._json(404, {}, b"{}")

    def _search(self, query: dict[str, list[str]]) -> None:
        found = list(self.hub.repos.items())
        words = query.get("search", [""])[0].lower()
        found = [(name, repo) for name, repo in found if words in name.lower()]
        for tag in query.get("filter", []):
            found = [(n, r) for n, r in found if tag in _tags(r)]
        if "num_parameters" in query:
            most = int(query["num_parameters"][0].partition("max:")[2])
            found = [(n, r) for n, r in found if r.parameters and r.parameters <= most]
        by = SORTED[query["sort"][0]]
        found.sort(key=lambda row: getattr(row[1], by), reverse=True)
        first, limit = int(query.get("cursor", ["0"])[0]), int(query["limit"][0])
        headers = {}
        if first + limit < len(found):
            again = {**query, "cursor": [str(first + limit)]}
            pairs = [f"{quote(k)}={quote(v)}" for k, values in again.items() for v in values]
            headers["Link"] = f'<{self.hub.url}/api/models?{"&".join(pairs)}>; rel="next"'
        rows = [_row(name, repo) for name, repo in found[first : first + limit]]
        self._json(200, headers, json.dumps(rows).encode())

    def _about(self, name: str, rest: list[str], query: dict[str, list[str]]) -> None:
        repo = self.hub.repos.get(name)
        if repo is None:
            return self._json(404, {"X-Error-Code": "RepoNotFound"}, b"{}")
        if not rest:
            row = _row(name, repo) | {"siblings": [{"rfilename": path} for path in repo.files]}
            return self._json(200, {}, json.dumps(row | {"private": False}).encode())
        rows = [_tree_row(path, file) for path, file in sorted(repo.files.items())]
        rows.insert(0, {"type": "directory", "path": "sub", "oid": "0", "size": 0})
        first, limit = int(query.get("cursor", ["0"])[0]), self.hub.tree_page
        headers = {}
        if first + limit < len(rows):
            url = f"{self.hub.url}/api/models/{name}/tree/main"
            headers["Link"] = f'<{url}?recursive=true&cursor={first + limit}>; rel="next"'
        return self._json(200, headers, json.dumps(rows[first : first + limit]).encode())

    def _resolve(self, name: str, path: str, body: bool) -> None:
        repo = self.hub.repos.get(name)
        if repo is None:
            return self._json(401, {"X-Error-Code": "RepoNotFound"}, b"")
        if path not in repo.files:
            return self._json(404, {"X-Error-Code": "EntryNotFound"}, b"")
        if repo.gated and self.headers.get("Authorization") != f"Bearer {self.hub.token}":
            return self._json(401, {"X-Error-Code": "GatedRepo"}, b"")
        file = repo.files[path]
        if not file.lfs:
            return self._bytes(file, body, {"X-Repo-Commit": COMMIT})
        headers = {
            "X-Repo-Commit": COMMIT,
            "X-Linked-Etag": f'"{file.tag}"',
            "X-Linked-Size": str(len(file.content)),
            "Location": f"{self.hub.cdn}/{name}/{quote(path)}?sign=1",
        }
        return self._json(302, headers, b"")

    def _bytes(self, file: HubFile, body: bool, more: dict[str, str] | None = None) -> None:
        if file.statuses and body:
            status, extra = file.statuses.pop(0)
            return self._json(status, extra, b"")
        content = file.content if file.served is None else file.served
        headers = {"ETag": f'"{file.tag}"', **(more or {})}
        status, asked = 200, self.headers.get("Range")
        if file.ranges:
            headers["Accept-Ranges"] = "bytes"
        if asked and file.ranges:
            first, _, last = asked.removeprefix("bytes=").partition("-")
            start, end = int(first), min(int(last or len(content) - 1), len(content) - 1)
            if start >= len(content):
                return self._json(416, {"Content-Range": f"bytes */{len(content)}"}, b"")
            headers["Content-Range"] = f"bytes {start}-{end}/{len(content)}"
            status, content = 206, content[start : end + 1]
        self.send_response(status)
        if file.length and not file.beyond:
            headers["Content-Length"] = str(len(content))
        else:
            self.close_connection = True
            headers["Connection"] = "close"
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self._send(file, content)
        return None

    def _send(self, file: HubFile, content: bytes) -> None:
        cut = file.cuts.pop(0) if file.cuts else None
        if cut is not None:
            self.close_connection = True
        sent = memoryview(content)[:cut]
        with suppress(ConnectionError):
            for at in range(0, len(sent), self.hub.chunk):
                self._count(sent[at : at + self.hub.chunk])
                time.sleep(file.seconds_a_chunk)
            while file.beyond:
                self._count(bytes(self.hub.chunk))

    def _count(self, chunk: bytes | memoryview) -> None:
        """Send a chunk, counted before the client can have it."""
        path = unquote(urlsplit(self.path).path)
        with self.hub.lock:
            self.hub.sent[path] = self.hub.sent.get(path, 0) + len(chunk)
        self.wfile.write(chunk)

    def _json(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.send_response(status)
        sent = {"Content-Type": "application/json", "Content-Length": str(len(content)), **headers}
        for name, value in sent.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            with suppress(ConnectionError):
                self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        return


def _tags(repo: HubRepo) -> list[str]:
    return ["gguf", repo.task, f"license:{repo.licence}", *repo.tags]


def _row(name: str, repo: HubRepo) -> dict[str, object]:
    about = {"total": repo.parameters, "architecture": repo.architecture, "context_length": 4096}
    return {
        "_id": "0",
        "id": name,
        "modelId": name,
        "sha": COMMIT,
        "gated": repo.gated,
        "downloads": repo.downloads,
        "likes": repo.likes,
        "trendingScore": repo.trending,
        "lastModified": repo.modified,
        "tags": _tags(repo),
        "pipeline_tag": repo.task,
        "gguf": {key: value for key, value in about.items() if value is not None},
        **repo.more,
    }


def _tree_row(path: str, file: HubFile) -> dict[str, object]:
    row: dict[str, object] = {
        "type": "file",
        "oid": hashlib.sha1(file.content).hexdigest(),
        "size": len(file.content),
        "path": path,
    }
    if file.lfs:
        size = len(file.content)
        row["lfs"] = {"oid": file.sha256, "size": size, "pointerSize": 134}
        row["xetHash"] = "e" * 64
    return row


class _Threads(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that has gone is no news."""


@contextmanager
def fake_hub() -> Iterator[FakeHub]:
    """A running Hub without repositories; it ends with the block."""
    servers: list[ThreadingHTTPServer] = []
    hub = FakeHub("", "")
    for host in ("hub", "cdn"):
        kind = type("Handler", (_Handler,), {"hub": hub, "host": host})
        server = _Threads(("127.0.0.1", 0), kind)
        servers.append(server)
    hub.url, hub.cdn = (f"http://127.0.0.1:{server.server_address[1]}" for server in servers)
    hub.cdn = hub.cdn.replace("127.0.0.1", "localhost")
    threads = [
        threading.Thread(target=s.serve_forever, kwargs={"poll_interval": 0.02}) for s in servers
    ]
    for thread in threads:
        thread.start()
    try:
        yield hub
    finally:
        for server, thread in zip(servers, threads, strict=True):
            server.shutdown()
            thread.join()
            server.server_close()
