"""Banners above the talk: what went wrong, with the next step."""

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QUrl, Signal
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QWidget

from app.language import tr, tr_n
from app.state.problem import Problem
from app.state.talk.chats import ChatRow
from app.state.wanted import title_of
from app.state.workbench import Workbench
from app.theme.tokens import GRID, PADDING
from app.views.models.chooser_fetch import download_amount, download_title
from app.views.talk.statistics import stage_percent
from app.widgets.commands import Actions
from app.widgets.guard import SOURCE
from app.widgets.layouts import vbox
from app.widgets.numbers import grouped
from app.widgets.overlays import Banner

# What the button of a problem says, and the command behind it.
NEXT_STEPS = {
    "restart": (tr("Restart"), "engine.restart"),
    "restart_less": (tr("Restart with half the context"), "engine.restart_less"),
    "open": (tr("Choose a model"), "model.open"),
    "get": (tr("Download SmolLM2"), "model.get"),
    "copy": (tr("Copy and continue"), "chat.duplicate"),
    "retry": (tr("Try again"), "engine.restart"),
    "replace": (tr("Restart the engine"), "engine.restart"),
    "stop": (tr("Stop"), "chat.stop"),
}
MILD = ("Busy", "NoModel", "ReadOnly")  # problems by which nothing is lost
MOST = 4
# What is over when another chat is opened, or the next question sent.
PASSING = (
    *("exported", "message", "drop", "picture", "link", "report", "chat", "chats", "refused"),
    *("unexpected", "cancelled", "context"),
)
NEWS_MS, STEP_MS = 8_000, 20_000  # how long news stay, and those with a next step
MANY_MESSAGES = 500  # whose import takes long enough for a notice


