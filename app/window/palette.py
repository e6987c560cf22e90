"""Every command by its name."""

import re
from typing import Any

from PySide6.QtCore import QEvent, QModelIndex, QObject, QPersistentModelIndex, QSize, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QKeySequence, QPainter
from PySide6.QtWidgets import (
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from app.language import tr
from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import GRID, RADIUS_CONTROL
from app.widgets.basics import label
from app.widgets.commands import Actions, Command
from app.widgets.layouts import vbox


def score(query: str, title: str) -> float | None:
    """How well `query` names `title`, higher is better; None where its letters do not all occur
    in order. Starts of words and runs of letters count more.
    """
    wanted, text = query.lower().replace(" ", ""), title.lower()
    total, at, run = 0.0, 0, 0
    for letter in wanted:
        found = text.find(letter, at)
        if found < 0:
            return None
        starts_word = found == 0 or not text[found - 1].isalnum()
        run = run + 1 if found == at and at > 0 else 0
        total += 1 + 2 * starts_word + run - 0.05 * (found - at)
        at = found + 1
    if query.lower() in text:
        total += 4 + 4 * text.startswith(query.lower())
    return total - 0.01 * len(text)


KEYS_WIDTH = 104
COMMAND_ROLE = Qt.ItemDataRole.UserRole
LEAST_POINTS = 2  # of a letter on average: most start a word or follow each other
NOT_NOW = tr("not available now")
_ARROWS = (Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_PageUp, Qt.Key.Key_PageDown)


class _CommandDelegate(QStyledItemDelegate):
    """Title on the left, key on the right."""

    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionViewItem,
        index: QModelIndex | QPersistentModelIndex,
    ) -> None:
        command: Command[Any] = index.data(COMMAND_ROLE)
        rect, possible = option.rect, bool(option.state & QStyle.StateFlag.State_Enabled)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if option.state & QStyle.StateFlag.State_Selected:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(tokens().selection))
            painter.drawRoundedRect(rect, RADIUS_CONTROL, RADIUS_CONTROL)
        inside = rect.adjusted(12, 0, -12, 0)
        painter.setPen(QColor(tokens().text if possible else tokens().quiet))
        middle = Qt.AlignmentFlag.AlignVCenter
        title = inside.adjusted(0, 0, -fonts.px(KEYS_WIDTH), 0)
        metrics = painter.fontMetrics()
        wide = metrics.horizontalAdvance(command.title)
        shown = metrics.elidedText(command.title, Qt.TextElideMode.ElideRight, title.width())
        painter.drawText(inside, middle | Qt.AlignmentFlag.AlignLeft, shown)
        keys = QKeySequence(command.key).toString(QKeySequence.SequenceFormat.NativeText)
        keys = keys if possible else NOT_NOW
        painter.setFont(fonts.small())
        painter.setPen(QColor(tokens().quiet))
        painter.drawText(inside, middle | Qt.AlignmentFlag.AlignRight, keys)
        if (
            possible
            and wide + painter.fontMetrics().horizontalAdvance(f"  {command.menu}") <= title.width()
        ):
            painter.drawText(title, middle | Qt.AlignmentFlag.AlignRight, command.menu)
        painter.restore()


class Palette(QWidget):
    """A line to type in, and the commands that are possible now, best match first. Those that are
    not available now are listed where they are searched for.
    """

    done = Signal()

    def __init__(self, commands: Actions[Any]) -> None:
        super().__init__()
        self.setAccessibleName(tr("Every command"))
        self._commands = commands
        self.query = QLineEdit()
        self.query.setPlaceholderText(tr("Type a command"))
        self.query.setAccessibleName(tr("Command"))
        self.query.installEventFilter(self)
        self.list = QListWidget()
        self.list.setAccessibleName(tr("Commands"))
        self.list.setItemDelegate(_CommandDelegate(self.list))
        self.list.setUniformItemSizes(True)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.nothing = label(tone="quiet", wrap=True)
        vbox(self.query, self.nothing, (self.list, 1), on=self, margins=GRID)
        self.query.textChanged.connect(self._show)
        self.query.returnPressed.connect(self.run)
        self.list.itemClicked.connect(self.run)
        self.list.itemActivated.connect(self.run)

    def refresh(self) -> None:
        """Start anew, with what is possible now."""
        self.query.clear()
        self._show("")

    def titles(self) -> list[str]:
        """Titles in the list, from the top."""
        return [self.list.item(at).text() for at in range(self.list.count())]

    def run(self) -> None:
        item = self.list.currentItem()
        if item is not None and item.flags() & Qt.ItemFlag.ItemIsEnabled:
            self.done.emit()  # first, so that a command may open another sheet
            self._commands.run(item.data(COMMAND_ROLE).id)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        pressed = isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress
        if pressed and event.key() in _ARROWS:  # type: ignore[attr-defined]
            self.list.event(event)
            return True
        return False

    def _show(self, query: str) -> None:
        self.list.clear()
        possible = self._commands.possible()
        every = self._commands.commands.values() if query.strip() else possible
        ranked = [(_rank(query, command), command) for command in every]
        found = [(rank, command) for rank, command in ranked if rank is not None]
        if any(rank[0] for rank, _ in found):
            found = [(rank, command) for rank, command in found if rank[0]]
        if query.strip():
            found.sort(key=lambda pair: (pair[0][0], pair[1] in possible, pair[0][1]), reverse=True)
        for _, command in found:
            item = QListWidgetItem(command.title, self.list)
            item.setData(COMMAND_ROLE, command)
            item.setSizeHint(QSize(0, fonts.row()))
            if command not in possible:
                item.setFlags(item.flags() & ~Qt.ItemFlag.ItemIsEnabled)
                item.setData(Qt.ItemDataRole.AccessibleTextRole, f"{command.title}, {NOT_NOW}")
        self.nothing.setText(
            tr("Nothing found for “{query}”.", query=query.strip()) if not found else ""
        )
        self.nothing.setVisible(not found)
        self.list.setCurrentRow(0)


def _rank(query: str, command: Command[Any]) -> tuple[int, float] | None:
    """How well a query names a command: by all its words, in the title before others, or by some
    of the title's letters; None where it does not.
    """
    title, others = command.title.lower(), f"{command.menu} {command.words}".lower()
    points = score(query, command.title)
    words = query.lower().split()
    if all(_starts_word(word, title) for word in words):
        return 3, points or 0.0
    if all(_starts_word(word, f"{title} {others}") for word in words):
        return 2, points or 0.0
    if query.lower().strip() in title:
        return 1, points or 0.0
    good = points is not None and points >= LEAST_POINTS * len(query.replace(" ", ""))
    return (0, points or 0.0) if good else None


def _starts_word(word: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}", text) is not None
