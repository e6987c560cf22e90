"""The switch that has the open model answer other programs, and who is using it."""

import time

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QGuiApplication, QHideEvent, QShowEvent
from PySide6.QtWidgets import QCheckBox, QFormLayout, QLineEdit, QPlainTextEdit, QSpinBox, QWidget

from app.language import tr
from app.serve.clients import ServedRequest
from app.serve.settings import PORT
from app.state.workbench import Workbench
from app.theme import fonts
from app.theme.tokens import GRID, PADDING
from app.widgets.basics import Button, IconButton, divider, label, scrolled
from app.widgets.layouts import hbox, vbox
from app.widgets.lists.rows import Column, TableRows
from app.widgets.lists.table import Table
from app.widgets.numbers import grouped
from app.words import UNKNOWN

ABOUT = tr(
    "Editors, scripts and web interfaces can use the open model over the OpenAI,"
    " Anthropic and Ollama APIs. Only programs on this machine can connect, unless you allow"
    " others."
)
REFRESH_MS = 250
TABLE, TEXT = 160, 120  # pixels at normal text, at least
ENDS = {
    "": tr("answering"),
    "stop": tr("done"),
    "length": tr("maximum length"),
    "gone": tr("disconnected"),
}

COLUMNS = (
    Column[ServedRequest](tr("Client"), lambda r: r.client),
    Column[ServedRequest](tr("Path"), lambda r: r.path, quiet=True),
    Column[ServedRequest](
        tr("Time"),
        lambda r: time.strftime("%H:%M:%S", time.localtime(r.at)),
        lambda r: r.at,
        right=True,
    ),
    Column[ServedRequest](
        tr("Tokens"), lambda r: grouped(r.n_generated), lambda r: r.n_generated, right=True
    ),
    Column[ServedRequest](
        "t/s", lambda r: f"{r.rate:.0f}" if r.rate else UNKNOWN, lambda r: r.rate, right=True
    ),
    Column[ServedRequest](tr("State"), lambda r: ENDS.get(r.ended, r.ended), whole=True),
)


