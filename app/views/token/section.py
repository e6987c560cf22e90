"""A part of the Token view: its chart, or the same numbers as a table; its words, shares and ranks;
and steps through numbers.
"""

from collections.abc import Callable
from functools import cached_property

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QWidget

from app.language import noun, tr
from app.theme import fonts
from app.theme.tokens import GRID
from app.widgets.basics import TEXT_SIZE, Button, IconButton, label
from app.widgets.layouts import hbox, vbox
from app.widgets.lists.rows import Column, ReportTable, TableRows, texts_of
from app.widgets.lists.table import Table
from app.widgets.numbers import grouped

LEAST = 150  # pixels of a table

Line = tuple[str, ...]


class Section(QWidget):
    """A title above a chart or its table. `rows` gives the table, titles first; they never change.

    Columns from `numbers` on are aligned to the right. `beside` is a control next to the title.
    """

    def __init__(
        self,
        title: str,
        chart: QWidget,
        rows: Callable[[], list[list[str]]],
        numbers: int = 1,
        beside: QWidget | None = None,
    ) -> None:
        super().__init__()
        self.title, self.chart, self._rows = title, chart, rows
        self._numbers = numbers
        self.as_table = False
        self._column = column = vbox(on=self, spacing=GRID // 2)
        self.head = label(title, "", "strong")
        if beside is None:
            column.addWidget(self.head)
        else:
            line = hbox((self.head, 1), beside)
            column.addLayout(line)
        column.addWidget(chart, 1)

    @cached_property
    def table(self) -> Table:
        """Made when it is first requested: few ever look at one."""
        columns = [
            Column[Line](name, _part(at), _key(at), right=at >= self._numbers)
            for at, name in enumerate(self._rows()[0])
        ]
        table = Table(TableRows(columns, self), self.title, stretch=(0,))
        table.setMinimumHeight(fonts.px(LEAST))
        table.hide()
        self._column.addWidget(table, 1)
        return table

    def show_table(self, as_table: bool) -> None:
        """Chart or table; the same numbers."""
        self.as_table = as_table
        self.chart.setVisible(not as_table)
        self.table.setVisible(as_table)
        self.refresh()

    def refresh(self) -> None:
        """The table's rows as they are now."""
        if self.as_table:
            self.table.rows.show_rows([tuple(row) for row in self._rows()[1:]])

    def set_title(self, title: str) -> None:
        """Another title."""
        self.title = title
        self.head.setText(title)

    def report(self) -> ReportTable:
        """The table, as it is now."""
        return texts_of(self.title, self._rows())

    @property
    def text(self) -> str:
        """Title and table, with tabs between columns."""
        return "\n".join([self.title, *("\t".join(row) for row in self._rows())])


def _part(at: int) -> Callable[[Line], str]:
    return lambda line: line[at]


def _key(at: int) -> Callable[[Line], tuple[float, str]]:
    """Numbers by size, words behind them."""

    def key(line: Line) -> tuple[float, str]:
        digits = line[at].replace("\u2009", "").removesuffix(" %").removeprefix("< ")
        try:
            return float(digits), ""
        except ValueError:
            return float("inf"), line[at]

    return key


LONGEST = 24  # characters of a word
LOOKED_AT = 200
BETWEEN = "  ·  "


def shown(text: str) -> str:
    """A token's text with its white space to be seen, short."""
    text = text[:LOOKED_AT]  # a server may write a whole answer as one token
    marked = text.replace("\n", "↵").replace("\t", "⇥")
    marked = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in marked)
    marked = f"␣{marked[1:]}" if marked[:1] == " " and not marked.strip() else marked.strip(" ")
    return (marked if len(marked) <= LONGEST else f"{marked[: LONGEST - 1]}…") or "∅"


def percent(share: float) -> str:
    """A share of 1, as short as it says something."""
    if share >= 0.9995:
        return "100 %"
    if share >= 0.0995:
        return f"{share * 100:.0f} %"
    if share >= 0.0005:
        return tr("{share:.1f} %", share=share * 100)
    return "< 0.1 %"


def place(rank: int) -> str:
    """A rank that counts from 1."""
    return grouped(rank)


def bits(entropy: float) -> str:
    return tr("{entropy:.1f} bits", entropy=entropy)


NUMBER = 40  # pixels


class NumberStepper(QWidget):
    """`stepped` carries -1, +1, or 0 for all; arrow keys step wherever the keyboard is in it."""

    stepped = Signal(int)

    def __init__(self, name: str, all_of_them: str, tip: str) -> None:
        super().__init__()
        self._name, self._all_text = name, all_of_them
        self.before = IconButton(
            "chevron-left", tr("{name} before", name=name), lambda: self.stepped.emit(-1), 16
        )
        self.after = IconButton("chevron-right", tr("Next {name}", name=noun(name)), self._up, 16)
        self.all = Button(tr("All"), lambda: self.stepped.emit(0), "link", name=tip)
        self._value = label("", "", "strong")
        self._value.setAlignment(Qt.AlignmentFlag.AlignCenter)
        policy = self.all.sizePolicy()
        policy.setRetainSizeWhenHidden(True)  # else what stands beside it would jump
        self.all.setSizePolicy(policy)
        hbox(
            label(name, "quiet"), self.before, self._value, self.after, self.all, on=self, spacing=2
        )
        self._scale()
        self.show_value(None)

    def show_value(self, value: str | None) -> None:
        """A number, or None for all."""
        self._value.setText(self._all_text if value is None else value)
        self._value.setAccessibleName(f"{self._name} {self._value.text()}")
        self.all.setVisible(value is not None)

    @property
    def text(self) -> str:
        return self._value.text()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in TEXT_SIZE:
            self._scale()

    def _scale(self) -> None:
        self._value.setMinimumWidth(fonts.px(NUMBER))

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        steps = {
            Qt.Key.Key_Left: -1,
            Qt.Key.Key_Down: -1,
            Qt.Key.Key_Right: 1,
            Qt.Key.Key_Up: 1,
            Qt.Key.Key_Home: 0,
        }
        key = Qt.Key(event.key())
        if key in steps:
            self.stepped.emit(steps[key])
        else:
            super().keyPressEvent(event)

    def _up(self) -> None:
        self.stepped.emit(1)