class Notices(QWidget):
    """The banners; one of a kind, the oldest go first. Each leaves with its cause: what went wrong
    in a chat with that chat, news after some seconds.
    """

    details_wanted = Signal(str)  # of a problem, by its text: the log
    undo_changed = Signal()

    def __init__(self, bench: Workbench, commands: Actions[Any]) -> None:
        super().__init__()
        self._bench, self._commands = bench, commands
        self._banners: dict[str, Banner] = {}
        self._undo: dict[str, Callable[[], object]] = {}  # of those that offer it
        self._kinds: dict[str, str] = {}  # of problems, by their place
        self._column = vbox(on=self, margins=(PADDING, GRID, PADDING, GRID))
        self.hide()
        bench.session.changed.connect(self._session_changed)
        bench.client.silent.connect(self._engine_silent)
        bench.chat.problem.connect(lambda problem: self.problem("chat", problem))
        bench.chats.problem.connect(lambda problem: self.problem("chats", problem))
        bench.chats.deleted.connect(self._chat_deleted)
        bench.chats.exported.connect(self._exported)
        bench.chat.message_deleted.connect(self._message_deleted)
        bench.chats.transfer_changed.connect(self._transfer_changed)
        bench.downloads.failed.connect(self._download_failed)
        bench.downloads.changed.connect(self._download_changed)
        bench.session.stage_changed.connect(self._stage_changed)
        bench.session.refused.connect(lambda problem: self.problem("refused", problem))
        bench.preferences.tried.connect(self._preferences_saved)
        bench.session.opened.connect(self._model_opened)
        bench.session.cancelled.connect(lambda text: self.news("cancelled", text))
        bench.chat.opened.connect(self._drop_passing)
        bench.chat.message_added.connect(self._drop_passing)
        bench.chat.busy_changed.connect(self._busy_changed)
        bench.preferences.changed.connect(self._preference_changed)
        bench.log.appended.connect(self._log_appended)
        for line in bench.notices:
            self.show_banner(line, Banner("warn", line))
        self._folder_problem = bench.preferences.folder_problem
        self._session_changed()

    def problem(self, place: str, problem: Problem) -> None:
        """Show what went wrong there, in place of what went wrong there before."""
        words, command = NEXT_STEPS.get(problem.action, ("", ""))
        act = (lambda: self._act(place, command)) if command else None
        instead = None
        if problem.action == "restart":
            words_less, less = NEXT_STEPS["restart_less"]
            instead = (words_less, lambda: self._act(place, less))
        elif place == "session" and self._bench.session.previous is not None:
            name = title_of(self._bench.session.previous.path)
            instead = (tr("Back to {name}", name=name), self._bench.session.open_previous)
        first, _, rest = problem.text.partition(" ")  # a device keeps its name: pocl:0
        text = problem.text if ":" in first else f"{first[:1].upper()}{first[1:]} {rest}".rstrip()
        if problem.kind == "Picture" == self._kinds.get(place):  # several were given at once
            text = f"{self._banners[place].text}\n{text}"
        details = partial(self.details_wanted.emit, problem.text)
        self._kinds[place] = problem.kind
        tone = "warn" if problem.kind in MILD else "bad"
        self.show_banner(place, Banner(tone, text, words, act, details, instead=instead))

    def news(self, key: str, text: str, tone: str = "accent") -> None:
        """A line that leaves after some seconds, but for bad news."""
        self.show_banner(key, Banner(tone, text), 0 if tone == "bad" else NEWS_MS)

    def show_banner(self, key: str, banner: Banner, stays_ms: int = 0) -> None:
        """Show it in place of the one of that key; 0: until its cause is gone."""
        self.drop(key)
        if stays_ms:
            banner.leave_after(stays_ms)
        while len(self._banners) >= MOST:
            self.drop(next(iter(self._banners)))
        self._banners[key] = banner
        self._column.addWidget(banner)
        banner.closed.connect(lambda: self._closed(key, banner))
        self.show()

    def drop(self, key: str) -> None:
        """Take a banner away, if it is there."""
        if key in self._banners:
            self._banners[key].dismiss()

    @property
    def can_undo(self) -> bool:
        """True if a banner offers an undo."""
        return bool(self._undo)

    def undo(self) -> bool:
        """Do what the newest button called Undo does; False where there is none."""
        newest = next(reversed(self._undo.values()), None)
        if newest is not None:
            newest()
        return newest is not None

    @property
    def texts(self) -> list[str]:
        return [banner.text for banner in self._banners.values()]

    def progress(self, key: str, text: str, cancel: Callable[[], object]) -> None:
        """Show the progress of something; replaces its banner."""
        shown = self._banners.get(key)
        if shown is None:
            self.show_banner(key, Banner("accent", text, tr("Cancel"), cancel, closable=False))
        else:
            shown.set_text(text)

    def _act(self, place: str, command: str) -> None:
        self.drop(place)
        self._commands.run(command)

    def _closed(self, key: str, banner: Banner) -> None:
        if self._banners.get(key) is banner:
            del self._banners[key]
            self._kinds.pop(key, None)
            if self._undo.pop(key, None) is not None:
                self.undo_changed.emit()
            if key == "session" and self._bench.session.error is not None:
                self._bench.session.dismiss_error()
        self.setVisible(bool(self._banners))

    def _stage_changed(self) -> None:
        """Show the progress of a load in a banner, unless the welcome page shows it."""
        session = self._bench.session
        if session.status != "loading" or not self._bench.has_talk:
            self.drop("load")
        elif session.stage is not None and session.stage.total:
            percent = stage_percent(session.stage)
            text = (
                tr("Measuring the quality: {stage_percent}", stage_percent=percent)
                if session.measuring
                else tr(
                    "Opening {model_title}: {stage_percent}",
                    model_title=session.model_title,
                    stage_percent=percent,
                )
            )
            self.progress("load", text, session.cancel_load)

    def _download_changed(self, name: str) -> None:
        downloads = self._bench.downloads
        item = downloads.items[name]
        if item.state == "running":
            self.drop(name)  # why it failed before
        if item.state not in ("running", "stopping") or not self._bench.has_talk:
            self.drop(f"fetch {name}")
        else:
            how_far = download_amount(item)
            text = download_title(item) + (f": {how_far}" if how_far else " …")
            self.progress(f"fetch {name}", text, lambda: downloads.cancel(name))

    def _transfer_changed(self) -> None:
        """Show the progress of a long import or export of chats."""
        chats = self._bench.chats
        transfer = chats.transfer
        self.drop("chats")
        if transfer is None:
            self.drop("transfer")
        elif transfer.total >= MANY_MESSAGES:
            part = 100 * transfer.done // transfer.total
            self.progress("transfer", f"{transfer.what}: {part} %", chats.cancel_transfer)

    def _model_opened(self) -> None:
        self.drop("refused")
        self.drop("drop")  # of what the model before could not see
        session = self._bench.session
        model, requested = session.model, session.context_cut
        if model is not None and requested is not None:
            why = tr(", the model's maximum") if model.n_ctx >= model.n_ctx_train else ""
            text = tr(
                "Context is {n_ctx} tokens{why}; {wanted} were requested.",
                n_ctx=grouped(model.n_ctx),
                why=why,
                wanted=grouped(requested),
            )
            self.news("context", text, "warn")

    def _drop_passing(self) -> None:
        for key in PASSING:
            self.drop(key)

    def _busy_changed(self, busy: bool) -> None:
        if not busy and self._kinds.get("chat") == "Busy":
            self.drop("chat")

    def _preference_changed(self, field: str) -> None:
        if field == "models_folder" and not self._bench.preferences.folder_problem:
            self.drop(self._folder_problem)

    def _preferences_saved(self, problem: str) -> None:
        if not problem:
            self.drop("preferences")
        elif "preferences" not in self._banners:
            self.problem("preferences", Problem("NotSaved", problem))

    def _engine_silent(self, seconds: float) -> None:
        if seconds:
            text = tr(
                "The engine has not responded for {seconds:.0f} s. Wait, or restart it.",
                seconds=seconds,
            )
            self.problem("silent", Problem("Silent", text, "replace"))
        else:
            self.drop("silent")

    def _session_changed(self) -> None:
        self._stage_changed()
        if self._bench.session.status in ("died", "loading"):
            self.drop("silent")
        if self._bench.session.status == "loading":
            self.drop("refused")
            if self._kinds.get("chat") == "NoModel":
                self.drop("chat")
        if self._bench.session.model is None:
            self.drop("context")
        error = self._bench.session.error
        shown = self._banners.get("session")
        if error is None:
            self.drop("session")
        elif shown is None or shown.text != error.text:
            self.problem("session", error)

    def _log_appended(self, count: int) -> None:
        """Show that something inside the window failed; the log has the details."""
        lines = self._bench.log.lines[-count:]
        if any(line.source == SOURCE and line.level >= logging.ERROR for line in lines):
            text = tr("An error occurred. You can continue; details are in the log.")
            details = partial(self.details_wanted.emit, "")
            self.show_banner("unexpected", Banner("bad", text, details=details))

    def _chat_deleted(self, row: ChatRow) -> None:
        def undo() -> None:
            self.drop("deleted")
            self._bench.undo_delete_chat()

        self._offer_undo("deleted", tr("Deleted “{title}”.", title=row.title), undo)

    def _message_deleted(self, count: int) -> None:
        def undo() -> None:
            self.drop("message")
            self._bench.chat.undo_delete_message()

        text = tr_n("Deleted the message.", "Deleted {n} messages.", count)
        self._offer_undo("message", text, undo)

    def _offer_undo(self, key: str, text: str, undo: Callable[[], object]) -> None:
        self.show_banner(key, Banner("accent", text, tr("Undo"), undo), STEP_MS)
        self._undo[key] = undo
        self.undo_changed.emit()

    def _exported(self, path: Path) -> None:
        def show() -> None:
            QDesktopServices.openUrl(QUrl.fromLocalFile(str(path.parent)))

        text = tr("Exported to {name}.", name=path.name)
        self.show_banner("exported", Banner("good", text, tr("Show in folder"), show), STEP_MS)

    def _download_failed(self, name: str, problem: str) -> None:
        def again() -> None:
            self.drop(name)
            self._bench.downloads.start(name)

        details = partial(self.details_wanted.emit, problem)
        self.show_banner(name, Banner("bad", problem, tr("Try again"), again, details))
