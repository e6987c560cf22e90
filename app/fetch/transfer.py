"""One file over HTTP: resumed where it stopped, counted, hashed, then renamed into place.

The partial file is `<target>.part`. Callers put something of the content into the target's name
(its hash), so a part can only belong to the content that is being fetched.
"""

import hashlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx2

from app.fetch.job import Job
from engine.units import MIB

CHUNK = 1 << 18  # bytes
TRIES = 4  # in a row without one byte more
TIMEOUT = httpx2.Timeout(30, connect=15)  # seconds; the first is per read, not for the whole file
RETRIED = frozenset({408, 429, 500, 502, 503, 504})
CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")


@dataclass(frozen=True)
class Source:
    """Where a file is and what is known of it beforehand."""

    url: str
    size: int | None
    sha256: str | None
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The file's name and server, without a password or a signature."""
        url = httpx2.URL(self.url)
        return f"{url.path.rpartition('/')[2]} of {url.host}"


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
    """Fetches `source` to `target`; `on_size` is told how many bytes are there.

    A broken connection is tried again, each time from where it stopped. Raises DownloadError or
    FetchStopped; both leave the part for the next try, except a full disk and a wrong hash.
    """
    path = target.with_name(f"{target.name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.sha256 is None:
            path.unlink(missing_ok=True)  # it could be of another content
        with PartialFile(path) as part:
            resumed = part.size > 0
            _receive(client, source, part, job, on_size)
            if resumed and not _is_right(source, part):
                part.restart()  # the bytes of an earlier try may be the wrong ones
                _receive(client, source, part, job, on_size)
            right = _is_right(source, part)
            part.sync()
        if not right:
            path.unlink()
            raise job.fail(
                f"{source.label} has sha256 {part.digest.hexdigest()} instead of {source.sha256}; "
                "it was deleted; try again, or another server"
            )
        path.replace(target)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise job.disk_error(error, target.parent) from error


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
                raise job.fail(_explain(source, part, error)) from error
            job.wait(0.25 * 2**failures)


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
            raise httpx2.RemoteProtocolError("the server does not know this part of the file")
        response.raise_for_status()
        size = _whole_size(response, part)
        if size is not None and source.size is not None and size != source.size:
            raise job.fail(
                f"{source.label} has {size} bytes where {source.size} were announced; "
                "try again later, or another server"
            )
        for chunk in response.iter_raw():
            part.write(chunk)
            on_size(part.size)
            job.check()
    size = source.size if size is None else size
    if size is not None and part.size != size:
        raise httpx2.RemoteProtocolError(f"{part.size} bytes came where {size} were announced")
    return None


def _whole_size(response: httpx2.Response, part: PartialFile) -> int | None:
    """The size of the whole file as this answer has it; a part that it ignores starts anew."""
    if response.status_code == httpx2.codes.PARTIAL_CONTENT:
        found = CONTENT_RANGE.match(response.headers.get("Content-Range", ""))
        if found and int(found[1]) == part.size:
            return None if found[2] == "*" else int(found[2])
        part.restart()
        raise httpx2.RemoteProtocolError("the server sent another part of the file than asked for")
    part.restart()
    length = response.headers.get("Content-Length", "")
    return int(length) if length.isdecimal() else None


def _explain(source: Source, part: PartialFile, error: httpx2.HTTPError) -> str:
    if isinstance(error, httpx2.HTTPStatusError):
        code = error.response.status_code
        return f"{source.label}: the server answered {code} {error.response.reason_phrase}"
    reason = str(error) or type(error).__name__
    return (
        f"the connection for {source.label} broke at {part.size / MIB:.1f} MiB ({reason}); "
        "check the network and try again: the download resumes"
    )
