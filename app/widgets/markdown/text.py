"""Markdown laid out and painted: blocks below each other, as a text that may grow."""

import math
from collections.abc import Iterable, Sequence
from time import perf_counter
from typing import NamedTuple
from weakref import ref

from PySide6.QtCore import QEvent, QSize, QTimer, Signal
from PySide6.QtGui import QColor, QMoveEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app import turn
from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import CHAT_PX
from app.widgets.markdown.code_bar import CodeBars
from app.widgets.markdown.documents import load_languages, unloaded
from app.widgets.markdown.laid import END, Laid, words_of
from app.widgets.markdown.parse import TextBlock
from app.widgets.markdown.pictures import pictures
from app.widgets.markdown.places import LitParts, characters, shown_part, source_of
from app.widgets.markdown.stack import AT_ONCE, KEPT, Stack
from app.widgets.markdown.stream import PlainStream, Stream
from app.widgets.markdown.tex import Formula, FormulaPicture, typeset_all
from app.widgets.tokens.lights import Light
from app.work import Work


class TextPlace(NamedTuple):
    """A position in one of the blocks."""

    block: int
    position: int


class TextSelection:
    """Nothing is selected while anchor and cursor are the same place."""

    def __init__(self) -> None:
        self.anchor = self.cursor = TextPlace(0, 0)

    @property
    def empty(self) -> bool:
        return self.anchor == self.cursor

    @property
    def bounds(self) -> tuple[TextPlace, TextPlace]:
        """The earlier and the later end."""
        return min(self.anchor, self.cursor), max(self.anchor, self.cursor)

    def select(self, anchor: TextPlace, cursor: TextPlace) -> None:
        self.anchor, self.cursor = anchor, cursor

    def clear(self) -> None:
        self.anchor = self.cursor

    def within(self, block: int, length: int) -> tuple[int, int] | None:
        """The part of a block of that length that is selected, None where nothing is."""
        start, end = self.bounds
        if self.empty or not start.block <= block <= end.block:
            return None
        first = start.position if block == start.block else 0
        last = end.position if block == end.block else length
        return (first, last) if first < last else None


REST = 3  # times as long as a change took, the next one waits at least
SHORT = 1000  # px of a text that is not laid out in slices where it can be seen
CHARACTERS_A_LINE = 70
CARET_WIDTH = 8
ROUNDS = 4


