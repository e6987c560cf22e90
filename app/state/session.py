"""The engine session: which model is open, what it is doing, how fast."""

from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from PySide6.QtCore import QObject, Signal

from app.client import EngineClient
from app.state.problem import Problem
from engine.protocol import Loaded
from engine.settings import EngineOptions

Status = Literal["idle", "loading", "ready", "answering", "failed", "died"]


@dataclass(frozen=True)
class Stage:
    """How far a stage is (`load`, `compile`, `prefill`); `left_s` estimates the seconds left."""

    name: str
    done: int
    total: int
    left_s: float | None


@dataclass(frozen=True)
class Vitals:
    """The answer under way or the last one: tokens a second now, seconds to the first token."""

    rate: float | None = None
    first_token_s: float | None = None
    n_generated: int = 0
    n_context: int | None = None


class Session(QObject):
    """Status, model, options, stage, vitals and error of the one engine."""

    changed = Signal()  # status, model, options or error
    stage_changed = Signal()  # at most once a frame
    vitals_changed = Signal()  # at most once a frame

    client: EngineClient
    status: Status
    model: Loaded | None
    path: Path | None  # of the model that is open or being opened
    options: EngineOptions
    stage: Stage | None
    vitals: Vitals
    rates: deque[float]  # tokens a second of the last 60 seconds, one a second while answering
    error: Problem | None  # why status is failed or died

    def __init__(self, client: EngineClient, parent: QObject | None = None) -> None:
        super().__init__(parent)

    def open(self, path: str | Path, options: EngineOptions | None = None) -> None:
        """Load a model in place of the one before."""

    def unload(self) -> None: ...

    def cancel_load(self) -> None: ...

    def restart(self, less: bool = False) -> None:
        """A fresh process with the same model, or with half its context."""

    def dismiss_error(self) -> None:
        """Forget the error; the status becomes idle or ready."""
