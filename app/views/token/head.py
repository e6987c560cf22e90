"""Which word is looked at, how to go to others, and what is going on."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QToolButton, QWidget

from app import names
from app.language import tr
from app.state.problem import Problem
from app.state.wanted import title_of
from app.state.workbench import Workbench
from app.theme.tokens import GRID
from app.views.token.section import BETWEEN, shown
from app.widgets.basics import Button, IconButton, label, set_tone
from app.widgets.controls.elided import ElidedLabel
from app.widgets.layouts import hbox, vbox
from app.widgets.numbers import grouped
from app.widgets.tips import set_tip

COST = tr(
    "Inspects each new token during the answer, which makes answers up to 10 % slower; tokens"
    " that arrive too fast are skipped"
)
NOTHING = tr("Click a word in the chat to see how the model computed it.")


class TokenHead(QWidget):
    """`copy_text` and `toggle_table` are what its buttons do."""

    def __init__(
        self,
        bench: Workbench,
        copy_text: Callable[[], object],
        toggle_table: Callable[[], object],
    ) -> None:
        super().__init__()
        self._bench, self._state = bench, bench.token
        state = self._state
        self.before = IconButton("chevron-left", tr("Previous token"), lambda: state.step(-1), 16)
        self.after = IconButton("chevron-right", tr("Next token"), lambda: state.step(1), 16)
        self.place = ElidedLabel()  # the word itself stands in the line of the selection
        self.place.setProperty("letters", "strong")
        self.live = QToolButton()
        self.live.setText(tr("Live"))
        self.live.setCheckable(True)
        self.live.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.live.clicked.connect(lambda: state.toggle_live())
        self.newest = Button(tr("Latest token"), state.follow, "link")
        self.text = IconButton("copy", tr("Copy as text"), copy_text)
        self.switch = IconButton("table", tr("Show as tables (Ctrl+T)"), toggle_table)
        self.about = label("", "quiet", "small", wrap=True)
        self.why = Button(tr("What causes this word?"), bench.causes.begin, "link")
        self.detail = label("", "quiet", wrap=True)
        self.act = Button("", self._act, "link")
        self._does: Callable[[], object] = state.send
        self._lay_out()

    def refresh(self) -> None:
        """Show the word and the status as they are now."""
        state, word = self._state, self._state.word
        self.place.setText(self._place())
        self.place.setAccessibleName(self.caption)
        self.before.setEnabled(word is not None and word.index > 0)
        self.after.setEnabled(word is not None and word.index + 1 < state.count)
        self.live.setChecked(state.live)
        self.live.setAccessibleName(
            tr("Live view {value}", value=tr("on") if state.live else tr("off"))
        )
        set_tip(self.live, tr("{cost} (Ctrl+L)", cost=COST))
        self.newest.setVisible(state.can_follow)
        self.why.setVisible(self._bench.causes.can_begin and not self._bench.chat.busy)
        self.about.setText(self._about())
        self.about.setVisible(bool(self.about.text()))
        self._show_status()

    def show_table(self, as_table: bool) -> None:
        """Which way the switch leads."""
        words = tr("charts") if as_table else tr("tables")
        self.switch.set_picture(
            "chart" if as_table else "table", tr("Show as {words} (Ctrl+T)", words=words)
        )

    @property
    def caption(self) -> str:
        """The word with its message, as pictures and texts begin."""
        word = self._state.word
        text = f"“{shown(word.text)}”" if word is not None else ""
        return BETWEEN.join(part for part in (text, self._place(), self._about()) if part)

    def _place(self) -> str:
        """Which word of which message is looked at."""
        word = self._state.word
        row = self._bench.chat.row_of(word.message) if word is not None else None
        if word is None or row is None:
            return tr("No token selected")
        message = self._bench.chat.path[row]
        user = message.role == "user"
        whose = tr("your message") if user else names.title(message.model) or tr("the answer")
        return tr("Token {index} of {owner}", index=grouped(word.index + 1), owner=whose)

    def _about(self) -> str:
        """What was computed for the word."""
        state, word = self._state, self._state.word
        if word is None:
            return tr(
                "{nothing} Live is {value}: {cost}.",
                nothing=NOTHING,
                value=tr("on") if state.live else tr("off"),
                cost=COST.lower(),
            )
        parts = []
        inside = state.inside
        if inside is not None and inside.context is not None:
            parts.append(tr("after {n_context} tokens", n_context=grouped(inside.n_context)))
            if inside.n_computed > 1:
                parts.append(
                    tr("{n_computed} of them recomputed", n_computed=grouped(inside.n_computed))
                )
            if inside.note:
                parts.append(inside.note)
        return BETWEEN.join(parts)

    def _show_status(self) -> None:
        questions = self._state.questions
        text, words, tone = "", "", "quiet"
        if questions.problem is not None:
            text, words, tone = self._problem(questions.problem)
        elif questions.status == "slow":
            text, words = tr("Computing…"), tr("Cancel")
            if self._state.waits:
                text = tr("Waiting for the current answer…")
            self._does = questions.cancel
        self.detail.setText(text)
        set_tone(self.detail, tone)
        self.act.set_text(words or "–")
        self.act.setVisible(bool(words))
        self.detail.setVisible(bool(text))

    def _problem(self, problem: Problem) -> tuple[str, str, str]:
        if problem.action == "restart":
            self._does = self._bench.session.restart
            return problem.text, tr("Restart"), "warn"
        if problem.action == "retry":
            self._does = self._state.send
            return problem.text, tr("Inspect again"), "quiet"
        wrote = self._writer() if problem.action in ("open", "open_model") else None
        if wrote is not None:
            self._does = partial(self._bench.open_model, wrote)
            return problem.text, tr("Open {title_of}", title_of=title_of(wrote)), "quiet"
        calm = ("NoModel", "Loading", "Unable", "OtherModel", "NotRead")
        return problem.text, "", "quiet" if problem.kind in calm else "bad"

    def _writer(self) -> Path | None:
        """The model that wrote the word, if it is still known where that is."""
        word = self._state.word
        row = self._bench.chat.row_of(word.message) if word is not None else None
        return None if row is None else self._bench.path_of(self._bench.chat.path[row].model)

    def _act(self) -> None:
        self._does()

    def _lay_out(self) -> None:
        line = hbox(
            self.before,
            self.after,
            GRID // 2,
            (self.place, 1),
            self.newest,
            self.live,
            self.text,
            self.switch,
            spacing=GRID // 2,
        )
        status = hbox((self.detail, 1), self.act, spacing=GRID)
        about = hbox((self.about, 1), (self.why, Qt.AlignmentFlag.AlignTop), spacing=GRID)
        vbox(line, about, status, on=self, spacing=GRID // 2)
