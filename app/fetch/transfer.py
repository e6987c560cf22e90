"""One file over HTTP: resumed where it stopped, counted, hashed, then renamed into place.

The partial file is `<target>.part`. Callers put something of the content into the target's name
(its hash), so a part can only belong to the content that is being fetched. A large file comes in
several ranges (`ranges`), all others in one stream.
"""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx2

import app.fetch.ranges as ranges
from app.fetch.job import Job, forget, record_path
from app.fetch.source import (
    CONTENT_RANGE,
    RETRIED,
    TIMEOUT,
    TRIES,
    Source,
    explained,
    pause_before_retry,
)
from engine.errors import DownloadError
from engine.kept import sync_folder

CHUNK = 1 << 18  # bytes
HASHED = 1 << 22  # bytes that are hashed at once


class PartialFile:
    """The partial file: appended to, with its size and running hash."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self.digest = hashlib.sha256()
        self._file = path.open("a+b")
        self._file.seek(0)
        while chunk := self._file.read(CHUNK):
            self._count(chunk)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._file.close()

    def write(self, chunk: bytes) -> None:
        """Appends."""
        self._file.write(chunk)
        self._count(chunk)

    def restart(self) -> None:
        """Throws away what is there."""
        self._file.truncate(0)
        self.size = 0
        self.digest = hashlib.sha256()

    def sync(self) -> None:
        """Makes sure that the bytes are on the disk before the file gets its final name."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def _count(self, chunk: bytes) -> None:
        self.size += len(chunk)
        self.digest.update(chunk)


def download(
    client: httpx2.Client, source: Source, target: Path, job: Job, on_size: Callable[[int], None]
) -> None:
    """Fetches `source` to `target`; `on_size` gets the number of bytes so far.

    A broken connection is tried again, each time from where it stopped. Raises DownloadError or
    FetchStopped; both leave the part for the next try, but for a wrong hash.
    """
    path = target.with_name(f"{target.name}.part")
    job.parts.append(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.sha256 is None:
            forget(path)  # it could be of another content
        if not _by_ranges(client, source, path, job, on_size):
            _by_stream(client, source, path, job, on_size)
        record_path(path).unlink(missing_ok=True)  # the part is whole, as a retry finds by its hash
        path.replace(target)
        sync_folder(target.parent)
        forget(path)
    except OSError as error:
        raise job.disk_error(error, target.parent) from error


def _by_ranges(
    client: httpx2.Client, source: Source, path: Path, job: Job, on_size: Callable[[int], None]
) -> bool:
    """Fetch and check a large file; False for one that comes in a stream."""
    if source.sha256 is None or source.size is None or source.size < ranges.RANGED_FROM:
        return False
    try:
        resumed = ranges.receive_ranges(client, source, path, job, on_size)
        digest = _digest(path, job)
        if resumed and digest != source.sha256.lower():
            forget(path)  # the bytes of an earlier try may be the wrong ones
            ranges.receive_ranges(client, source, path, job, on_size)
            digest = _digest(path, job)
    except ranges.RangesRefused:
        forget(path)
        return False
    if digest != source.sha256.lower():
        raise _wrong(source, path, digest, job)
    return True


def _by_stream(
    client: httpx2.Client, source: Source, path: Path, job: Job, on_size: Callable[[int], None]
) -> None:
    if record_path(path).exists():
        forget(path)
    with PartialFile(path) as part:
        resumed = part.size > 0
        _receive(client, source, part, job, on_size)
        if resumed and not _is_right(source, part):
            part.restart()  # the bytes of an earlier try may be the wrong ones
            _receive(client, source, part, job, on_size)
        right = _is_right(source, part)
        part.sync()
    if not right:
        raise _wrong(source, path, part.digest.hexdigest(), job)


def _digest(path: Path, job: Job) -> str:
    """The sha256 of a whole part, in order, once it is on the disk."""
    digest, size, done = hashlib.sha256(), path.stat().st_size, 0
    with path.open("r+b") as file:
        os.fsync(file.fileno())
        while chunk := file.read(HASHED):
            job.check()
            digest.update(chunk)
            done += len(chunk)
            job.report("checking", done, size)
    return digest.hexdigest()


def _wrong(source: Source, path: Path, digest: str, job: Job) -> DownloadError:
    forget(path)
    return job.fail(
        f"{source.label} has sha256 {digest} instead of {source.sha256}; "
        "it was deleted; try again, or another server"
    )


def _is_right(source: Source, part: PartialFile) -> bool:
    return source.sha256 is None or part.digest.hexdigest() == source.sha256.lower()


def _receive(
    client: httpx2.Client,
    source: Source,
    part: PartialFile,
    job: Job,
    on_size: Callable[[int], None],
) -> None:
    """Streams until the part is whole. Raises DownloadError after TRIES tries without progress."""
    most, failures = part.size, 0
    while True:
        try:
            _stream(client, source, part, job, on_size)
            return
        except httpx2.HTTPError as error:
            failures = 1 if part.size > most else failures + 1
            most = max(most, part.size)
            retried = not isinstance(error, httpx2.HTTPStatusError) or (
                error.response.status_code in RETRIED
            )
            if failures == TRIES or not retried:
                raise job.fail(explained(source, part.size, error)) from error
            job.wait(pause_before_retry(error, failures))


def _stream(
    client: httpx2.Client,
    source: Source,
    part: PartialFile,
    job: Job,
    on_size: Callable[[int], None],
) -> None:
    job.check()
    if source.size is not None and part.size > source.size:
        part.restart()
    if part.size and part.size == source.size:
        return on_size(part.size)
    headers = {**source.headers, "Accept-Encoding": "identity"}
    if part.size:
        headers["Range"] = f"bytes={part.size}-"
    with client.stream("GET", source.url, headers=headers, timeout=TIMEOUT) as response:
        if response.status_code == httpx2.codes.RANGE_NOT_SATISFIABLE and part.size:
            part.restart()
            raise httpx2.RemoteProtocolError("the server does not have this part of the file")
        response.raise_for_status()
        size = _whole_size(response, part)
        if size is not None and source.size is not None and size != source.size:
            raise job.fail(source.other_size(size))
        most = source.size if source.size is not None else min(size or source.most, source.most)
        for chunk in response.iter_raw():
            if part.size + len(chunk) > most:
                part.restart()
                raise job.fail(_too_much(source, most))
            part.write(chunk)
            on_size(part.size)
            job.check()
    size = source.size if size is None else size
    if size is not None and part.size != size:
        raise httpx2.RemoteProtocolError(f"{part.size} bytes received, {size} expected")
    return None


def _too_much(source: Source, most: int) -> str:
    announced = f"the {most} bytes expected" if source.size is not None else f"{most} bytes"
    return f"{source.label} sends more than {announced}; it was deleted; try another server"


def _whole_size(response: httpx2.Response, part: PartialFile) -> int | None:
    """The size of the whole file as this answer has it; a part that it ignores starts anew."""
    if response.status_code == httpx2.codes.PARTIAL_CONTENT:
        found = CONTENT_RANGE.match(response.headers.get("Content-Range", ""))
        if found and int(found[1]) == part.size:
            return None if found[2] == "*" else int(found[2])
        part.restart()
        raise httpx2.RemoteProtocolError("the server sent another part of the file than requested")
    part.restart()
    length = response.headers.get("Content-Length", "")
    return int(length) if length.isdecimal() else None
