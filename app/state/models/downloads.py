"""Fetches under way and their ends."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, Literal

from PySide6.QtCore import QObject, Signal

from app import fetch
from app.fetch.known import KNOWN
from app.work import Work

RATE_EVERY = 0.5  # seconds over which a rate is measured
AT_ONCE = 2  # fetches side by side; others wait
SMOOTHING = 0.4  # weight of the newest rate

log = logging.getLogger("fetch")


@dataclass(frozen=True)
class Download:
    """One fetch. Bytes; `rate` bytes per second; `left_s` seconds, None while unknown. What came
    of one that is paused or failed is kept, of one that is stopped it is deleted. `page` is where a
    gated model's terms can be accepted.
    """

    name: str
    state: Literal["running", "stopping", "paused", "stopped", "failed", "done"]
    stage: str = "download"
    done: int = 0
    total: int = 0
    rate: float | None = None
    left_s: float | None = None
    path: Path | None = None
    problem: str = ""
    page: str = ""


class Downloads(QObject):
    """All fetches of this run, in the order they were requested.

    `folder` gives the models folder that was chosen, if any.
    """

    changed = Signal(str)  # name; at most ten times per second while running
    finished = Signal(str, object)  # name, Path
    failed = Signal(str, str)  # name, one line
    terms_needed = Signal(str, object)  # name, fetch.known.Terms: ask, then start(accept_terms)

    def __init__(
        self, folder: Callable[[], Path | None] = lambda: None, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._folder = folder
        self.items: dict[str, Download] = {}
        self._stopping: dict[str, Literal["paused", "stopped"]] = {}  # read by fetching threads
        self._requests: dict[str, tuple[bool, bool]] = {}  # terms accepted, text only
        self._parts: dict[str, tuple[Path, ...]] = {}
        self._pages: dict[str, str] = {}  # of gated repositories
        self._turns = threading.BoundedSemaphore(AT_ONCE)
        self._measured: dict[str, tuple[float, int]] = {}  # when, at how many bytes

    def start(self, name: str, accept_terms: bool = False, text_only: bool = False) -> None:
        """Fetch, or resume; nothing while it runs already. With `text_only` the projector is left
        out.

        A model with terms of use is not fetched before they are accepted: `terms_needed`.
        """
        if name in self.items and self.items[name].state in ("running", "stopping"):
            return
        terms = KNOWN[name].terms if name in KNOWN else None
        if terms is not None and not accept_terms:
            self.terms_needed.emit(name, terms)
            return
        self.items[name] = Download(name, "running")
        self._requests[name] = accept_terms, text_only
        self._measured.pop(name, None)
        self._pages.pop(name, None)
        work = Work.polling(self._fetch, name, accept_terms, self._folder(), text_only)
        work.then(partial(self._on_done, name)).fail(partial(self._on_failed, name))
        work.progress(partial(self._on_progress, name)).start(self)
        log.info("fetching %s", name)
        self.changed.emit(name)

    def pause(self, name: str) -> None:
        """Stop; what came stays on disk for `resume`."""
        self._stop(name, "paused")

    def resume(self, name: str) -> None:
        """Start again as it was started, from where it stopped."""
        if name in self._requests:
            self.start(name, *self._requests[name])

    def cancel(self, name: str) -> None:
        """Stop, and delete what came."""
        self._stop(name, "stopped")
        if name in self.items and self.items[name].state in ("paused", "failed"):
            self._delete_parts(name)
            self._update(name, state="stopped", done=0, problem="", page="")

    def _stop(self, name: str, end: Literal["paused", "stopped"]) -> None:
        if name in self.items and self.items[name].state in ("running", "stopping"):
            self._stopping[name] = end
            self._update(name, state="stopping", left_s=None)

    def _fetch(
        self, job: Work, name: str, accept_terms: bool, folder: Path | None, text_only: bool
    ) -> Path:
        def stopped() -> bool:
            return job.cancelled or name in self._stopping

        def note_parts(parts: Sequence[Path]) -> None:
            self._parts[name] = tuple(parts)

        try:
            with self._turn(job, name, stopped):
                return fetch.fetch(
                    name, job.report, stopped, accept_terms, folder, text_only, note_parts
                )
        except fetch.GatedModel as error:
            self._pages[name] = error.page
            raise

    @contextmanager
    def _turn(self, job: Work, name: str, stopped: Callable[[], bool]) -> Iterator[None]:
        """Wait until fewer than AT_ONCE others are fetched; in the fetching thread."""
        while not self._turns.acquire(timeout=0.1):
            if stopped():
                raise fetch.FetchStopped(name)
            job.report(fetch.FetchProgress("waiting", 0, 0))
        try:
            yield
        finally:
            self._turns.release()

    def _delete_parts(self, name: str) -> None:
        for part in self._parts.pop(name, ()):
            fetch.forget(part)

    def _on_progress(self, name: str, progress: fetch.FetchProgress) -> None:
        item, now = self.items[name], monotonic()
        if item.stage != progress.stage or name not in self._measured:
            self._measured[name] = now, progress.done
            item = replace(item, rate=None)
        since, before = self._measured[name]
        rate = item.rate
        if now - since >= RATE_EVERY:
            newest = (progress.done - before) / (now - since)
            rate = newest if rate is None else rate + SMOOTHING * (newest - rate)
            self._measured[name] = now, progress.done
        left = (progress.total - progress.done) / rate if rate else None
        self._update(
            name,
            stage=progress.stage,
            done=progress.done,
            total=progress.total,
            rate=rate,
            left_s=left if item.state == "running" else None,
        )

    def _on_done(self, name: str, path: Path) -> None:
        self._stopping.pop(name, None)
        self._update(name, state="done", path=path, left_s=0.0)
        log.info("%s is at %s", name, path)
        self.finished.emit(name, path)

    def _on_failed(self, name: str, problem: str) -> None:
        end = self._stopping.pop(name, None)
        if end is not None:
            if end == "stopped":
                self._delete_parts(name)
            self._update(name, state=end, left_s=None)
            log.info("%s: %s", name, end)
        else:
            page = self._pages.get(name, "")
            self._update(name, state="failed", problem=problem, left_s=None, page=page)
            log.error("%s", problem)
            self.failed.emit(name, problem)

    def _update(self, name: str, **fields: Any) -> None:
        self.items[name] = replace(self.items[name], **fields)
        self.changed.emit(name)
