"""Markdown as a widget to read: one selection across its blocks, links, code to copy."""

from functools import partial

from PySide6.QtCore import QPointF, Qt, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QFocusEvent,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QTextCursor,
    QWheelEvent,
)
from PySide6.QtWidgets import QMenu

from app.language import tr
from app.widgets.markdown.laid import END
from app.widgets.markdown.text import MarkdownText, TextPlace
from app.widgets.tips import hide_tip, set_tip


class MarkdownView(MarkdownText):
    """Interaction with a text: select, copy, follow links, scroll code sideways."""

    link_clicked = Signal(str)
    word_clicked = Signal(int)  # the character of the text that was set
    dragged = Signal(int)  # the height at which a selection is being drawn
    copied = Signal(str)  # what went to the clipboard
    menu_made = Signal(QMenu)  # the context menu, to be extended before it is shown

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._pressed_link = ""
        self.bars.copied.connect(self.copied)
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    @property
    def selected_text(self) -> str:
        """Return the selection as plain text."""
        return self._text_of_selection()

    def _place_at(self, point: QPointF) -> TextPlace:
        if not self.laid:
            return TextPlace(0, 0)
        row = self._stack.row_at(point.y())
        return TextPlace(row, self.laid[row].position_at(point))

    def _link_at(self, point: QPointF) -> str:
        laid = self.laid[self._stack.row_at(point.y())] if self.laid else None
        inside = laid is not None and laid.top <= point.y() < laid.bottom
        return laid.link_at(point) if laid is not None and inside else ""

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        if event.button() != Qt.MouseButton.LeftButton:
            return
        place = self._place_at(event.position())
        self._pressed_link = self._link_at(event.position())
        extends = event.modifiers() & Qt.KeyboardModifier.ShiftModifier
        self.selection.select(self.selection.anchor if extends else place, place)
        self.update()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        if event.buttons() & Qt.MouseButton.LeftButton:
            self.selection.select(self.selection.anchor, self._place_at(event.position()))
            self.update()
            self.dragged.emit(round(event.position().y()))
            return
        link = self._link_at(event.position())
        shape = Qt.CursorShape.PointingHandCursor if link else Qt.CursorShape.IBeamCursor
        self.setCursor(shape)
        set_tip(self, link)
        if not link:
            hide_tip()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        link = self._link_at(event.position())
        if event.button() != Qt.MouseButton.LeftButton:
            return
        if link and link == self._pressed_link and self.selection.empty:
            self.link_clicked.emit(link)
        elif self.selection.empty and not self._pressed_link:
            self._click_word(event.position())
        self._pressed_link = ""

    def _click_word(self, point: QPointF) -> None:
        laid = self.laid[self._stack.row_at(point.y())] if self.laid else None
        if laid is None or not laid.top <= point.y() < laid.bottom:
            return
        row, position = self._place_at(point)
        at = self.source_position(row, position)
        if at is not None:
            self.word_clicked.emit(at)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        place = self._place_at(event.position())
        cursor = QTextCursor(self.laid[place.block].document)
        cursor.setPosition(place.position)
        cursor.select(QTextCursor.SelectionType.WordUnderCursor)
        ends = cursor.selectionStart(), cursor.selectionEnd()
        self.selection.select(TextPlace(place.block, ends[0]), TextPlace(place.block, ends[1]))
        self.update()

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        sideways = event.angleDelta().x()
        if event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            sideways = sideways or event.angleDelta().y()
        bar = self.bars.at(event.position().y())
        if sideways and bar is not None and bar.scroll_by(-sideways // 2):
            event.accept()
        else:
            event.ignore()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy()
        elif event.matches(QKeySequence.StandardKey.SelectAll):
            self.select_all()
        else:
            event.ignore()

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        super().focusOutEvent(event)
        kept = (Qt.FocusReason.PopupFocusReason, Qt.FocusReason.ActiveWindowFocusReason)
        if event.reason() not in kept and not self.selection.empty:
            self.selection.clear()
            self.update()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802
        link = self._link_at(QPointF(event.pos()))
        menu = QMenu(self)
        copy = menu.addAction(tr("Copy"), self.copy)
        copy.setEnabled(not self.selection.empty)
        menu.addAction(tr("Select all"), self.select_all)
        links = [link] if link else self.links
        if links:
            menu.addSeparator()
        for address in links:
            menu.addAction(
                tr("Open {address}", address=address), partial(self.link_clicked.emit, address)
            )
            menu.addAction(
                tr("Copy {address}", address=address), partial(self._to_clipboard, address)
            )
        self.menu_made.emit(menu)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(event.globalPos())

    @property
    def links(self) -> list[str]:
        """All addresses, each once."""
        return list(
            dict.fromkeys(span.href for block in self.blocks for span in block.spans if span.href)
        )

    def select_all(self) -> None:
        if self.laid:
            last = len(self.laid) - 1
            self.selection.select(TextPlace(0, 0), TextPlace(last, self.laid[last].length))
            self.update()

    def copy(self) -> None:
        """Put what is selected on the clipboard."""
        text = self._text_of_selection()
        if text:
            self._to_clipboard(text)

    def _to_clipboard(self, text: str) -> None:
        QGuiApplication.clipboard().setText(text)
        self.copied.emit(text)

    def _text_of_selection(self) -> str:
        text = ""
        first, last = self.selection.bounds
        for n in range(first.block, min(last.block + 1, len(self.laid))):
            laid = self.laid[n]
            part = self.selection.within(n, END)
            if part is not None:
                text += (laid.block.space if text else "") + laid.text(*part)
        return text
