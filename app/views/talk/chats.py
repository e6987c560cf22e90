"""The list of chats, with its search."""

from datetime import date
from functools import partial
from pathlib import Path

from PySide6.QtCore import (
    QEvent,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QPoint,
    Qt,
    Signal,
)
from PySide6.QtGui import QKeyEvent, QKeySequence, QMouseEvent, QShortcut
from PySide6.QtWidgets import (
    QAbstractItemView,
    QInputDialog,
    QLineEdit,
    QListView,
    QMenu,
    QWidget,
)

from app.language import tr
from app.state.talk.chats import ChatRow
from app.state.workbench import Workbench
from app.theme import fonts
from app.theme.tokens import GRID
from app.views.talk.chat_rows import (
    ChatDelegate,
    ChatsModel,
    Heading,
    more_area,
    shown_title,
    under_headings,
)
from app.widgets.basics import IconButton, label, literal, surface
from app.widgets.file_dialogs import open_file, save_file
from app.widgets.focus import has_focus
from app.widgets.layouts import hbox, vbox

ENTER = (Qt.Key.Key_Return, Qt.Key.Key_Enter)
CLICKS = (
    QEvent.Type.MouseButtonPress,
    QEvent.Type.MouseButtonDblClick,
    QEvent.Type.MouseButtonRelease,
)


