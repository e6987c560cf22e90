"""Fetches under way and their ends."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from PySide6.QtCore import QObject, Signal


@dataclass(frozen=True)
class Download:
    """One fetch. Bytes; `rate` bytes a second; `left_s` seconds, None while unknown."""

    name: str
    state: Literal["running", "stopping", "stopped", "failed", "done"]
    stage: str = "download"
    done: int = 0
    total: int = 0
    rate: float = 0.0
    left_s: float | None = None
    path: Path | None = None
    problem: str = ""


class Downloads(QObject):
    """All fetches of this run, in the order they were asked for."""

    changed = Signal(str)  # name; at most ten times a second while running
    finished = Signal(str, object)  # name, Path
    failed = Signal(str, str)  # name, one line
    terms_needed = Signal(str, object)  # name, fetch.known.Terms: ask, then start(accept_terms)

    items: dict[str, Download]

    def start(self, name: str, accept_terms: bool = False) -> None:
        """Fetch, or go on where it stopped; nothing while it runs already."""

    def cancel(self, name: str) -> None:
        """Stop; what came stays on disk for the next start."""
