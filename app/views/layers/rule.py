"""The placement as a rule: typed, or copied as flags."""

import shlex

from PySide6.QtCore import QTimer, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QWidget

from app.language import tr
from app.state.layers.layers import LayersState
from app.theme.tokens import GRID
from app.widgets.basics import Button, label
from app.widgets.controls.growing_edit import GrowingEdit
from app.widgets.layouts import hbox, vbox

MARGIN = 6
WAIT_MS = 200  # after the last letter, before the request


class RuleField(QWidget):
    """Shows `state.draft`'s rule, or what was typed and is not understood, with what is wrong.

    Enter sends it at once; Esc brings the rule back that counts.
    """

    copied = Signal(str)  # what was copied, in a sentence
    refused = Signal()  # what is wrong is to be seen

    def __init__(self, state: LayersState) -> None:
        super().__init__()
        self._state = state
        self.field = GrowingEdit(tr("Placement rule"), takes_escape=True)
        self.field.setProperty("plain", "false")
        self.field.document().setDocumentMargin(MARGIN)
        self.field.set_placeholder(tr("Automatic. Or type a rule: 0-11=intel:0, out=host"))
        self.field.textChanged.connect(self._typed)
        self.field.submitted.connect(self._submit)
        self.field.cancelled.connect(self._forget)
        self.wrong = label(tone="bad", wrap=True)
        self.wrong.hide()
        self.place = Button("--place", self.copy_place, "flat", "copy", tr("Copy as --place"))
        self.llama_cpp = Button(
            "llama.cpp", self.copy_llama_cpp, "flat", "copy", tr("Copy for llama.cpp")
        )
        head = hbox((label(tr("Rule"), "quiet"), 1), self.place, self.llama_cpp, spacing=GRID // 2)
        vbox(head, self.field, self.wrong, on=self, spacing=GRID // 2)
        self._soon = QTimer(self, singleShot=True, interval=WAIT_MS)
        self._soon.timeout.connect(self._send)
        self._showing = False
        self.refresh()

    def refresh(self) -> None:
        """Show the rule as it is now, unless somebody is typing another."""
        state = self._state
        if self.wrong.text() != state.typed.problem:
            self.wrong.setText(state.typed.problem)
            self.wrong.setVisible(bool(state.typed.problem))
            if state.typed.problem:  # laid out first
                QTimer.singleShot(0, self, self.refused.emit)
        self.setEnabled(state.file is not None)
        known = state.answer is not None and not state.pending
        self.place.setEnabled(known)
        self.llama_cpp.setEnabled(known)
        wanted = state.typed.text or state.draft.rule
        if not self._soon.isActive() and self.field.text.strip() != wanted.strip():
            self._showing = True
            self.field.set_text(wanted)
            self._showing = False

    def copy_place(self) -> None:
        """`--place` with the whole placement."""
        state = self._state
        if state.answer is not None:
            rule = state.draft.rule or state.answer.rule
            self._copy(f"--place {shlex.quote(rule)}", tr("Copied as --place."))

    def copy_llama_cpp(self) -> None:
        """llama.cpp's flags."""
        answer = self._state.answer
        if answer is not None:
            notes = "".join(f" {note}." for note in answer.llama_cpp_notes)
            self._copy(answer.llama_cpp, tr("Copied for llama.cpp.{notes}", notes=notes))

    def _copy(self, text: str, announced: str) -> None:
        QGuiApplication.clipboard().setText(text)
        self.copied.emit(announced)

    def _typed(self) -> None:
        if not self._showing:
            self._soon.start()

    def _send(self) -> None:
        self._soon.stop()
        self._state.type_rule(self.field.text)

    def _submit(self) -> None:
        """What is typed after Enter is a step of its own."""
        self._send()
        self._state.end_typing()

    def _forget(self) -> None:
        self._soon.stop()
        self._state.forget_typed()
