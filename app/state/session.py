"""The engine session: which model is open, what it is doing, how fast."""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Literal

from PySide6.QtCore import QObject, Signal

from app.client import EngineClient, PendingRequest
from app.language import tr
from app.remote.connection import Connection, ServerAddress
from app.state.problem import Problem
from app.state.wanted import Wanted, name_of, scaled, title_of
from app.translated import in_language
from engine.errors import CutawayError
from engine.protocol import (
    Failed,
    Finished,
    Loaded,
    Piece,
    Progress,
    R,
    Request,
    StageName,
    Unloaded,
)
from engine.settings import EngineOptions

SMALLEST_CTX = 512
UNKNOWN_CTX = 4096  # halved when a model that never opened is to take less
AT_ONCE = 2  # chats that are answered at once
ANSWER_ROOM = 512  # tokens of an answer for which a longer context has room
HISTORY = 60  # measured rates that are kept
RATE_EVERY = 1.0  # seconds over which a rate is measured

Status = Literal["idle", "loading", "ready", "answering", "failed", "died"]

log = logging.getLogger("engine")


@dataclass(frozen=True)
class StageProgress:
    """How far a stage is (`load`, `compile`, `prefill`); `left_s` estimates the seconds left.

    `total` is 0 until the engine has reported it. `picture`, `view`, `block` and `note` are as in
    `Progress`.
    """

    name: StageName
    done: int
    total: int
    left_s: float | None
    picture: tuple[int, int] | None = None
    view: tuple[int, int] | None = None
    block: tuple[int, int] | None = None
    note: str = ""


@dataclass(frozen=True)
class PastStage:
    """A stage that is over, and the seconds it took."""

    name: StageName
    seconds: float


@dataclass(frozen=True)
class AnswerSpeed:
    """The answer under way or the last one: tokens per second, seconds to the first token."""

    rate: float | None = None
    first_token_s: float | None = None
    n_generated: int = 0
    n_context: int | None = None


