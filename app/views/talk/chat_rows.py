"""The rows of the list of chats: under headings, in folders, with tags or what a search found."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from PySide6.QtCore import (
    QAbstractListModel,
    QDate,
    QLocale,
    QMimeData,
    QModelIndex,
    QPersistentModelIndex,
    QRect,
    QSize,
    Qt,
)
from PySide6.QtGui import QColor, QPainter
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from app.language import tr, tr_n, used
from app.state.talk.chats import ChatList, ChatRow
from app.state.talk.disk.rows import UNTITLED
from app.theme import fonts
from app.theme.icons import icon
from app.theme.theme import tokens
from app.theme.tokens import GRID, RADIUS_CONTROL
from app.widgets.numbers import local_time
from app.widgets.tips import plain_tip

_Index = QModelIndex | QPersistentModelIndex
_Role = Qt.ItemDataRole
SERVED = "⇄"  # a request of another program
DRAGGED = "application/x-cutaway-chat"


@dataclass(frozen=True)
class Heading:
    """A line above chats; of a folder it can be chosen, and shows or hides `count` chats."""

    text: str
    folder: bool = False
    folded: bool = False
    count: int = 0

    @property
    def spoken(self) -> str:
        """Its words for a screen reader."""
        if not self.folder:
            return self.text
        chats = tr_n("{n} chat", "{n} chats", self.count)
        return tr(
            "{text}, folder, {chats}, {value}",
            text=self.text,
            chats=chats,
            value=tr("collapsed") if self.folded else tr("expanded"),
        )

    @property
    def drawn(self) -> str:
        """Its words in the list."""
        if not self.folder:
            return self.text
        return f"▸ {self.text}  {self.count}" if self.folded else f"▾ {self.text}"


def under_headings(
    rows: Sequence[ChatRow], folded: Sequence[str], today: date
) -> list[ChatRow | Heading]:
    """Pinned chats, then folders by name, then the others by their day."""
    pinned = [row for row in rows if row.pinned]
    items: list[ChatRow | Heading] = [Heading(tr("Pinned")), *pinned] if pinned else []
    rest = [row for row in rows if not row.pinned]
    for folder in sorted({row.folder for row in rest} - {""}, key=str.casefold):
        inside = [row for row in rest if row.folder == folder]
        items.append(Heading(folder, True, folder in folded, len(inside)))
        items += [] if folder in folded else inside
    heading = ""
    for row in rest:
        if row.folder:
            continue
        now = period(row.changed, today)
        if now != heading:
            items.append(Heading(now))
            heading = now
        items.append(row)
    return items


def shown_title(title: str) -> str:
    """A chat's title; the one that all begin with is in the language of the window."""
    return title if title and title != UNTITLED else tr(UNTITLED)


def period(changed: float, today: date) -> str:
    """The heading a chat stands under."""
    moment = local_time(changed)
    if moment is None:
        return tr("Undated")
    day = moment.date()
    if day >= today:
        return tr("Today")
    if day == today - timedelta(days=1):
        return tr("Yesterday")
    if day > today - timedelta(days=7):
        return tr("Last 7 days")
    if day > today - timedelta(days=31):
        return tr("Last month")
    return QLocale(used()).toString(QDate(day.year, day.month, 1), "MMMM yyyy")


