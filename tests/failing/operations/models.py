"""Model files: fetched in a stream and in ranges, resumed, moved to another folder."""

import hashlib
import http.server
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx2

from app import storage
from app.fetch import ranges
from app.fetch.job import FetchStopped, Job
from app.fetch.source import Source
from app.fetch.transfer import download
from app.library import Stored
from engine.errors import CutawayError
from tests.failing.sweep import Operation, refused

CONTENT = bytes(range(256)) * 3000
LOCKED = 30.0  # seconds without a byte, after which somebody else must have the lock
DIGEST = hashlib.sha256(CONTENT).hexdigest()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:  # noqa: N802
        span = self.headers.get("Range", "")
        first, _, last = span.removeprefix("bytes=").partition("-") if span else ("", "", "")
        start, end = int(first or 0), int(last or len(CONTENT) - 1)
        body = CONTENT[start : end + 1]
        self.send_response(206 if span else 200)
        if span:
            self.send_header("Content-Range", f"bytes {start}-{end}/{len(CONTENT)}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def _server() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  a client that has left
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/m.gguf"
    server.shutdown()
    server.server_close()


def _fetch(root: Path, in_ranges: bool, stop_after: int = 0) -> None:
    """With a lock beside it, as stores fetch; cancelled after so many bytes."""
    seen = 0

    def on_size(size: int) -> None:
        nonlocal seen
        seen = size

    ranges.RANGED_FROM = 1 if in_ranges else 1 << 40
    ranges.RECORD_EVERY = 1 << 18
    late = time.monotonic() + LOCKED

    def cancelled() -> bool:
        return bool(stop_after and seen >= stop_after) or (not seen and time.monotonic() > late)

    job = Job("m", lambda _: None, cancelled)
    target = root / "store" / DIGEST[:16] / "m.gguf"
    with _server() as url, httpx2.Client() as client:
        source = Source(url=url, size=len(CONTENT), sha256=DIGEST)
        try:
            with job.locked(root / "store" / "m.lock"):
                if not target.exists():
                    download(client, source, target, job, on_size)
        except OSError as error:
            raise job.disk_error(error, root) from None


def _fetched(in_ranges: bool, root: Path) -> None:
    try:
        _fetch(root, in_ranges)
    except CutawayError as error:
        refused(error)
        try:
            _fetch(root, in_ranges)
        except FetchStopped:
            raise AssertionError("the lock of the try before is still held") from None


def _nothing(root: Path) -> None:
    (root / "store").mkdir(parents=True)


def _half(in_ranges: bool, root: Path) -> None:
    _nothing(root)
    try:
        _fetch(root, in_ranges, 1 << 18)
    except FetchStopped:
        return
    raise AssertionError("it was not stopped")


def _state(root: Path) -> Any:
    """How many models are believed to be whole, and are."""
    found = list(root.rglob("m.gguf"))
    for path in found:
        assert path.read_bytes() == CONTENT, f"{path.name} is not what was fetched"
    return len(found)


def _setup_move(root: Path) -> None:
    for name in ("old", "new"):
        (root / name).mkdir(parents=True)
    (root / "old" / "m.gguf").write_bytes(CONTENT)


def _move(root: Path) -> None:
    old = root / "old" / "m.gguf"
    model = Stored("m", (old,), len(CONTENT), "folder", False)
    if not old.exists():
        return
    try:
        storage.move(model, root / "new")
    except CutawayError as error:
        refused(error)
        if (root / "new" / "m.gguf").exists():
            storage.delete(storage.deletion(model))
        else:
            storage.move(model, root / "new")


def _moved(root: Path) -> Any:
    places = {path.parent.name: path.read_bytes() == CONTENT for path in root.rglob("m.gguf")}
    assert places, "the model is lost"
    assert all(places.values()), f"a model is damaged: {places}"
    return sorted(places)


def _both(before: Any, after: Any, now: Any) -> bool:
    return bool(now == ["new", "old"])


OPERATIONS = (
    Operation("fetch", _nothing, partial(_fetched, False), _state),
    Operation("fetch-ranges", _nothing, partial(_fetched, True), _state),
    Operation("fetch-resume", partial(_half, False), partial(_fetched, False), _state),
    Operation("fetch-resume-ranges", partial(_half, True), partial(_fetched, True), _state),
    Operation("move", _setup_move, _move, _moved, _both, optional=True),
)
