"""Progress, cancellation and errors that the parts of a download share."""

import errno
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from glob import escape
from pathlib import Path
from typing import Literal

from app.fetch.known import Terms
from engine.errors import CutawayError, DownloadError

REPORT_EVERY = 0.1  # seconds
SPACE_MARGIN = 16 << 20  # bytes a download leaves free, since others write to the disk too

FetchStage = Literal["waiting", "download", "checking", "unpack"]


@dataclass(frozen=True)
class FetchProgress:
    """How far one stage of a fetch is, in bytes over all its files.

    `along` names a file that comes besides the model, with its size.
    """

    stage: FetchStage
    done: int
    total: int
    along: str = ""


class FetchStopped(CutawayError):
    """A fetch that was stopped; what it has stays on disk for the next try."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"{name}: stopped; `cutaway get {name}` resumes it")


def record_path(part: Path) -> Path:
    """Where the record of a partial file lies that is fetched by ranges."""
    return part.with_name(f"{part.name}.json")


def forget(part: Path) -> None:
    """Delete a partial file with its record."""
    record = record_path(part)
    part.unlink(missing_ok=True)
    record.unlink(missing_ok=True)
    for unfinished in part.parent.glob(f".{escape(record.name)}.*"):  # killed while it was written
        unfinished.unlink(missing_ok=True)


class GatedModel(DownloadError):
    """A repository whose terms must be accepted on its `page` first."""

    def __init__(self, name: str, page: str) -> None:
        self.page = page
        super().__init__(
            name,
            f"its terms must be accepted at {page}; then set HF_TOKEN or log in with "
            "`hf auth login`, and try again",
        )


class TermsNotAccepted(CutawayError):
    """A model whose terms of use must be accepted first."""

    def __init__(self, name: str, terms: Terms) -> None:
        self.name, self.terms = name, terms
        super().__init__(
            f"{name} is licensed under {terms.title}: read {terms.url}, then accept them with "
            f"`cutaway get {name} --accept-terms`"
        )


@dataclass
class Job:
    """One fetch as its parts see it. Both callables run in the fetching thread; `parts` are the
    partial files it has begun.
    """

    name: str
    progress: Callable[[FetchProgress], None]
    cancelled: Callable[[], bool]
    along: str = field(default="", init=False)
    parts: list[Path] = field(default_factory=list, init=False)
    _last: float = field(default=0.0, init=False)

    def check(self) -> None:
        """Raises FetchStopped once the fetch is to stop."""
        if self.cancelled():
            raise FetchStopped(self.name)

    def report(self, stage: FetchStage, done: int, total: int) -> None:
        """Passes the progress on, some ten times a second and at the stage's end."""
        now = time.monotonic()
        if done >= total or now - self._last >= REPORT_EVERY:
            self._last = now
            self.progress(FetchProgress(stage, done, total, self.along))

    def wait(self, seconds: float) -> None:
        """Sleeps, unless the fetch is to stop."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.check()
            time.sleep(min(0.1, seconds))

    @contextmanager
    def locked(self, path: Path) -> Iterator[None]:
        """Keeps another process from fetching the same; waits for it, unless it is to stop."""
        from filelock import FileLock, Timeout

        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path)
        while not lock.is_locked:
            try:
                lock.acquire(timeout=0.2)
            except Timeout:
                self.check()
        try:
            yield
        finally:
            lock.release()

    def fail(self, problem: str) -> DownloadError:
        """The error to raise."""
        return DownloadError(self.name, problem)

    def disk_error(self, error: OSError, folder: Path) -> DownloadError:
        """The error to raise when a file cannot be written."""
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return self.fail(f"the disk of {folder} is full; make room and try again, it resumes")
        return self.fail(f"cannot write to {folder}: {error.strerror or error}")

    def need_space(self, folder: Path, wanted: int) -> None:
        """Raises DownloadError unless the folder's disk has room for `wanted` bytes more."""
        place = folder
        while not place.exists():
            place = place.parent
        free = shutil.disk_usage(place).free - SPACE_MARGIN
        if wanted > free:
            raise self.fail(
                f"needs {wanted / 1e6:.0f} MB in {folder}, where {max(free, 0) / 1e6:.0f} MB "
                "are free; make room or choose another disk"
            )
