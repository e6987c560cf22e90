"""A table with a filter line; what is chosen in it, or all of it, copies as text."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from PySide6.QtCore import QEvent, QItemSelectionModel, QModelIndex, Qt, Signal
from PySide6.QtGui import (
    QFocusEvent,
    QFontMetrics,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QResizeEvent,
    QShortcut,
)
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QLineEdit, QTableView, QWidget

from app.language import noun, tr
from app.theme import fonts
from app.theme.tokens import GRID
from app.widgets.basics import TEXT_SIZE, IconButton, label
from app.widgets.layouts import hbox, vbox
from app.widgets.lists.rows import Column, TableRows
from app.widgets.numbers import grouped
from app.work import Work

MEASURED = 100  # rows whose content decides a column's width
LEAST, STRETCH_LEAST = 48, 120  # pixels of a column that is cut, and of one that stretches
BESIDE, WIDEST = 28, 360  # pixels beside a text, and of the widest column of words
LONGEST = 120  # characters that are measured; WIDEST is narrower
AT_ONCE = 2000  # rows that are copied within a frame or two
NO_LEAST: Mapping[int, int] = MappingProxyType({})
_Select = QItemSelectionModel.SelectionFlag


class Table(QWidget):
    """`rows` with filter, count and Copy. The chosen row stays chosen when rows are replaced.

    `stretch` are the columns that share what width is left, the last one by default. A `short` one
    has its name in place of filter and count.
    """

    chosen = Signal(object)  # a row; None when none is
    picked = Signal(object)  # a row that the person went to, by mouse or keyboard
    activated = Signal(object)

    def __init__(
        self, rows: TableRows[Any], name: str, stretch: Sequence[int] = (), short: bool = False
    ) -> None:
        super().__init__()
        self.rows, self._name = rows, noun(name)
        self._chosen: Any = None
        self._fitting = self._touched = self._by_program = False
        self.query = QLineEdit()
        self.query.setPlaceholderText(tr("Filter {name}", name=self._name))
        self.query.setAccessibleName(tr("Filter {name}", name=self._name))
        self.query.setClearButtonEnabled(True)
        self.query.textChanged.connect(rows.look_for)
        self.count = label(tone="quiet", size="small")
        self._stretch = tuple(stretch) or (len(rows.columns) - 1,)
        self.view = _view(rows, name)
        self.view.horizontalHeader().sectionResized.connect(self._border_moved)
        self.view.selectionModel().currentRowChanged.connect(self._choose)
        self.view.clicked.connect(lambda index: self.picked.emit(self.rows.shown[index.row()]))
        self.view.activated.connect(self._activate)
        self.view.copy_wanted.connect(self.copy_chosen)
        self.view.entering.connect(self._set_by_program)
        for at in range(len(rows.columns)):  # headers take no keyboard
            key = QShortcut(QKeySequence(f"Alt+{at + 1}"), self.view)
            key.setContext(Qt.ShortcutContext.WidgetShortcut)
            key.activated.connect(partial(self.sort_by, at))
        self.head = hbox(spacing=GRID)
        if short:
            self.head.addWidget(label(name, size="strong"), 1)
            self.query.hide()
            self.count.hide()
        self.head.addWidget(self.query, 1)
        self.head.addWidget(self.count)
        self._copy = IconButton("copy", tr("Copy {name} as text", name=self._name), self.copy_all)
        self._copying: Work | None = None
        self.head.addWidget(self._copy)
        vbox(self.head, (self.view, 1), on=self)
        rows.modelReset.connect(self._refresh)
        self._refresh()

    def text(self) -> str:
        """The rows as they stand, with tabs between columns and titles on top."""
        return "\n".join(_lines(self.rows.columns, self.rows.shown))

    def copy_chosen(self) -> None:
        chosen = self.view.selectionModel().selection()
        areas = (chosen.at(n) for n in range(chosen.size()))
        places = sorted({n for area in areas for n in range(area.top(), area.bottom() + 1)})
        self._copy_rows([self.rows.shown[place] for place in places])

    def copy_all(self) -> None:
        """Or stop that where it is under way."""
        if self._copying is not None:
            self._copying.cancel()
            self._end_copying()
        else:
            self._copy_rows(self.rows.shown)

    def _copy_rows(self, rows: Sequence[Any]) -> None:
        """Many rows in a thread, which reports how far it is."""
        if len(rows) <= AT_ONCE:
            text = "\n".join(_lines(self.rows.columns, rows))
            QGuiApplication.clipboard().setText(text)
        elif self._copying is None:
            self._copy.set_picture("stop", tr("Stop copying {name}", name=self._name))
            job = Work.polling(_copied, self.rows.columns, rows).progress(self._copying_is_at)
            self._copying = job.then(self._take).fail(self._not_copied).start(self)

    def _copying_is_at(self, done: float) -> None:
        self.count.setText(tr("copying {done:.0%}", done=done))

    def _take(self, text: str) -> None:
        QGuiApplication.clipboard().setText(text)
        self._end_copying()

    def _not_copied(self, problem: str) -> None:
        self._end_copying()
        self.count.setText(problem)

    def _end_copying(self) -> None:
        self._copying = None
        self._copy.set_picture("copy", tr("Copy {name} as text", name=self._name))
        self._show_count()

    def sort_by(self, column: int) -> None:
        """Sort by that column, downwards the second time (Alt and its number)."""
        if column >= len(self.rows.columns):
            return
        header = self.view.horizontalHeader()
        again = header.sortIndicatorSection() == column
        up = again and header.sortIndicatorOrder() == Qt.SortOrder.DescendingOrder
        falling = again and not up
        order = Qt.SortOrder.DescendingOrder if falling else Qt.SortOrder.AscendingOrder
        self.view.sortByColumn(column, order)

    def choose(self, place: int) -> None:
        """Put the cursor on a row of `rows.shown`."""
        index = self.rows.index(place, 0)
        flags = _Select.ClearAndSelect | _Select.Rows
        self._by_program = True
        self.view.selectionModel().setCurrentIndex(index, flags)
        self._by_program = False
        self.view.scrollTo(index)

    def choose_first(self, wanted: Callable[[Any], bool]) -> None:
        """Put the cursor on the first row that is wanted, unless it is on such a row."""
        at = self.view.currentIndex().row()
        if 0 <= at < len(self.rows.shown) and wanted(self.rows.shown[at]):
            return
        place = next((n for n, row in enumerate(self.rows.shown) if wanted(row)), None)
        if place is not None:
            self.choose(place)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in TEXT_SIZE:
            self.view.verticalHeader().setDefaultSectionSize(fonts.row())
            self._needed = _widths(self.view, self.rows)
            self._fit_columns()

    def _refresh(self) -> None:
        self._show_count()
        self._needed = _widths(self.view, self.rows)
        self._fit_columns()
        chosen = self._chosen
        if chosen is not None and chosen in self.rows.shown:
            self.choose(self.rows.shown.index(chosen))

    def _show_count(self) -> None:
        total, shown = self.rows.total, len(self.rows.shown)
        text = (
            grouped(total)
            if shown == total
            else tr("{shown} of {total}", shown=grouped(shown), total=grouped(total))
        )
        self.count.setText(text)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._fit_columns()

    def _fit_columns(self) -> None:
        """Fit the columns to their contents, until the user resizes one."""
        if self._touched:
            return
        self._fitting = True
        least, wanted = self._needed
        header, room = self.view.horizontalHeader(), self.view.viewport().width()
        kept = max(fonts.px(STRETCH_LEAST), *(least[at] for at in self._stretch))
        fixed = {at: width for at, width in wanted.items() if at not in self._stretch}
        fitted = narrowed(fixed, room - len(self._stretch) * kept, least)
        tight = room - sum(fitted.values()) < len(self._stretch) * kept
        for at in self._stretch:
            mode = QHeaderView.ResizeMode
            header.setSectionResizeMode(at, mode.Interactive if tight else mode.Stretch)
        for at, width in (fitted | dict.fromkeys(self._stretch, kept) if tight else fitted).items():
            self.view.setColumnWidth(at, width)
        self._fitting = False

    def _border_moved(self) -> None:
        header = self.view.horizontalHeader()
        self._touched |= not self._fitting and header.underMouse()

    def _choose(self, index: QModelIndex) -> None:
        if index.isValid():  # a reset leaves none for a moment
            self._chosen = self.rows.shown[index.row()]
        self.chosen.emit(self._chosen)
        if index.isValid() and not self._by_program:
            self.picked.emit(self._chosen)

    def _set_by_program(self, by_program: bool) -> None:
        self._by_program = by_program

    def _activate(self, index: QModelIndex) -> None:
        self.activated.emit(self.rows.shown[index.row()])


class _View(QTableView):
    """Qt copies the one cell at the cursor; we copy rows."""

    copy_wanted = Signal()
    entering = Signal(bool)  # the keyboard comes: Qt puts the cursor on the first row by itself

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        self.entering.emit(True)
        super().focusInEvent(event)
        self.entering.emit(False)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy_wanted.emit()
        else:
            super().keyPressEvent(event)


def _lines(columns: Sequence[Column[Any]], rows: Iterable[Any]) -> Iterator[str]:
    yield "\t".join(column.title for column in columns)
    for row in rows:
        yield "\t".join(column.text(row) for column in columns)


def _copied(job: Work, columns: Sequence[Column[Any]], rows: Sequence[Any]) -> str:
    """In a thread: as much as there is until somebody stops it."""
    lines = []
    for at, line in enumerate(_lines(columns, rows)):
        lines.append(line)
        if at % AT_ONCE == 0:
            if job.cancelled:
                break
            job.report(at / len(rows))
    return "\n".join(lines)


def _view(rows: TableRows[Any], name: str) -> _View:
    view = _View()
    view.setAccessibleName(name)
    view.setModel(rows)
    header = view.horizontalHeader()
    header.setSortIndicator(-1, Qt.SortOrder.AscendingOrder)  # before it sorts by itself
    header.setSortIndicatorClearable(True)
    view.setSortingEnabled(True)
    view.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
    view.setShowGrid(False)
    view.setWordWrap(False)
    view.setTabKeyNavigation(False)
    view.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
    view.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
    view.verticalHeader().hide()
    view.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
    view.verticalHeader().setDefaultSectionSize(fonts.row())
    header.setHighlightSections(False)
    return view


def _widths(view: QTableView, rows: TableRows[Any]) -> tuple[dict[int, int], dict[int, int]]:
    """The least width per column, and what its first rows need: no title and no number is cut."""
    header = view.horizontalHeader()
    least, wanted = {}, {}
    for at, column in enumerate(rows.columns):
        metrics = QFontMetrics(fonts.mono()) if column.mono else view.fontMetrics()
        count = min(MEASURED, len(rows.shown))
        texts = [column.text(rows.shown[i])[:LONGEST] for i in range(count)]
        widest = max([0, *(metrics.horizontalAdvance(text) for text in texts)])
        title = header.fontMetrics().horizontalAdvance(column.title) + fonts.px(BESIDE)
        needed = max(title, widest + fonts.px(BESIDE))
        wanted[at] = needed if column.right else max(title, min(needed, fonts.px(WIDEST)))
        least[at] = needed if column.right or column.whole else title
    return least, wanted


def narrowed(
    widths: Mapping[int, int], room: int, least: Mapping[int, int] = NO_LEAST
) -> dict[int, int]:
    """The widths, the widest cut to one measure so that all fit into `room`; each stays at least
    as wide as `least` says.
    """
    made, left = {}, room
    slack = {at: width - least.get(at, LEAST) for at, width in widths.items()}
    for place, at in enumerate(sorted(widths, key=lambda at: (slack[at] > 0, widths[at]))):
        share = left // (len(widths) - place)
        made[at] = max(min(widths[at], share), widths[at] - max(slack[at], 0))
        left -= made[at]
    return dict(sorted(made.items()))