class ChatsView(QWidget):
    """Shows `bench.chats`; opens in `bench.chat`."""

    new_wanted = Signal()

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        surface(self, "canvas")
        self.setMinimumWidth(fonts.px(168))
        self._chats, self._chat = bench.chats, bench.chat
        self.search = QLineEdit()
        self.search.setPlaceholderText(tr("Search chats"))
        self.search.setAccessibleName(tr("Search chats"))
        self.search.setClearButtonEnabled(True)
        self.search.textChanged.connect(self._search)
        self.search.installEventFilter(self)
        self._preferences = bench.preferences
        self._model = ChatsModel(bench.chats, self)
        self.list = QListView()
        self.list.setAccessibleName(tr("Chats"))
        self.list.setModel(self._model)
        self.list.setItemDelegate(ChatDelegate(self.list))
        self.list.setDragDropMode(QAbstractItemView.DragDropMode.InternalMove)
        self.list.setDragDropOverwriteMode(True)  # onto a row, never between two
        self.list.installEventFilter(self)
        self.list.viewport().installEventFilter(self)
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
        self._empty = label(tr("No chats yet."), "quiet", wrap=True)
        self._empty.setContentsMargins(GRID, GRID, 0, 0)
        self.new = IconButton("plus", tr("New chat (Ctrl+N)"), self.new_wanted.emit)
        head = hbox((self.search, 1), self.new, spacing=GRID // 2)
        vbox(head, self._empty, (self.list, 1), on=self, margins=GRID)
        self._chats.changed.connect(self.refresh)
        self._chats.arrived.connect(self._chat.open)
        self._chat.path_changed.connect(self._mark)
        self._chat.details.changed.connect(self._mark)
        self.refresh()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Esc clears the search, before the window uses it; Down goes to its hits, Enter opens the
        first. Left and Right fold a folder. A click on a row's dots opens its menu.
        """
        if isinstance(event, QMouseEvent):
            return watched is self.list.viewport() and self._click_dots(event)
        if watched is self.list and isinstance(event, QKeyEvent):
            return event.type() == QEvent.Type.KeyPress and self._fold_by_key(event.key())
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            if event.key() == Qt.Key.Key_Down and self._model.rowCount():
                self._go_to_first()
                return True
            if event.key() in ENTER and self._chats.query and self._model.rowCount():
                self._open(self._go_to_first())
                return True
        escape = isinstance(event, QKeyEvent) and event.key() == Qt.Key.Key_Escape
        if escape and watched is self.search and self.search.text():
            if event.type() == QEvent.Type.ShortcutOverride:
                event.accept()
                return True
            if event.type() == QEvent.Type.KeyPress:
                self.search.clear()
                return True
        return False

    def _go_to_first(self) -> QModelIndex:
        """Move the keyboard to the first row that can be chosen."""
        rows = (self._model.index(row) for row in range(self._model.rowCount()))
        usable = (row for row in rows if row.flags() & Qt.ItemFlag.ItemIsSelectable)
        first = next(usable, self._model.index(0))
        self.list.setCurrentIndex(first)
        self.list.setFocus()
        return first

    def _search(self, query: str) -> None:
        self._chats.search(query)
        if not query:
            self._chat.found.emit(None, [])

    def refresh(self) -> None:
        rows, had_keyboard = self._chats.rows, has_focus(self.list)
        folded = self._preferences.value.folded_folders
        searches = bool(self._chats.query)
        self._model.show_items(rows if searches else under_headings(rows, folded, date.today()))
        if had_keyboard:  # a title that was edited takes it along
            self.list.setFocus()
        self._empty.setText(tr("Nothing found.") if self._chats.query else tr("No chats yet."))
        self._empty.setVisible(not rows)
        self._mark()

    def rename_current(self) -> None:
        self._rename(self._here())

    def duplicate_current(self) -> None:
        chat = self._here()
        if chat is not None:
            self._chats.duplicate(chat)

    def delete_current(self) -> None:
        self._delete(self._here())

    def export_current(self) -> None:
        chat = self._row_here()
        if chat is not None:
            self._export(chat)

    def import_file(self) -> None:
        path = open_file(self, tr("Import chats"), tr("Chats (*.json *.zip)"))
        if path:
            self._chats.import_file(Path(path))

    def toggle_pin(self) -> None:
        """Pin the chat, or take it from the pinned ones."""
        chat = self._row_here()
        if chat is not None:
            self._chats.set_pinned(chat.id, not chat.pinned)

    def move_to_folder(self) -> None:
        """Let the person name the chat's folder."""
        chat = self._row_here()
        if chat is not None:
            self._move_to_folder(chat)

    def edit_tags(self) -> None:
        """Let the person change the chat's tags."""
        chat = self._row_here()
        if chat is not None:
            self._edit_tags(chat)

    @property
    def is_pinned(self) -> bool:
        """True if the chat that commands act on is pinned."""
        chat = self._row_here()
        return chat is not None and chat.pinned

    def _row_here(self) -> ChatRow | None:
        here = self._here()
        return next((row for row in self._chats.rows if row.id == here), None)

    def _rename(self, chat: int | None) -> None:
        place = self._model.place(chat)
        if place is not None:
            self.list.setFocus()
            self.list.setCurrentIndex(self._model.index(place))
            self.list.edit(self._model.index(place))

    def _export(self, chat: ChatRow) -> None:
        title = shown_title(chat.title)
        name = "".join(c if c.isalnum() or c in " -_" else "_" for c in title)[:60].strip()
        path, _ = save_file(
            self, tr("Export the chat"), f"{name}.md", tr("Markdown (*.md);;Whole tree (*.json)")
        )
        if path:
            self._chats.export(chat.id, Path(path))

    def _move_to_folder(self, chat: ChatRow) -> None:
        title, names = tr("Move to folder"), self._chats.folders
        at = names.index(chat.folder) if chat.folder in names else -1
        name, agreed = QInputDialog.getItem(self, title, tr("Folder"), names, at, True)
        if agreed:
            self._chats.move(chat.id, name)

    def _edit_tags(self, chat: ChatRow) -> None:
        words = tr("Tags, separated by spaces. Search #tag to find them.")
        text, agreed = QInputDialog.getText(self, tr("Tags"), words, text=" ".join(chat.tags))
        if agreed:
            self._chats.set_tags(chat.id, text)

    def _add_folders(self, menu: QMenu, chat: ChatRow) -> None:
        for folder in self._chats.folders:
            move = menu.addAction(literal(folder), partial(self._chats.move, chat.id, folder))
            move.setCheckable(True)
            move.setChecked(folder == chat.folder)
        if chat.folder:
            menu.addAction(tr("No folder"), partial(self._chats.move, chat.id, ""))
        menu.addAction(tr("New folder…"), partial(self._move_to_folder, chat))

    def _rename_folder(self, folder: str) -> None:
        name, agreed = QInputDialog.getText(self, tr("Rename folder"), tr("Name"), text=folder)
        if agreed and name.strip():
            self._chats.rename_folder(folder, name)

    def _fold(self, heading: Heading, folded: bool) -> None:
        """Hide a folder's chats, or show them; the keyboard stays with it."""
        others = [name for name in self._preferences.value.folded_folders if name != heading.text]
        known = [name for name in others if name in self._chats.folders]
        self._preferences.update(folded_folders=[*known, heading.text] if folded else known)
        self.refresh()
        for row, item in enumerate(self._model.items):
            if isinstance(item, Heading) and item.folder and item.text == heading.text:
                self.list.setCurrentIndex(self._model.index(row))

    def _fold_by_key(self, key: int) -> bool:
        item = self._model.item(self.list.currentIndex())
        folds = key in (Qt.Key.Key_Left, Qt.Key.Key_Right)
        if not (folds and isinstance(item, Heading) and item.folder):
            return False
        self._fold(item, key == Qt.Key.Key_Left)
        return True

    def _here(self) -> int | None:
        """The chat under the list's cursor, else the open one."""
        item = self._model.item(self.list.currentIndex())
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
        item = self._model.item(index)
        if isinstance(item, Heading) and item.folder:
            self._fold(item, not item.folded)
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

    def _click_dots(self, event: QMouseEvent) -> bool:
        """Open the menu of the row whose dots are clicked; False for a click elsewhere."""
        at = event.position().toPoint()
        index = self.list.indexAt(at)
        on_dots = isinstance(self._model.item(index), ChatRow) and more_area(
            self.list.visualRect(index)
        ).contains(at)
        if not on_dots or event.type() not in CLICKS or event.button() != Qt.MouseButton.LeftButton:
            return False
        if event.type() == QEvent.Type.MouseButtonPress:
            self._menu(at)
        return True

    def _menu(self, at: QPoint) -> None:
        index = self.list.indexAt(at)
        item = self._model.item(index)
        if item is None or (isinstance(item, Heading) and not item.folder):
            return
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        if isinstance(item, Heading):
            menu.addAction(tr("Rename folder…"), partial(self._rename_folder, item.text))
            remove = partial(self._chats.rename_folder, item.text, "")
            menu.addAction(tr("Remove folder, keep its chats"), remove)
        else:
            self._fill_menu(menu, item)
        before = QPersistentModelIndex(self.list.currentIndex())
        self.list.setCurrentIndex(index)  # shows which row the menu belongs to
        menu.aboutToHide.connect(lambda: self._back_to(before))
        menu.popup(self.list.viewport().mapToGlobal(at))

    def _back_to(self, index: QPersistentModelIndex) -> None:
        if index.isValid():
            self.list.setCurrentIndex(self._model.index(index.row()))
        else:
            self._mark()

    def _fill_menu(self, menu: QMenu, chat: ChatRow) -> None:
        """Add what can be done with a chat; it need not be the open one."""
        menu.addAction(tr("Rename"), partial(self._rename, chat.id))
        pin = partial(self._chats.set_pinned, chat.id, not chat.pinned)
        menu.addAction(tr("Unpin") if chat.pinned else tr("Pin"), pin)
        self._add_folders(menu.addMenu(tr("Move to folder")), chat)
        menu.addAction(tr("Tags…"), partial(self._edit_tags, chat))
        for tag in chat.tags:
            find = partial(self.search.setText, f"#{tag}")
            menu.addAction(literal(tr("Show all with #{tag}", tag=tag)), find)
        menu.addAction(tr("Duplicate"), partial(self._chats.duplicate, chat.id))
        menu.addAction(tr("Export…"), partial(self._export, chat))
        menu.addSeparator()
        menu.addAction(tr("Delete"), partial(self._delete, chat.id))
