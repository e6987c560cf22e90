"""Markdown as a widget: blocks below each other, one selection across them, links, code to copy."""

from functools import partial
from time import perf_counter

from PySide6.QtCore import QEvent, QPointF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QFocusEvent,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QTextCursor,
    QWheelEvent,
)
from PySide6.QtWidgets import QMenu, QSizePolicy, QToolTip, QWidget

from app.theme.theme import tokens
from app.widgets.markdown.code_bar import CodeBar
from app.widgets.markdown.laid import Laid
from app.widgets.markdown.parse import Block, plain
from app.widgets.markdown.selection import Place, TextSelection
from app.widgets.markdown.stream import Stream

BUDGET = 0.008  # seconds of laying out before the window is given its turn
REST = 3  # times as long as a change took, the next one waits at least
CHARACTERS_A_LINE = 70
CARET_WIDTH = 8


class MarkdownView(QWidget):
    """Shows a text that may grow. Only blocks that became others are laid out again, and only
    those in sight are painted. A long text comes in slices between which the window stays alive.
    """

    height_changed = Signal()
    link_clicked = Signal(str)
    dragged = Signal(int)  # the height at which a selection is being drawn
    copied = Signal(str)  # what went to the clipboard

    def __init__(self, name: str) -> None:
        super().__init__()
        self._stream = Stream()
        self._plain: list[Block] | None = None
        self._laid: list[Laid] = []
        self._bars: dict[int, CodeBar] = {}
        self._live = False
        self._height = self._width = 0
        self._pressed_link = ""
        self.selection = TextSelection()
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._pump)
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName(name)

    # The text

    def set_text(self, text: str, live: bool = False) -> None:
        """Show a text; `live` says that it grows, which a caret behind it tells."""
        if self._live != live:
            self._live = live
            ended = not live and bool(self._laid) and self._laid[-1].block.kind == "code"
            if ended:
                self._lay_from(len(self._laid) - 1)  # with the colours of the whole
            self.update()
        self._stream.set_text(text)
        if not self._timer.isActive():
            self._pump()

    def set_plain(self, text: str) -> None:
        """Show a text as it was typed."""
        self._plain = plain(text)
        self._lay_from(0)

    def finish(self) -> None:
        """Take all of the text now, however long that takes."""
        while not self._stream.complete:
            self._step()
        self._settle()

    @property
    def blocks(self) -> list[Block]:
        """What is shown."""
        return self._stream.blocks if self._plain is None else self._plain

    @property
    def text(self) -> str:
        """All that is shown, as plain text."""
        return "\n\n".join(laid.text(0, laid.length) for laid in self._laid)

    @property
    def selected_text(self) -> str:
        """What is selected, as plain text."""
        return self._text_of_selection()

    def _pump(self) -> None:
        """Lay out what is new, for a while; then let the window do something else."""
        began = perf_counter()
        while not self._stream.complete and perf_counter() - began < BUDGET:
            self._step()
        self._settle()
        took = perf_counter() - began
        if not self._stream.complete:
            self._timer.start(1)
        elif self._live:
            self._timer.start(round(took * REST * 1000))

    def _step(self) -> None:
        self._lay_from(self._stream.step(), settle=False)

    def _lay_from(self, first: int, settle: bool = True) -> None:
        grown = first if self._extend(first) else first - 1
        del self._laid[grown + 1 :]
        if self._width:
            for n, block in enumerate(self.blocks[grown + 1 :], grown + 1):
                laid = Laid(block, self.blocks[n - 1] if n else None, self._width)
                laid.top = (self._laid[-1].bottom if self._laid else 0) + laid.gap
                self._laid.append(laid)
        if not self.selection.empty and self.selection.bounds[1].block >= first:
            self.selection.clear()
        if settle:
            self._settle()

    def _extend(self, block: int) -> bool:
        """Whether the block laid out there could take what it has grown by."""
        grows = self._live and block < min(len(self._laid), len(self.blocks))
        return grows and self._laid[block].extend(self.blocks[block])

    def _settle(self) -> None:
        """Bars of code, height and picture follow the blocks."""
        self._place_bars()
        height = self._laid[-1].bottom if self._laid else 0
        if self._stream.left and self._laid:
            line = self._laid[-1].document.defaultFont().pixelSize() * 3 // 2
            height += self._stream.left // CHARACTERS_A_LINE * line
        if height != self._height:
            self._height = height
            self.updateGeometry()
            self.height_changed.emit()
        self.update()

    def _place_bars(self) -> None:
        codes = {n for n, laid in enumerate(self._laid) if laid.block.kind == "code"}
        for gone in self._bars.keys() - codes:
            bar = self._bars.pop(gone)
            bar.hide()
            bar.deleteLater()
        for n in codes:
            laid = self._laid[n]
            if n not in self._bars:
                self._bars[n] = CodeBar(self)
                self._bars[n].copied.connect(self.copied)
                self._bars[n].scrolled.connect(self._scroll_code)
                self._bars[n].show()
            self._bars[n].follow(n, laid)

    def _scroll_code(self, block: int, shift: int) -> None:
        if block < len(self._laid):
            self._laid[block].shift = shift
            self.update()

    # Size

    def hasHeightForWidth(self) -> bool:  # noqa: N802
        return True

    def heightForWidth(self, width: int) -> int:  # noqa: N802
        self._set_width(width)
        return self._height

    def sizeHint(self) -> QSize:  # noqa: N802
        return QSize(self._width or 400, self._height)

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        return QSize(120, 0)

    def _set_width(self, width: int) -> None:
        if width == self._width or width <= 0:
            return
        fresh, self._width = not self._width, width
        if fresh:
            self._lay_from(0, settle=False)
        else:
            top = 0
            for laid in self._laid:
                laid.lay(width)
                laid.top = top + laid.gap
                top = laid.bottom
        self._height = self._laid[-1].bottom if self._laid else 0
        self._place_bars()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.FontChange) and self._width:
            self._laid.clear()  # else what still grows would keep its old colours
            self._lay_from(0)

    # Drawing

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        seen = event.rect()
        for n, laid in enumerate(self._laid):
            if laid.top > seen.bottom():
                break
            if laid.bottom >= seen.top():
                laid.paint(painter, self.selection.within(n, laid.length))
        if self._live and self._laid:
            place = self._laid[-1].end_rect()
            place.setWidth(CARET_WIDTH)
            painter.fillRect(place.translated(2, 0), QColor(tokens().accent))
        painter.end()

    # Mouse and keyboard

    def _place_at(self, point: QPointF) -> Place:
        for n, laid in enumerate(self._laid):
            if point.y() < laid.bottom or n == len(self._laid) - 1:
                return Place(n, laid.position_at(point))
        return Place(0, 0)

    def _link_at(self, point: QPointF) -> str:
        for laid in self._laid:
            if laid.top <= point.y() < laid.bottom:
                return laid.link_at(point)
        return ""

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
        self.setToolTip(link)
        if not link:
            QToolTip.hideText()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        link = self._link_at(event.position())
        if link and link == self._pressed_link and self.selection.empty:
            self.link_clicked.emit(link)
        self._pressed_link = ""

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        place = self._place_at(event.position())
        cursor = QTextCursor(self._laid[place.block].document)
        cursor.setPosition(place.position)
        cursor.select(QTextCursor.SelectionType.WordUnderCursor)
        ends = cursor.selectionStart(), cursor.selectionEnd()
        self.selection.select(Place(place.block, ends[0]), Place(place.block, ends[1]))
        self.update()

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        sideways = event.angleDelta().x()
        if event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            sideways = sideways or event.angleDelta().y()
        bar = self._bars.get(self._place_at(event.position()).block) if self._laid else None
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
        copy = menu.addAction("Copy", self.copy)
        copy.setEnabled(not self.selection.empty)
        menu.addAction("Select all", self.select_all)
        links = [link] if link else self.links
        if links:
            menu.addSeparator()
        for address in links:
            menu.addAction(f"Open {address}", partial(self.link_clicked.emit, address))
            menu.addAction(f"Copy {address}", partial(self._to_clipboard, address))
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(event.globalPos())

    @property
    def links(self) -> list[str]:
        """All addresses, each once."""
        return list(
            dict.fromkeys(span.href for block in self.blocks for span in block.spans if span.href)
        )

    def select_all(self) -> None:
        if self._laid:
            last = len(self._laid) - 1
            self.selection.select(Place(0, 0), Place(last, self._laid[last].length))
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
        said = ""
        for n, laid in enumerate(self._laid):
            part = self.selection.within(n, laid.length)
            if part is not None:
                between = "\n" if laid.block.close else "\n\n"
                said += (between if said else "") + laid.text(*part)
        return said