class ChatsModel(QAbstractListModel):
    """Chats and headings; a chat can be dragged to a folder, or to chats without one."""

    def __init__(self, chats: ChatList, parent: QWidget) -> None:
        super().__init__(parent)
        self._chats = chats
        self.items: list[ChatRow | Heading] = []

    def show_items(self, items: Sequence[ChatRow | Heading]) -> None:
        """Replace all rows."""
        self.beginResetModel()
        self.items = list(items)
        self.endResetModel()

    def item(self, index: _Index) -> ChatRow | Heading | None:
        """The item of a row; None outside of the rows."""
        return self.items[index.row()] if 0 <= index.row() < len(self.items) else None

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
            spoken = role == _Role.AccessibleTextRole
            if isinstance(item, Heading):
                return item.spoken if spoken else item.text
            return _spoken(item) if spoken else shown_title(item.title)
        if role == _Role.ToolTipRole and isinstance(item, ChatRow):
            moment = local_time(item.changed)
            when = moment.isoformat(" ", "minutes") if moment is not None else ""
            origin = tr("a request from {served}", served=item.served) if item.served else ""
            harm = tr("Some of this chat is damaged on the disk.") if item.damaged else ""
            parts = [item.title, _tags(item), origin, item.model, when, harm]
            return plain_tip("\n".join(filter(None, parts)))
        return None

    def flags(self, index: _Index) -> Qt.ItemFlag:
        item, flag = self.item(index), Qt.ItemFlag
        if item is None:
            return flag.NoItemFlags
        if isinstance(item, Heading):
            chosen = flag.ItemIsEnabled | flag.ItemIsSelectable
            return chosen | flag.ItemIsDropEnabled if item.folder else flag.ItemIsDropEnabled
        usual = flag.ItemIsEnabled | flag.ItemIsSelectable | flag.ItemIsEditable
        return usual | flag.ItemIsDragEnabled | flag.ItemIsDropEnabled

    def setData(self, index: _Index, value: Any, role: int = _Role.EditRole) -> bool:  # noqa: N802
        item = self.item(index)
        if not isinstance(item, ChatRow) or not str(value).strip():
            return False
        self._chats.rename(item.id, str(value).strip())
        return True

    def mimeTypes(self) -> list[str]:  # noqa: N802
        return [DRAGGED]

    def mimeData(self, indexes: Sequence[QModelIndex]) -> QMimeData:  # noqa: N802
        data = QMimeData()
        ids = [str(item.id) for item in map(self.item, indexes) if isinstance(item, ChatRow)]
        data.setData(DRAGGED, " ".join(ids).encode())
        return data

    def supportedDropActions(self) -> Qt.DropAction:  # noqa: N802
        return Qt.DropAction.MoveAction

    def dropMimeData(  # noqa: N802
        self, data: QMimeData, action: Qt.DropAction, row: int, column: int, parent: _Index
    ) -> bool:
        """Move a chat to the folder of what it was dropped on."""
        target = self.item(parent)
        moved = bytes(data.data(DRAGGED).data()).decode().split()
        if target is None or not all(map(str.isdecimal, moved)):
            return False
        named = target.text if isinstance(target, Heading) and target.folder else ""
        folder = target.folder if isinstance(target, ChatRow) else named
        for chat in moved:
            self._chats.move(int(chat), folder)
        return False  # the list is made anew: there is no row for Qt to remove


def _spoken(chat: ChatRow) -> str:
    parts = [
        shown_title(chat.title),
        tr("pinned") if chat.pinned else "",
        _tags(chat),
        tr("a request from {served}", served=chat.served) if chat.served else "",
        tr("damaged on the disk") if chat.damaged else "",
    ]
    return ", ".join(filter(None, parts))


def _tags(chat: ChatRow) -> str:
    return " ".join(f"#{tag}" for tag in chat.tags)


def below_title(chat: ChatRow) -> str:
    """The second line of a chat: what a search found, else its tags."""
    return " ".join(chat.snippet.split()) or _tags(chat)


def more_area(row: QRect) -> QRect:
    """The part of a chat's row where the dots of its menu are."""
    side = fonts.row()
    return QRect(row.right() - side, row.top(), side, row.height())


class ChatDelegate(QStyledItemDelegate):
    """A title with its second line, or a heading in small quiet letters. The row under the mouse
    and the chosen one have dots: their menu.
    """

    def sizeHint(self, option: QStyleOptionViewItem, index: _Index) -> QSize:  # noqa: N802
        item = index.model().items[index.row()]  # type: ignore[attr-defined]
        if isinstance(item, Heading):
            return QSize(0, fonts.px(32 if index.row() else 24))
        return QSize(0, fonts.row() + (fonts.px(18) if below_title(item) else 0))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: _Index) -> None:
        item = index.model().items[index.row()]  # type: ignore[attr-defined]
        rect: QRect = option.rect
        state = option.state
        painter.save()
        inside = rect.adjusted(GRID, 0, -GRID, 0)
        if isinstance(item, Heading):
            painter.setFont(fonts.small())
            chosen = state & QStyle.StateFlag.State_Selected
            painter.setPen(QColor(tokens().text if chosen else tokens().quiet))
            below = Qt.AlignmentFlag.AlignBottom | Qt.AlignmentFlag.AlignLeft
            self._line(painter, inside.adjusted(0, 0, 0, -4), below, item.drawn)
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
            dots = more_area(rect)
            icon("more", "quiet").paint(
                painter,
                QStyle.alignedRect(
                    option.direction, Qt.AlignmentFlag.AlignCenter, fonts.square(16), dots
                ),
            )
            inside.setRight(dots.left())
        second = below_title(item)
        line = inside.adjusted(0, 2, 0, -rect.height() // 2 + 2) if second else inside
        middle = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft
        painter.setFont(fonts.body())
        painter.setPen(QColor(tokens().quiet if item.served else tokens().text))
        mark = "⚠ " if item.damaged else f"{SERVED} " if item.served else ""
        self._line(painter, line, middle, mark + shown_title(item.title))
        if second:
            painter.setFont(fonts.small())
            painter.setPen(QColor(tokens().quiet))
            line = inside.adjusted(0, rect.height() // 2, 0, -2)
            self._line(painter, line, middle, second)
        painter.restore()

    def _line(self, painter: QPainter, area: QRect, how: Qt.AlignmentFlag, text: str) -> None:
        short = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, area.width())
        painter.drawText(area, how, short)
