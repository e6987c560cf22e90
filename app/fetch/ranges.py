"""One large file by several ranges at once.

`.part` has the full length from the start, so `.part.json` beside it says which bytes are there. It
is written after them, so a process that is killed loses at most what came since.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import httpx2
import msgspec

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
from app.files import write_atomically
from engine.kept import UNREADABLE, read_kept
from engine.units import MIB

RANGED_FROM = 256 * MIB  # bytes of a file
RANGES = 4
RECORD_EVERY = 64 * MIB  # bytes between two writes of the record
POLL = 0.05  # seconds
PATIENCE = 2.0  # seconds that a stopped range has to end; it writes nothing after that

Span = tuple[int, int]  # first byte, and the one behind the last


class RangesRefused(Exception):
    """The server sends whole files only."""


class _Record(msgspec.Struct):
    size: int
    etag: str
    done: list[Span]


def present(part: Path) -> int:
    """How many bytes of a file are in its part."""
    record = _read(record_path(part))
    if record is not None:
        return sum(end - start for start, end in record.done)
    return part.stat().st_size if part.exists() else 0


def receive_ranges(
    client: httpx2.Client, source: Source, part: Path, job: Job, on_size: Callable[[int], None]
) -> bool:
    """Fetch what is missing of `source` into `part`; whether some of it was there before.

    Raises RangesRefused, DownloadError, FetchStopped, OSError; all but the first leave the part for
    the next try.
    """
    assert source.size is not None
    done = _done_before(source, part)
    resumed = bool(done)
    _write_record(source, part, done)
    with part.open("ab"):
        os.truncate(part, source.size)
    ranges = [_Range(client, source, part, job, span) for span in _cut(_missing(done, source.size))]
    running = _Running(source, part, done, ranges)
    try:
        running.run(job, on_size)
    finally:
        running.end()
    return resumed


class _Range(threading.Thread):
    """One range, tried again from where it broke; `at` is behind the last byte written."""

    def __init__(
        self, client: httpx2.Client, source: Source, part: Path, job: Job, span: Span
    ) -> None:
        super().__init__(name="range", daemon=True)
        self._client, self._source, self._part, self._job = client, source, part, job
        self.start_byte, self._end = span
        self.at = self.start_byte
        self.error: Exception | None = None
        self.stop = threading.Event()

    def run(self) -> None:
        """Fetch it; in a thread of its own."""
        try:
            with self._part.open("r+b", buffering=0) as file:
                self._receive(file)
        except Exception as error:  # noqa: BLE001  raised by the fetching thread
            self.error = error

    def _receive(self, file: object) -> None:
        failures = 0
        while self.at < self._end and not self.stop.is_set():
            before = self.at
            try:
                self._stream(file)
            except httpx2.HTTPError as error:
                failures = 1 if self.at > before else failures + 1
                retried = not isinstance(error, httpx2.HTTPStatusError) or (
                    error.response.status_code in RETRIED
                )
                if failures == TRIES or not retried:
                    text = explained(self._source, self.at, error)
                    raise self._job.fail(text) from error
                self.stop.wait(pause_before_retry(error, failures))

    def _stream(self, file: object) -> None:
        headers = {**self._source.headers, "Accept-Encoding": "identity"}
        headers["Range"] = f"bytes={self.at}-{self._end - 1}"
        with self._client.stream(
            "GET", self._source.url, headers=headers, timeout=TIMEOUT
        ) as response:
            response.raise_for_status()
            self._check(response)
            file.seek(self.at)  # type: ignore[attr-defined]
            for chunk in response.iter_raw():
                if self.stop.is_set():
                    return
                chunk = chunk[: self._end - self.at]
                file.write(chunk)  # type: ignore[attr-defined]
                self.at += len(chunk)
                if self.at == self._end:
                    return
        raise httpx2.RemoteProtocolError("the connection ended inside a range")

    def _check(self, response: httpx2.Response) -> None:
        """The response is this range of a file of the announced size."""
        if response.status_code != httpx2.codes.PARTIAL_CONTENT:
            raise RangesRefused
        found = CONTENT_RANGE.match(response.headers.get("Content-Range", ""))
        if found is None or int(found[1]) != self.at:
            raise httpx2.RemoteProtocolError("the server sent another range than requested")
        if found[2] not in ("*", str(self._source.size)):
            raise self._job.fail(self._source.other_size(int(found[2])))


class _Running:
    """The ranges of a file while they are fetched, and its record."""

    def __init__(
        self, source: Source, part: Path, done: Sequence[Span], ranges: Sequence[_Range]
    ) -> None:
        self._source, self._part, self._done, self._ranges = source, part, done, ranges
        self._recorded = self.size

    @property
    def size(self) -> int:
        """Bytes that are there."""
        before = sum(end - start for start, end in self._done)
        return before + sum(one.at - one.start_byte for one in self._ranges)

    def run(self, job: Job, on_size: Callable[[int], None]) -> None:
        """Until all have ended; raises the first error."""
        for one in self._ranges:
            one.start()
        while any(one.is_alive() for one in self._ranges):
            job.check()
            for one in self._ranges:
                one.join(POLL / len(self._ranges))
                if one.error is not None:
                    raise one.error
            on_size(self.size)
            if self.size - self._recorded >= RECORD_EVERY:
                self.record()
        error = next((one.error for one in self._ranges if one.error is not None), None)
        if error is not None:
            raise error
        on_size(self.size)

    def end(self) -> None:
        """Stop what runs, and note what is there."""
        for one in self._ranges:
            one.stop.set()
        for one in self._ranges:
            if one.ident is not None:
                one.join(PATIENCE)
        with contextlib.suppress(OSError):
            self.record()

    def record(self) -> None:
        """Write which bytes are there, once they are on the disk."""
        size = self.size
        done = [*self._done, *((one.start_byte, one.at) for one in self._ranges)]
        with self._part.open("r+b") as file:
            os.fsync(file.fileno())
        _write_record(self._source, self._part, done)
        self._recorded = size


def _done_before(source: Source, part: Path) -> list[Span]:
    """Return the ranges that an earlier try has downloaded; nothing of another content."""
    assert source.size is not None
    record = _read(record_path(part))
    if not part.exists():
        return []
    if record is None:  # of one stream
        return _merged([(0, min(part.stat().st_size, source.size))])
    if (record.size, record.etag) != (source.size, source.sha256):
        forget(part)
        return []
    return _merged(record.done)


def _read(path: Path) -> _Record | None:
    """The record; None where there is none that holds."""
    try:
        record = msgspec.json.decode(read_kept(path), type=_Record)
    except (OSError, *UNREADABLE):
        return None
    held = all(0 <= start <= end <= record.size for start, end in record.done)
    return record if held else None


def _write_record(source: Source, part: Path, done: Sequence[Span]) -> None:
    assert source.size is not None
    record = _Record(source.size, source.sha256 or "", _merged(done))
    write_atomically(record_path(part), msgspec.json.encode(record))


def _merged(spans: Sequence[Span]) -> list[Span]:
    """Spans in order, those that touch as one, without empty ones."""
    merged: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _missing(done: Sequence[Span], size: int) -> list[Span]:
    starts = [0, *(end for _, end in done)]
    ends = [*(start for start, _ in done), size]
    return [(start, end) for start, end in zip(starts, ends, strict=True) if start < end]


def _cut(missing: Sequence[Span]) -> list[Span]:
    """About RANGES spans of about one size, by halving the largest."""
    spans = list(missing)
    while spans and len(spans) < RANGES:
        spans.sort(key=lambda span: span[1] - span[0])
        start, end = spans.pop()
        middle = (start + end) // 2
        if middle == start:
            return [*spans, (start, end)]
        spans += [(start, middle), (middle, end)]
    return sorted(spans)
