"""Fetches under way and their ends."""

import logging
from collections.abc import Callable
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
SMOOTHING = 0.4  # weight of the newest rate

log = logging.getLogger("fetch")


@dataclass(frozen=True)
class Download:
    """One fetch. Bytes; `rate` bytes per second; `left_s` seconds, None while unknown."""

    name: str
    state: Literal["running", "stopping", "stopped", "failed", "done"]
    stage: str = "download"
    done: int = 0
    total: int = 0
    rate: float | None = None
    left_s: float | None = None
    path: Path | None = None
    problem: str = ""


class Downloads(QObject):
    """All fetches of this run, in the order they were asked for.

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
        self._stopping: set[str] = set()  # looked at by the fetching threads
        self._measured: dict[str, tuple[float, int]] = {}  # when, at how many bytes

    def start(self, name: str, accept_terms: bool = False) -> None:
        """Fetch, or go on where it stopped; nothing while it runs already.

        A model with terms of use is not fetched before they are accepted: `terms_needed`.
        """
        if name in self.items and self.items[name].state in ("running", "stopping"):
            return
        terms = KNOWN[name].terms if name in KNOWN else None
        if terms is not None and not accept_terms:
            self.terms_needed.emit(name, terms)
            return
        self.items[name] = Download(name, "running")
        self._measured.pop(name, None)
        work = Work.polling(self._fetch, name, accept_terms, self._folder())
        work.then(partial(self._on_done, name)).fail(partial(self._on_failed, name))
        work.progress(partial(self._on_progress, name)).start(self)
        log.info("fetching %s", name)
        self.changed.emit(name)

    def cancel(self, name: str) -> None:
        """Stop; what came stays on disk for the next start."""
        if name in self.items and self.items[name].state == "running":
            self._stopping.add(name)
            self._update(name, state="stopping", left_s=None)

    def _fetch(self, job: Work, name: str, accept_terms: bool, folder: Path | None) -> Path:
        def stopped() -> bool:
            return job.cancelled or name in self._stopping

        return fetch.fetch(name, job.report, stopped, accept_terms, folder)

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
        self._stopping.discard(name)
        self._update(name, state="done", path=path, left_s=0.0)
        log.info("%s is at %s", name, path)
        self.finished.emit(name, path)

    def _on_failed(self, name: str, problem: str) -> None:
        if name in self._stopping:
            self._stopping.discard(name)
            self._update(name, state="stopped", left_s=None)
            log.info("%s: stopped", name)
        else:
            self._update(name, state="failed", problem=problem, left_s=None)
            log.error("%s", problem)
            self.failed.emit(name, problem)

    def _update(self, name: str, **fields: Any) -> None:
        self.items[name] = replace(self.items[name], **fields)
        self.changed.emit(name)
