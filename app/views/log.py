"""The log: every line, filtered by level, source and words."""

import logging

from PySide6.QtWidgets import QComboBox, QPlainTextEdit, QWidget

from app.language import tr
from app.state.log import LogLine, LogState
from app.theme import fonts
from app.theme.tokens import PADDING
from app.widgets.basics import Button
from app.widgets.layouts import vbox
from app.widgets.lists.rows import Column, TableRows
from app.widgets.lists.table import Table
from app.widgets.numbers import local_time

LEVELS = {
    tr("All levels"): 0,
    tr("Info and up"): logging.INFO,
    tr("Warnings and up"): logging.WARNING,
    tr("Errors"): logging.ERROR,
}
ALL = tr("All sources")


def _tone(line: LogLine) -> str:
    if line.level >= logging.ERROR:
        return "bad"
    return "warn" if line.level >= logging.WARNING else "quiet"


def _time(line: LogLine) -> str:
    moment = local_time(line.time)
    return moment.strftime("%H:%M:%S.%f")[:-3] if moment is not None else ""


COLUMNS = (
    Column[LogLine](tr("Time"), _time, lambda x: x.time, right=True, mono=True, quiet=True),
    Column[LogLine](
        tr("Level"),
        lambda x: logging.getLevelName(x.level).capitalize(),
        lambda x: x.level,
        tone=_tone,
    ),
    Column[LogLine](tr("Source"), lambda x: x.source, quiet=True),
    Column[LogLine](tr("Text"), lambda x: x.text),
)


class LogView(QWidget):
    """Shows `LogState`; the details of the chosen line below."""

    def __init__(self, log: LogState) -> None:
        super().__init__()
        self._log = log
        self.level = QComboBox()
        self.level.setAccessibleName(tr("Minimum level"))
        self.level.addItems(list(LEVELS))
        self.source = QComboBox()
        self.source.setAccessibleName(tr("Source"))
        self.source.addItem(ALL)
        self.table = Table(TableRows(COLUMNS, self), tr("Log"))
        self.table.head.insertWidget(1, self.level)
        self.table.head.insertWidget(2, self.source)
        self.table.head.addWidget(Button(tr("Clear"), log.clear, name=tr("Clear the log")))
        self.details = QPlainTextEdit()
        self.details.setReadOnly(True)
        self.details.setAccessibleName(tr("Details of the log entry"))
        self.details.setFont(fonts.mono())
        self.details.setMaximumHeight(200)
        self.details.setTabChangesFocus(True)
        self.details.hide()
        vbox((self.table, 1), self.details, on=self, margins=PADDING)
        self.level.currentIndexChanged.connect(self.refresh)
        self.source.currentIndexChanged.connect(self.refresh)
        self.table.chosen.connect(self._show_details)
        log.appended.connect(self.refresh)
        log.dropped.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Show the lines that pass the filter; a view at the end stays at the end."""
        self._list_sources()
        least, source = LEVELS[self.level.currentText()], self.source.currentText()
        bar = self.table.view.verticalScrollBar()
        at_end = bar.value() >= bar.maximum()
        lines = [x for x in self._log.lines if x.level >= least and source in (ALL, x.source)]
        self.table.rows.show_rows(lines)
        if at_end:
            self.table.view.scrollToBottom()

    def show_line(self, text: str) -> None:
        """Put the cursor on the newest line that says the same as `text`, or else on the newest
        error, or the newest line; filters that hide it are taken off.
        """
        lines = self._log.lines
        wanted = (
            lambda line: bool(text) and (line.text in text or text in line.text),
            lambda line: line.level >= logging.ERROR,
            lambda line: True,
        )
        found = (line for fits in wanted for line in reversed(lines) if fits(line))
        line = next(found, None)
        if line is not None:
            if not any(shown is line for shown in self.table.rows.shown):
                self.level.setCurrentIndex(0)
                self.source.setCurrentIndex(0)
                self.table.query.clear()
            self.table.choose_first(lambda shown: shown is line)
        self.table.view.setFocus()

    def _list_sources(self) -> None:
        known = {self.source.itemText(at) for at in range(self.source.count())}
        self.source.addItems(sorted({line.source for line in self._log.lines} - known))

    def _show_details(self, line: LogLine | None) -> None:
        self.details.setVisible(line is not None and bool(line.details))
        if line is not None:
            self.details.setPlainText(line.details)
