"""Every command by its name."""

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
    QVBoxLayout,
    QWidget,
)

from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import GRID, RADIUS_CONTROL
from app.widgets.commands import Actions, Command
from app.widgets.fuzzy import score

KEYS_WIDTH = 104
COMMAND_ROLE = Qt.ItemDataRole.UserRole
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
        rect = option.rect
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if option.state & QStyle.StateFlag.State_Selected:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(tokens().selection))
            painter.drawRoundedRect(rect, RADIUS_CONTROL, RADIUS_CONTROL)
        inside = rect.adjusted(12, 0, -12, 0)
        painter.setPen(QColor(tokens().text))
        middle = Qt.AlignmentFlag.AlignVCenter
        title = inside.adjusted(0, 0, -fonts.px(KEYS_WIDTH), 0)
        metrics = painter.fontMetrics()
        wide = metrics.horizontalAdvance(command.title)
        shown = metrics.elidedText(command.title, Qt.TextElideMode.ElideRight, title.width())
        painter.drawText(inside, middle | Qt.AlignmentFlag.AlignLeft, shown)
        keys = QKeySequence(command.key).toString(QKeySequence.SequenceFormat.NativeText)
        painter.setFont(fonts.small())
        painter.setPen(QColor(tokens().quiet))
        painter.drawText(inside, middle | Qt.AlignmentFlag.AlignRight, keys)
        if wide + painter.fontMetrics().horizontalAdvance(f"  {command.menu}") <= title.width():
            painter.drawText(title, middle | Qt.AlignmentFlag.AlignRight, command.menu)
        painter.restore()


class Palette(QWidget):
    """A line to type in, and the commands that are possible now, best match first."""

    done = Signal()

    def __init__(self, commands: Actions[Any]) -> None:
        super().__init__()
        self.setAccessibleName("Every command")
        self._commands = commands
        self.query = QLineEdit()
        self.query.setPlaceholderText("Type a command")
        self.query.setAccessibleName("Command")
        self.query.installEventFilter(self)
        self.list = QListWidget()
        self.list.setAccessibleName("Commands")
        self.list.setItemDelegate(_CommandDelegate(self.list))
        self.list.setUniformItemSizes(True)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        column = QVBoxLayout(self)
        column.setContentsMargins(GRID, GRID, GRID, GRID)
        column.setSpacing(GRID)
        column.addWidget(self.query)
        column.addWidget(self.list)
        self.query.textChanged.connect(self._show)
        self.query.returnPressed.connect(self.run)
        self.list.itemClicked.connect(self.run)
        self.list.itemActivated.connect(self.run)

    def refresh(self) -> None:
        """Start anew, with what is possible now."""
        self.query.clear()
        self._show("")

    def titles(self) -> list[str]:
        """What the list shows, from its top."""
        return [self.list.item(at).text() for at in range(self.list.count())]

    def run(self) -> None:
        item = self.list.currentItem()
        if item is not None:
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
        scored = [
            (score(query, f"{command.title} {command.menu}"), command)
            for command in self._commands.possible()
        ]
        found = [(points, command) for points, command in scored if points is not None]
        if query:
            found.sort(key=lambda pair: -pair[0])
        for _, command in found:
            item = QListWidgetItem(command.title, self.list)
            item.setData(COMMAND_ROLE, command)
            item.setSizeHint(QSize(0, fonts.row()))
        self.list.setCurrentRow(0)