class ServingView(QWidget):
    """Shows `bench.serving`."""

    done = Signal()

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self.setAccessibleName(tr("Serve the model"))
        self._bench, self._state = bench, bench.serving
        self.switch = Button(tr("Start serving"), self._switch, "primary")
        self.port = QSpinBox()
        self.port.setRange(0, 65535)
        self.port.setValue(PORT)
        self.port.setAccessibleName(tr("Port; 0 picks a free one"))
        self.shared = QCheckBox(tr("Allow other machines, with the API key"))
        self.shared.setAccessibleName(self.shared.text())
        self.chats = QCheckBox(tr("Save the last 100 requests as chats"))
        self.chats.setAccessibleName(self.chats.text())
        self.chats.setChecked(bench.preferences.value.served_chats)
        self.chats.toggled.connect(lambda on: bench.preferences.update(served_chats=on))
        self.caption = label(wrap=True)
        self._problem = label(tone="bad", wrap=True)
        self.address = _CopiedText(tr("address"))
        self.key = _CopiedText(tr("key"))
        self.table = Table(TableRows(COLUMNS, self), tr("Requests"), stretch=(0,))
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.text.setTabChangesFocus(True)
        self.text.setAccessibleName(tr("Prompt and answer of the selected request"))
        self.text.setPlaceholderText(tr("Select a request to read its prompt and answer."))
        self._row: ServedRequest | None = None
        self.table.chosen.connect(self._choose)
        self._soon = QTimer(self, interval=REFRESH_MS)
        self._soon.timeout.connect(self._show_rows)
        self._lay_out()
        self.setFocusProxy(self.switch)
        self._state.changed.connect(self.refresh)
        self._state.moved.connect(self._show_text)
        bench.session.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Show whether it is on, and why not."""
        state, session = self._state, self._bench.session
        away = session.connection is not None
        here = session.model is not None and not away
        self.switch.set_text(tr("Stop serving") if state.is_on else tr("Start serving"))
        self.switch.setEnabled(not state.busy and (state.is_on or here))
        for chosen in (self.port, self.shared):
            chosen.setEnabled(not state.is_on and not state.busy)
        if state.is_on and here:
            text = tr("{model_title} is served at this address.", model_title=session.model_title)
        elif state.is_on:
            text = tr("Running, but no model is open: clients get 503.")
        elif state.busy:
            text = tr("One moment …")
        elif away:
            text = tr("This model runs on a server; connect other programs to that server.")
        else:
            text = tr("Not serving.") if here else tr("Open a model first.")
        self.caption.setText(text)
        self._problem.setText(state.problem)
        self._problem.setVisible(bool(state.problem))
        self.address.show_text(f"{state.address}/v1" if state.address else "")
        self.key.show_text(state.key)
        self._show_rows()

    def _switch(self) -> None:
        if self._state.is_on:
            self._state.stop()
        else:
            self._state.start(self.port.value(), self.shared.isChecked())

    def _show_rows(self) -> None:
        if self.isVisible():
            self.table.rows.show_rows(self._state.rows)
            self._show_text()

    def _choose(self, row: ServedRequest | None) -> None:
        self._row = row
        self._show_text()

    def _show_text(self) -> None:
        """The conversation of the chosen request, read only."""
        row = self._row
        kept = self._state.texts.get(row.number) if row is not None else None
        parts = []
        if kept is not None:
            parts = [f"{message.role}: {message.text}" for message in kept.conversation]
            parts.append(f"assistant: {kept.answer}")
        elif row is not None:
            parts = [tr("Only the latest requests are kept; this one was dropped.")]
        text = "\n\n".join(parts)
        if text != self.text.toPlainText():
            self.text.setPlainText(text)

    def _lay_out(self) -> None:
        head = hbox(
            (label(tr("Serve the model"), size="strong"), 1),
            IconButton("close", tr("Close serving"), self.done.emit, 16),
            margins=(PADDING, GRID, GRID, GRID),
        )
        form = QFormLayout()
        form.setRowWrapPolicy(QFormLayout.RowWrapPolicy.WrapLongRows)
        form.setHorizontalSpacing(2 * GRID)
        form.setVerticalSpacing(GRID)
        form.addRow(label(tr("Port"), "quiet"), self.port)
        form.addRow(self.shared)
        form.addRow(self.chats)
        line = hbox((self.switch, Qt.AlignmentFlag.AlignTop), (self.caption, 1), spacing=2 * GRID)
        self.table.setMinimumHeight(fonts.px(TABLE))
        self.text.setMinimumHeight(fonts.px(TEXT))
        body = QWidget()
        vbox(
            label(ABOUT, "quiet", wrap=True),
            form,
            line,
            self._problem,
            self.address,
            self.key,
            divider(),
            (self.table, 3),
            (self.text, 2),
            on=body,
            margins=PADDING,
        )
        vbox(head, divider(), (scrolled(body), 1), on=self, spacing=0)

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        super().showEvent(event)
        self._soon.start()
        self.refresh()

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        super().hideEvent(event)
        self._soon.stop()


class _CopiedText(QWidget):
    """A line of text with a button that copies it; nothing where it is empty."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self._what = what
        self.text = QLineEdit()  # what is too long is scrolled
        self.text.setReadOnly(True)
        self.copy = Button(
            tr("Copy"), self._copy, picture="copy", name=tr("Copy the {what}", what=what)
        )
        row = hbox((label(what.capitalize(), "quiet"), 1), self.copy)
        vbox(row, self.text, on=self, spacing=4)

    def show_text(self, text: str) -> None:
        self.text.setText(text)
        self.text.setCursorPosition(0)
        self.text.setAccessibleName(tr("{what} of the server", what=self._what.capitalize()))
        self.setVisible(bool(text))

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self.text.text())
