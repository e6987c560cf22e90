"""The list of chats, with its search."""

from datetime import date, timedelta
from pathlib import Path
from typing import Any

from PySide6.QtCore import (
    QAbstractListModel,
    QEvent,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QPoint,
    QRect,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import QColor, QKeyEvent, QKeySequence, QPainter, QShortcut
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFileDialog,
    QHBoxLayout,
    QLineEdit,
    QListView,
    QMenu,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from app.state.talk.chats import ChatRow
from app.state.workbench import Workbench
from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import GRID, RADIUS_CONTROL
from app.widgets.basics import IconButton, label, surface
from app.widgets.focus import has_focus
from app.widgets.numbers import local_time
from app.widgets.tips import plain_tip

_Index = QModelIndex | QPersistentModelIndex
_Role = Qt.ItemDataRole
UNTITLED = "New chat"
SERVED = "⇄"  # a request of another program


def period(changed: float, today: date) -> str:
    """The heading a chat stands under."""
    moment = local_time(changed)
    if moment is None:
        return "Undated"
    day = moment.date()
    if day >= today:
        return "Today"
    if day == today - timedelta(days=1):
        return "Yesterday"
    if day > today - timedelta(days=7):
        return "Last 7 days"
    if day > today - timedelta(days=31):
        return "Last month"
    return day.strftime("%B %Y")


class ChatsModel(QAbstractListModel):
    """Chats under headings; a heading is a string, not to be chosen."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.items: list[ChatRow | str] = []
        self.rename: Any = None

    def show_rows(self, rows: list[ChatRow], with_headings: bool) -> None:
        self.beginResetModel()
        self.items = []
        heading, today = "", date.today()
        for row in rows:
            now = period(row.changed, today)
            if with_headings and now != heading:
                self.items.append(now)
                heading = now
            self.items.append(row)
        self.endResetModel()

    def place(self, chat_id: int | None) -> int | None:
        return next(
            (i for i, x in enumerate(self.items) if isinstance(x, ChatRow) and x.id == chat_id),
            None,
        )

    def rowCount(self, parent: _Index | None = None) -> int:  # noqa: N802
        return 0 if parent is not None and parent.isValid() else len(self.items)

    def data(self, index: _Index, role: int = _Role.DisplayRole) -> Any:
        item = self.items[index.row()]
        if role in (_Role.DisplayRole, _Role.EditRole, _Role.AccessibleTextRole):
            if isinstance(item, ChatRow) and item.served and role == _Role.AccessibleTextRole:
                return f"{item.title}, a request from {item.served}"
            if isinstance(item, ChatRow) and item.damaged and role == _Role.AccessibleTextRole:
                return f"{item.title or UNTITLED}, damaged on the disk"
            return item if isinstance(item, str) else item.title or UNTITLED
        if role == _Role.ToolTipRole and isinstance(item, ChatRow):
            moment = local_time(item.changed)
            when = moment.isoformat(" ", "minutes") if moment is not None else ""
            asked = f"a request from {item.served}" if item.served else ""
            harm = "Some of this chat is damaged on the disk." if item.damaged else ""
            return plain_tip("\n".join(filter(None, [item.title, asked, item.model, when, harm])))
        return None

    def flags(self, index: _Index) -> Qt.ItemFlag:
        if not index.isValid() or isinstance(self.items[index.row()], str):
            return Qt.ItemFlag.NoItemFlags
        return Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsEditable

    def setData(self, index: _Index, value: Any, role: int = _Role.EditRole) -> bool:  # noqa: N802
        item = self.items[index.row()]
        if isinstance(item, str) or not str(value).strip():
            return False
        self.rename(item.id, str(value).strip())
        return True


class _ChatDelegate(QStyledItemDelegate):
    """A title, or a heading in small quiet letters; under a search also where it was found."""

    def sizeHint(self, option: QStyleOptionViewItem, index: _Index) -> QSize:  # noqa: N802
        item = index.model().items[index.row()]  # type: ignore[attr-defined]
        if isinstance(item, str):
            return QSize(0, fonts.px(32 if index.row() else 24))
        return QSize(0, fonts.row() + (fonts.px(18) if item.snippet else 0))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: _Index) -> None:
        item = index.model().items[index.row()]  # type: ignore[attr-defined]
        rect: QRect = option.rect
        state = option.state
        painter.save()
        inside = rect.adjusted(GRID, 0, -GRID, 0)
        if isinstance(item, str):
            painter.setFont(fonts.small())
            painter.setPen(QColor(tokens().quiet))
            below = Qt.AlignmentFlag.AlignBottom | Qt.AlignmentFlag.AlignLeft
            painter.drawText(inside.adjusted(0, 0, 0, -4), below, item)
            painter.restore()
            return
        if state & (QStyle.StateFlag.State_Selected | QStyle.StateFlag.State_MouseOver):
            chosen = state & QStyle.StateFlag.State_Selected
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(Qt.PenStyle.NoPen)
            if state & QStyle.StateFlag.State_HasFocus and chosen:
                painter.setPen(QColor(tokens().accent))
            painter.setBrush(QColor(tokens().selection if chosen else tokens().raised))
            painter.drawRoundedRect(rect.adjusted(0, 1, -1, -1), RADIUS_CONTROL, RADIUS_CONTROL)
        line = inside if not item.snippet else inside.adjusted(0, 2, 0, -rect.height() // 2 + 2)
        middle = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft
        painter.setFont(fonts.body())
        painter.setPen(QColor(tokens().quiet if item.served else tokens().text))
        mark = "⚠ " if item.damaged else f"{SERVED} " if item.served else ""
        self._line(painter, line, middle, mark + (item.title or UNTITLED))
        if item.snippet:
            painter.setFont(fonts.small())
            painter.setPen(QColor(tokens().quiet))
            line = inside.adjusted(0, rect.height() // 2, 0, -2)
            self._line(painter, line, middle, " ".join(item.snippet.split()))
        painter.restore()

    def _line(self, painter: QPainter, area: QRect, how: Qt.AlignmentFlag, text: str) -> None:
        short = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, area.width())
        painter.drawText(area, how, short)


class ChatsView(QWidget):
    """Shows `bench.chats`; opens in `bench.chat`."""

    new_wanted = Signal()

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        surface(self, "canvas")
        self.setMinimumWidth(fonts.px(168))
        self._chats, self._chat = bench.chats, bench.chat
        self.search = QLineEdit()
        self.search.setPlaceholderText("Search chats")
        self.search.setAccessibleName("Search chats")
        self.search.setClearButtonEnabled(True)
        self.search.textChanged.connect(self._search)
        self.search.installEventFilter(self)
        self._model = ChatsModel(self)
        self._model.rename = self._chats.rename
        self.list = QListView()
        self.list.setAccessibleName("Chats")
        self.list.setModel(self._model)
        self.list.setItemDelegate(_ChatDelegate(self.list))
        self.list.setMouseTracking(True)
        self.list.setEditTriggers(QAbstractItemView.EditTrigger.EditKeyPressed)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        surface(self.list, "canvas")
        self.list.customContextMenuRequested.connect(self._menu)
        self.list.clicked.connect(self._open)
        self.list.activated.connect(self._open)
        delete = QShortcut(QKeySequence(Qt.Key.Key_Delete), self.list)
        delete.setContext(Qt.ShortcutContext.WidgetShortcut)
        delete.activated.connect(self.delete_current)
        self._empty = label("No chats yet.", "quiet", wrap=True)
        self._empty.setContentsMargins(GRID, GRID, 0, 0)
        self.new = IconButton("plus", "New chat (Ctrl+N)", self.new_wanted.emit)
        head = QHBoxLayout()
        head.setSpacing(GRID // 2)
        head.addWidget(self.search, 1)
        head.addWidget(self.new)
        column = QVBoxLayout(self)
        column.setContentsMargins(GRID, GRID, GRID, GRID)
        column.setSpacing(GRID)
        column.addLayout(head)
        column.addWidget(self._empty)
        column.addWidget(self.list, 1)
        self._chats.changed.connect(self.refresh)
        self._chats.arrived.connect(self._chat.open)
        self._chat.path_changed.connect(self._mark)
        self._chat.details.changed.connect(self._mark)
        self.refresh()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Esc clears the search, before the window's own use of it."""
        escape = isinstance(event, QKeyEvent) and event.key() == Qt.Key.Key_Escape
        if escape and watched is self.search and self.search.text():
            if event.type() == QEvent.Type.ShortcutOverride:
                event.accept()
                return True
            if event.type() == QEvent.Type.KeyPress:
                self.search.clear()
                return True
        return False

    def _search(self, query: str) -> None:
        self._chats.search(query)
        if not query:
            self._chat.found.emit(None, [])

    def refresh(self) -> None:
        rows, had_keyboard = self._chats.rows, has_focus(self.list)
        self._model.show_rows(rows, with_headings=not self._chats.query)
        if had_keyboard:  # a title that was edited takes it along
            self.list.setFocus()
        self._empty.setText("Nothing found." if self._chats.query else "No chats yet.")
        self._empty.setVisible(not rows)
        self._mark()

    def rename_current(self) -> None:
        place = self._model.place(self._chat.chat_id)
        if place is not None:
            self.list.setFocus()
            self.list.edit(self._model.index(place))

    def duplicate_current(self) -> None:
        if self._chat.chat_id is not None:
            self._chats.duplicate(self._chat.chat_id)

    def delete_current(self) -> None:
        self._delete(self._here())

    def export_current(self) -> None:
        chat = self._here()
        if chat is None:
            return
        title = self._chat.details.title or UNTITLED
        name = "".join(c if c.isalnum() or c in " -_" else "_" for c in title)[:60].strip()
        path, _ = QFileDialog.getSaveFileName(
            self, "Export the chat", f"{name}.md", "Markdown (*.md);;Whole tree (*.json)"
        )
        if path:
            self._chats.export(chat, Path(path))

    def import_file(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, "Import chats", "", "Chats (*.json *.zip)")
        if path:
            self._chats.import_file(Path(path))

    def _here(self) -> int | None:
        """The chat under the list's cursor, else the open one."""
        row = self.list.currentIndex().row()
        item = self._model.items[row] if 0 <= row < len(self._model.items) else None
        if self.list.hasFocus() and isinstance(item, ChatRow):
            return item.id
        return self._chat.chat_id

    def _delete(self, chat: int | None) -> None:
        if chat is None:
            return
        self._chats.delete(chat)
        if self._chat.chat_id == chat:
            self._chat.open(None)

    def _open(self, index: QModelIndex) -> None:
        item = self._model.items[index.row()]
        if not isinstance(item, ChatRow):
            return
        if self._chats.query:
            self._chat.open_at(item.id, item.hit, self._chats.query.split())
        elif item.id != self._chat.chat_id:
            self._chat.open(item.id)

    def _mark(self) -> None:
        """The open chat is the one that is chosen in the list."""
        place = self._model.place(self._chat.chat_id)
        if place is None:
            self.list.clearSelection()
        elif self.list.currentIndex().row() != place:
            self.list.setCurrentIndex(self._model.index(place))

    def _menu(self, at: QPoint) -> None:
        index = self.list.indexAt(at)
        if not index.isValid() or isinstance(self._model.items[index.row()], str):
            return
        self.list.setCurrentIndex(index)
        self.list.setFocus()
        self._open(index)
        menu = QMenu(self)
        menu.addAction("Rename", self.rename_current)
        menu.addAction("Duplicate", self.duplicate_current)
        menu.addAction("Export…", self.export_current)
        menu.addSeparator()
        menu.addAction("Delete", self.delete_current)
        menu.popup(self.list.viewport().mapToGlobal(at))