class Session(QObject):
    """Status, model, options, stage, vitals and error of the one engine. `past_stages` are those
    that the answer under way has behind it.

    `path` is of the model that is open or being opened, `connection` of its server where it is
    elsewhere (then the path is not a file: `app.remote.connection`), `error` says why the status is
    failed or died, `rates` are tokens per second, one value per second of answering. An open
    model is given up only for a file whose header was read and holds, or a server that answers;
    where loading that fails all the same, `previous` is the model that `open_previous` brings back.
    """

    changed = Signal()  # status, model, options or error
    opened = Signal()  # a model was loaded
    refused = Signal(object)  # Problem of a file; the model that was open still is
    given_up = (
        Signal()
    )  # a load that was refused or cancelled, before another model takes its place
    cancelled = Signal(str)  # a sentence: which load was cancelled, what is open now
    stage_changed = Signal()  # at most once a frame
    vitals_changed = Signal()  # at most once a frame

    def __init__(self, client: EngineClient, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.client = client
        self.status: Status = "idle"
        self.model: Loaded | None = None
        self.path: Path | None = None
        self.options = EngineOptions()
        self.connection: Connection | None = None
        self.stage: StageProgress | None = None
        self.past_stages: list[PastStage] = []
        self.vitals = AnswerSpeed()
        self.rates: deque[float] = deque(maxlen=HISTORY)
        self.error: Problem | None = None
        self.previous: Wanted | None = None
        self._kept: Wanted | None = None  # what is open while another file is checked
        self._check: Callable[[], object] | None = None  # ends the check that runs
        self._n_ctx: int | None = None  # of the model at `path` when it was open last
        self._loading: PendingRequest | None = None
        self._answers: dict[PendingRequest, int] = {}  # tokens; of the last speeds are shown
        self._sent_at = self._stage_began = self._counted_at = 0.0
        self._counted = 0
        client.on(Loaded, self._on_loaded_again)
        client.on(Unloaded, self._on_unloaded)
        client.died.connect(self._on_died)

    @property
    def model_name(self) -> str:
        """The file's name without its ending, or the model's and its server's; empty for none."""
        return name_of(self.path)

    @property
    def model_title(self) -> str:
        """How the model is called where people read; empty where none is known."""
        return title_of(self.path)

    @property
    def adapters_title(self) -> str:
        """Return the titles of the model's adapters; empty for none."""
        adapters = self.model.adapters if self.model is not None else []
        return ", ".join(scaled(one.path, one.scale) for one in adapters)

    @property
    def context_cut(self) -> int | None:
        """The tokens of context that were requested, where the model took fewer."""
        requested = self.options.ctx
        return (
            requested
            if self.model is not None and requested and self.model.n_ctx < requested
            else None
        )

    def longer_context(self, needed: int) -> int | None:
        """A context for a prompt of so many tokens and its answer with which the open file can be
        loaded again; None where the model was made for fewer, or the memory took fewer.
        """
        model = self.model
        if model is None or self.connection is not None or self.context_cut is not None:
            return None
        longer = min(1 << (needed + ANSWER_ROOM - 1).bit_length(), model.n_ctx_train)
        return longer if longer > max(needed, model.n_ctx) else None

    def open(self, path: str | Path, options: EngineOptions | None = None) -> None:
        """Load a model in place of the one before, which stays where the file is broken."""
        self._open(Wanted(Path(path), options or EngineOptions(parallel=AT_ONCE)))

    def open_server(self, connection: Connection, model: str) -> None:
        """Chat with a model of a server instead; the one before stays where that does not answer,
        until it does.
        """
        self._open(Wanted(ServerAddress(connection.name, model).path, connection=connection))

    def _open(self, wanted: Wanted) -> None:
        if self.model is None:
            self._load(wanted)
            return
        if self._check is not None:
            self._check()
        else:
            self._kept = self._now
        self._check = wanted.check(self.client, self, self._checked, self._refuse)
        self._take(wanted)
        self.error = None
        self._set("loading", StageProgress("load", 0, 0, None))

    @property
    def _now(self) -> Wanted | None:
        return None if self.path is None else Wanted(self.path, self.options, self.connection)

    def _take(self, wanted: Wanted) -> None:
        self.path, self.options = wanted.path, wanted.options
        self.connection = wanted.connection

    def open_previous(self) -> None:
        """Load again what was open before a load that failed."""
        if self.previous is not None:
            self._load(self.previous)

    def _checked(self, wanted: Wanted) -> None:
        self.previous, self._kept, self._check = self._kept, None, None
        self._load(wanted)

    def _refuse(self, problem: str) -> None:
        self.given_up.emit()
        self._keep()
        log.error("%s", problem)
        self.refused.emit(Problem("BadFile", problem, "open"))

    def _keep(self) -> None:
        """Stay with the model that is open."""
        assert self._kept is not None
        self._take(self._kept)
        self._kept = self._check = None
        self._set("answering" if self._answers else "ready")

    def _forget_check(self) -> None:
        if self._check is not None and self._kept is not None:
            self._check()
            self._take(self._kept)
        self._check = self._kept = None

    def _load(self, wanted: Wanted) -> None:
        if wanted.path != self.path:
            self._n_ctx = None
        self._take(wanted)
        self.model = self.error = None
        self.vitals = AnswerSpeed()  # another model has other speeds
        self.rates.clear()
        self.vitals_changed.emit()
        self._loading = self.client.open(wanted.request, self._on_loaded, self._on_load_failed)
        self._loading.progress.connect(self._on_progress)
        self._set("loading", StageProgress("load", 0, 0, None))
        log.info("opening %s", self.path)

    def measure(
        self, request: Request[R], then: Callable[[R], None], fail: Callable[[Failed], None]
    ) -> PendingRequest:
        """Send a request that closes the model, which is opened again once it has ended."""
        self._forget_check()
        self.model = self.error = self.previous = None
        pending = self._loading = self.client.open(request, then, fail)

        def end(_: object) -> None:
            if pending is not self._loading:
                return
            self._loading = None
            if self._now is not None:
                self._load(self._now)
            else:
                self._set("idle")

        pending.ended.connect(end)
        pending.progress.connect(self._on_progress)
        self._set("loading", StageProgress("load", 0, 0, None))
        return pending

    @property
    def measuring(self) -> bool:
        """True while `measure` has the engine."""
        return self._loading is not None and self._loading.ends is not Loaded

    def take_moved(self, loaded: Loaded, options: EngineOptions) -> None:
        """The open model has other options now: its layers were moved."""
        if self.model is not None:
            self.model, self.options = loaded, options
            self.changed.emit()

    def unload(self) -> None:
        """Close the model."""
        self._forget_check()
        self.previous = None
        self.model = self.error = self.path = self.connection = self._loading = None
        self.client.unload()
        self._set("idle")

    def cancel_load(self) -> None:
        """Stop loading. The model before stays open, or is open again."""
        if self._check is not None:
            name = self.model_title
            self._check()
            self.given_up.emit()
            self._keep()
            self.cancelled.emit(
                tr(
                    "Opening {name} was cancelled. {model_title} stays open.",
                    name=name,
                    model_title=self.model_title,
                )
            )
        elif self._loading is not None:
            self._loading.cancel()

    def _load_cancelled(self) -> None:
        """Go back to the model before, if there was one."""
        name, before, self.previous = self.model_title, self.previous, None
        self.given_up.emit()
        if before is not None:
            self._load(before)
            then = tr("{model_title} is open again.", model_title=self.model_title)
        else:
            self.path = self.connection = None
            self._set("idle")
            then = tr("No model is open.")
        self.cancelled.emit(tr("Opening {name} was cancelled. {then}", name=name, then=then))

    def restart(self, less: bool = False) -> None:
        """A fresh process with the same model, or with half its context."""
        self._forget_check()
        if less:
            known = self._n_ctx or self.options.ctx or UNKNOWN_CTX
            self.options = replace(self.options, ctx=max(SMALLEST_CTX, known // 2))
        self._loading = self.model = None
        self._answers.clear()
        self.client.restart()
        if self._now is not None:
            self._load(self._now)
        else:
            self.error = None
            self._set("idle")

    def dismiss_error(self) -> None:
        """Forget the error; the status becomes idle."""
        self.error = self.previous = None
        if self.status in ("failed", "died"):
            self._set("idle")

    def expect_answer(self) -> None:
        """An answer begins with its stages."""
        self.past_stages = []

    def show_stage(self, name: StageName) -> None:
        """Show a stage that runs before an answer is requested."""
        if self.stage is None or self.stage.name != name:
            self._set_stage(StageProgress(name, 0, 0, None))

    def begin_answer(self, request: PendingRequest) -> None:
        """Follow an answer that was requested: its stages, its speed, its end."""
        self._answers[request] = 0
        request.progress.connect(self._on_progress)
        request.pieces.connect(partial(self._on_pieces, request))
        request.ended.connect(partial(self._on_answered, request))
        self._sent_at = self._counted_at = monotonic()
        self._counted = 0
        self.vitals = AnswerSpeed()
        self._set("answering", StageProgress("prefill", 0, 0, None))
        self.vitals_changed.emit()

    def _set(self, status: Status, stage: StageProgress | None = None) -> None:
        self.status = status
        self._set_stage(stage)
        self.changed.emit()

    def _set_stage(self, stage: StageProgress | None) -> None:
        if stage != self.stage:
            self._note_past(stage)
            self.stage, self._stage_began = stage, monotonic()
            self.stage_changed.emit()

    def _note_past(self, then: StageProgress | None) -> None:
        """Keep how long the stage took that ends here."""
        now = self.stage
        counts = now is not None and (now.total > 0 or now.name == "decode")
        if now is not None and counts and (then is None or then.name != now.name):
            self.past_stages.append(PastStage(now.name, monotonic() - self._stage_began))

    def _on_progress(self, progress: Progress) -> None:
        shown = (self._loading, *list(self._answers)[-1:])
        if not any(pending is not None and pending.id == progress.id for pending in shown):
            return
        now = monotonic()
        if self.stage is None or self.stage.name != progress.stage:
            self._note_past(StageProgress(progress.stage, 0, 0, None))
            self._stage_began = now
        took = now - self._stage_began
        known = progress.done > 0 and took > 0.2
        left = took / progress.done * (progress.total - progress.done) if known else None
        self.stage = StageProgress(
            progress.stage,
            progress.done,
            progress.total,
            left,
            progress.picture,
            progress.view,
            progress.block,
            progress.note,
        )
        self.stage_changed.emit()

    def _on_loaded_again(self, loaded: Loaded) -> None:
        if not loaded.id and self.status == "died":  # whoever owns the engine has restarted it
            self._take_loaded(loaded)

    def _on_loaded(self, loaded: Loaded) -> None:
        if self._loading is not None and loaded.id == self._loading.id:
            self._take_loaded(loaded)

    def _take_loaded(self, loaded: Loaded) -> None:
        self._loading, self.model, self.error = None, loaded, None
        self._n_ctx, self.previous = loaded.n_ctx, None
        for line in loaded.details:
            log.info("%s", line)
        log.info("%s is open on %s, %d tokens of context", loaded.name, loaded.device, loaded.n_ctx)
        for note in loaded.notes:
            log.warning("%s", note)
        self._set("ready")
        self.opened.emit()

    def _on_unloaded(self, unloaded: Unloaded) -> None:
        log.info("no model is open")

    def _on_pieces(self, request: PendingRequest, pieces: Sequence[Piece]) -> None:
        n_new = sum(len(piece.tokens) for piece in pieces)
        if request in self._answers:
            self._answers[request] += n_new
        if request not in list(self._answers)[-1:]:
            return
        now, vitals = monotonic(), self.vitals
        if not n_new and not self.client.abilities.ids:  # a server that sends no tokens
            n_new = len(pieces)
        n = vitals.n_generated + n_new
        first = vitals.first_token_s if vitals.n_generated else now - self._sent_at
        rate = vitals.rate
        if not n:  # only what was there already
            return
        self._set_stage(None)
        if not vitals.n_generated:
            self._counted, self._counted_at = n, now
        elif now - self._counted_at >= RATE_EVERY:
            rate = (n - self._counted) / (now - self._counted_at)
            self._counted, self._counted_at = n, now
            self.rates.append(rate)
        elif rate is None and n > self._counted:
            rate = (n - self._counted) / max(now - self._counted_at, 1e-3)
        self.vitals = AnswerSpeed(rate, first, n)
        self.vitals_changed.emit()

    def _on_answered(self, request: PendingRequest, reply: Finished | Failed) -> None:
        if request not in self._answers:
            return  # of an engine that has died
        n_shown = self._answers.pop(request)
        if isinstance(reply, Finished):
            self._show_finished(reply, n_shown or reply.stats.n_generated)
        elif reply.kind != "Cancelled":
            log.error("%s", reply.message)
        if self.status == "answering" and not self._answers:
            self._set("ready")

    def _show_finished(self, finished: Finished, n_shown: int) -> None:
        """Show an answer's speed; the log counts the tokens that the message has, not the one which
        ended it.
        """
        stats = finished.stats
        self.vitals = AnswerSpeed(
            stats.decode_rate or None,
            stats.first_token_s if stats.n_generated else None,
            stats.n_generated,
            stats.n_context,
        )
        if stats.n_generated > 1:
            self.rates.append(stats.decode_rate)
        self.vitals_changed.emit()
        log.info(
            "answer ended (%s): %d token%s, %.1f t/s",
            finished.reason,
            n_shown,
            "s" * (n_shown != 1),
            stats.decode_rate,
        )

    def _on_load_failed(self, failed: Failed) -> None:
        if self._loading is None or failed.id != self._loading.id:
            return
        self._loading = None
        if failed.kind == "Cancelled":
            self._load_cancelled()
            return
        log.error("%s", failed.message)
        actions = {"NoMem": "restart_less", "BadFile": "open", "ServerFailed": "retry"}
        action = actions.get(failed.kind, "")
        self.error = Problem(failed.kind, failed.message, action)
        self._set("failed")

    def _on_died(self, error: CutawayError) -> None:
        log.error("%s", error)
        self._forget_check()
        self._loading = self.model = None
        self._answers.clear()
        self.vitals = AnswerSpeed()
        self.vitals_changed.emit()
        self.error = Problem(error.kind, in_language(str(error)), "restart")
        self._set("died")