class MarkdownText(QWidget):
    """Shows a text that may grow. Only changed blocks are laid out again, and only visible
    ones are painted. A long text comes in slices between which the window stays alive;
    what was not measured yet has a guessed height.
    """

    height_changed = Signal()
    mark_found = Signal(int)  # where the first marked word is, if `mark` came before it was parsed

    def __init__(self, name: str) -> None:
        super().__init__()
        self._stream: Stream | PlainStream = Stream()
        self._stack = Stack()
        self.bars = CodeBars(self, self._stack)
        self._live = False
        self._height = self._width = 0
        self._drawing: Work | None = None
        self._marked: Sequence[str] = ()
        self._unsearched: int | None = None  # first block not searched for a marked word
        self._pointed: tuple[int, int] | None = None  # of the source
        self._lit = LitParts(self._block_at)
        self.selection = TextSelection()
        self._waits = False  # for a turn that has time
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._go_on)
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self.setAccessibleName(name)
        held = ref(self)
        self.destroyed.connect(lambda: _free(held()))

    # The text

    def set_text(self, text: str, live: bool = False) -> None:
        """Show a text; while it is `live`, and grows, a caret follows it."""
        if self._live != live:
            self._live = live
            last = len(self.laid) - 1
            if not live and last >= 0 and self.laid[last].block.kind == "code":
                self._stack.renew([last])  # with the colours of the whole
            self.update()
        self._stream.set_text(text)
        if not self._timer.isActive() and not self._waits:
            self._pump()

    def set_plain(self, text: str) -> None:
        """Show a text as it was typed."""
        if not isinstance(self._stream, PlainStream):
            self._stream = PlainStream()
        self._stream.set_text(text)
        if not self._stream.blocks:
            self._put(0)
        if not self._timer.isActive() and not self._waits:
            self._pump()

    def finish(self) -> None:
        """Take all of the text now, however long that takes."""
        while not self._stream.complete:
            self._put(self._stream.step())
        self._stack.measure_more(math.inf)
        self._settle()

    @property
    def blocks(self) -> list[TextBlock]:
        """The displayed blocks."""
        return self._stream.blocks

    @property
    def laid(self) -> list[Laid]:
        """Its blocks as they stand in this widget; none before it has a width."""
        return self._stack.laid

    @property
    def complete(self) -> bool:
        """True if all of the text is parsed, and every height exact."""
        return self._stream.complete and self._stack.complete

    @property
    def text(self) -> str:
        """All that is shown, as plain text."""
        parts = [block.space + words_of(block) for block in self.blocks]
        return "".join(parts).removeprefix(self.blocks[0].space) if parts else ""

    def _pump(self, least: int = AT_ONCE) -> None:
        """Parse and measure for as long as the turn has time; then let the window handle events."""
        began = perf_counter()
        while not self._stream.complete:
            self._put(self._stream.step())
            if not self._width or not turn.left():
                break  # without a width, the rest when the first part is shown
        self._settle(least)
        if self._unsearched is not None:
            at = self._search_marked()
            if at is not None:
                self.mark_found.emit(at)
        took = perf_counter() - began
        if not self.complete:
            self._timer.start(1)
        elif self._live:
            self._timer.start(round(took * REST * 1000))

    def _go_on(self) -> None:
        """Parse and lay out the rest of the text; nothing where nothing did."""
        if not self.complete and not self._waits:
            self._waits = True
            turn.later(self, self._take_turn)

    def _take_turn(self) -> None:
        self._waits = False
        self._pump(least=1)

    def _put(self, first: int) -> None:
        """Replace the blocks from index `first` on."""
        if not self._width:
            return
        grows = self._live and first < min(len(self.laid), len(self.blocks))
        grown = grows and self._stack.extend(first, self.blocks[first])
        kept = first + 1 if grown else first
        if languages := unloaded(self.blocks[kept:]):
            Work(load_languages, languages).then(self._colour).start(self)
        self._stack.put(kept, self.blocks[kept:])
        put = self.laid[first] if first < len(self.laid) else None
        self._update_from(self._stack.height if put is None else put.top - put.gap)
        self._lit.forget()
        if not self.selection.empty and self.selection.bounds[1].block >= first:
            self.selection.clear()

    def _settle(self, least: int = AT_ONCE) -> None:
        """Heights, bars of code and the picture follow the blocks."""
        if self._width:
            self._update_from(self._stack.measure_more(turn.left(), least))
        self.bars.place()
        self._request_pictures(self.laid[:KEPT])
        height = self._guessed_height()
        if height != self._height:
            self._height = height
            self.updateGeometry()
            self.height_changed.emit()

    def _update_from(self, y: int) -> None:
        """Paint again what is below a y."""
        self.update(0, y, self.width(), max(self.height(), self._height) - y)

    def _guessed_height(self) -> int:
        """The height of what is laid out, and about that of the rest."""
        rest = self._stream.left // CHARACTERS_A_LINE if self.laid else 0
        return self._stack.height + rest * (fonts.px(CHAT_PX) * 3 // 2)

    def mark(self, words: Sequence[str]) -> int | None:
        """Mark words wherever they stand; where the first of them does, if any does. In a text that
        is still being parsed it may be found later (`mark_found`).
        """
        self._marked, self._unsearched = words, 0
        self.update()
        return self._search_marked()

    def _search_marked(self) -> int | None:
        """Search the blocks that were not searched yet for the first marked word."""
        wanted = [word.casefold() for word in self._marked]
        first = self._unsearched or 0
        self._unsearched = None
        for row in range(first, len(self.laid)):
            laid = self.laid[row]
            text = words_of(laid.block).casefold()
            if any(word in text for word in wanted):
                self._stack.measure([row])
                places = laid.places_of(self._marked)
                return laid.y_of(places[0][0]) if places else laid.top
        if wanted and not self._stream.complete:
            self._unsearched = max(first, len(self.laid) - 1)  # the last one may still change
        return None

    def point(self, part: tuple[int, int] | None) -> int | None:
        """Mark what is shown of a part of the text that was set; where it stands, if it does."""
        if part != self._pointed:
            self._pointed = part
            self.update()
        for row, (first, _) in self._pointed_in(range(len(self.laid))).items():
            self._stack.measure([row])
            return self.laid[row].y_of(first)
        return None

    @property
    def pointed_text(self) -> str:
        """The displayed text that `point` marks."""
        for row, place in self._pointed_in(range(len(self.laid))).items():
            return self.laid[row].document.toRawText()[slice(*place)]
        return ""

    def _pointed_in(self, rows: range) -> dict[int, tuple[int, int]]:
        """Return the marked block of these, with the range in its document."""
        found = self._block_at(self._pointed[0]) if self._pointed is not None else None
        if self._pointed is None or found is None or found[0] not in rows:
            return {}
        row, start, source = found
        first, last = self._pointed
        shown = self.laid[row].document.toRawText()
        return {row: shown_part(source, shown, first - start, last - start)}

    def light(self, lights: Sequence[Light]) -> None:
        """Light parts of the text that was set, in their order."""
        if self._lit.show(lights):
            self.update()

    @property
    def lit_words(self) -> list[tuple[str, float]]:
        """Return the displayed highlighted words and their strengths."""
        return [
            (self.laid[row].document.toRawText()[first:last], strength)
            for row in range(len(self.laid))
            for first, last, strength in self.lit_in(row)
        ]

    def lit_in(self, row: int) -> list[Light]:
        """Return the highlighted ranges of a block, by displayed characters."""
        return self._lit.of_block(row, self.laid[row].document.toRawText())

    def _block_at(self, position: int) -> tuple[int, int, str] | None:
        """The block that a position of the text is in, where its source begins, and its source."""
        return self._stream.block_at(position)

    def source_position(self, row: int, position: int) -> int | None:
        """The character of the text that was set which a position of a block comes from."""
        found = self._block_at(self.blocks[row].start)
        if found is None or found[0] != row:
            return None
        shown = self.laid[row].document.toRawText()
        return found[1] + source_of(found[2], shown, characters(shown, position))

    # Formulas

    def _request_pictures(self, seen: Iterable[Laid]) -> None:
        """Have formulas of these blocks drawn, beside the window's work."""
        if self._drawing is None:
            unknown = {formula for laid in seen for formula in laid.unknown}
            if unknown:
                work = Work(typeset_all, tuple(unknown)).then(self._pictures_made)
                self._drawing = work.start(self)

    def _pictures_made(self, made: dict[Formula, FormulaPicture | None]) -> None:
        pictures.keep(made)
        self._drawing = None
        drawn = {formula for formula, picture in made.items() if picture is not None}
        self._lay_again(n for n, b in enumerate(self.laid) if not drawn.isdisjoint(b.formulas))

    def _colour(self, languages: frozenset[str]) -> None:
        """Lay out code of languages whose colours are known now."""
        self._lay_again(n for n, b in enumerate(self.blocks) if b.language.lower() in languages)

    def _lay_again(self, rows: Iterable[int]) -> None:
        self._stack.renew(rows)
        self.selection.clear()
        self._settle()
        self.update()
        if not self.complete:
            self._timer.start(1)

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
        self._stack.set_width(width)
        if fresh:
            self._put(0)
        if fresh or (self._height < SHORT and not self.visibleRegion().isEmpty()):
            self._stack.measure_more(0)
        else:  # what is in sight is laid out as it is painted, the rest in turns to come
            self._stack.measure_more(0, least=1)
        self._height = self._guessed_height()
        self.bars.place()
        if not self.complete:
            self._timer.start(1)

    def mark_at(self, y: int) -> tuple[int, int]:
        """Return the content at y: a block, and the distance below its top."""
        row = self._stack.row_at(y) if self.laid else 0
        return row, y - self.laid[row].top if self.laid else y

    def y_of(self, mark: tuple[int, int]) -> int:
        """The y of such a mark now."""
        row, below = mark
        return self.laid[row].top + below if row < len(self.laid) else below

    def moveEvent(self, event: QMoveEvent) -> None:  # noqa: N802
        super().moveEvent(event)
        if self.bars.some_missing:
            self.bars.place()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        kind = event.type()
        if kind in (QEvent.Type.PaletteChange, QEvent.Type.FontChange) and self._width:
            self._stack.release()  # else they would keep their old colours
            if kind == QEvent.Type.FontChange:
                self._stack.set_width(self._width)
            self._settle(least=1)  # painting measures what can be seen, later turns the rest
            if not self.complete:
                self._timer.start(1)
            self.update()

    # Drawing

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        seen = event.rect()
        moved = False
        for _ in range(ROUNDS):  # what is measured brings other blocks into sight
            rows = self._stack.rows_in(seen.top(), seen.bottom())
            if not self._stack.measure(rows):
                break
            moved = True
        parts = self._pointed_in(rows)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for n in rows:
            lights = self.lit_in(n) if self._lit.lights else ()
            selected = self.selection.within(n, END)
            self.laid[n].paint(painter, selected, self._marked, parts.get(n), lights)
        if self._live and self.laid:
            place = self.laid[-1].end_rect()
            place.setWidth(CARET_WIDTH)
            painter.fillRect(place.translated(2, 0), QColor(tokens().accent))
        painter.end()
        self._request_pictures(self.laid[n] for n in rows)
        if moved and not self._timer.isActive():
            self._timer.start(0)


def _free(gone: MarkdownText | None) -> None:
    """Free the blocks of a widget that is destroyed: garbage collection would free all at once."""
    if gone is not None:
        turn.free(gone._stack.taken())
        turn.free(gone._stream.blocks)
