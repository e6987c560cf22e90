"""Pictures side by side, in rows: looked at, removed, and put into another order."""

from collections.abc import Sequence

from PySide6.QtCore import QPoint, QRect, QSize, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QScrollArea, QSizePolicy, QWidget

from app.theme.tokens import GRID
from app.widgets.basics import scrolled
from app.widgets.focus import OwnOrder
from app.widgets.layouts import vbox
from app.widgets.pictures.card import Card, PictureItem
from app.widgets.pictures.loader import PictureLoader

MOST_ROWS = 2.5  # of cards, before they scroll


class PictureStrip(QWidget, OwnOrder):
    """Cards from the left; Left and Right go from one to the next. Hidden where there are none."""

    opened = Signal(int)
    removed = Signal(int)
    chosen = Signal(int, int)  # a place, and one of what is offered there
    moved = Signal(int, int)  # from a place to another

    def __init__(self, name: str, loader: PictureLoader, editable: bool = False) -> None:
        super().__init__()
        self._loader, self._editable = loader, editable
        self._inside = QWidget()
        self._area: QScrollArea = scrolled(self._inside)
        self._area.setWidgetResizable(False)
        self._dragged: tuple[int, int] | None = None  # from where, to where
        self.cards: list[Card] = []
        self.setAccessibleName(name)
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        vbox(self._area, on=self)
        self.hide()

    def stops(self) -> list[QWidget]:
        found: list[QWidget] = []
        for card in self.cards:
            buttons = (card.more_button, card.close_button)
            found += [card, *(button for button in buttons if button.isVisibleTo(card))]
        return found

    def show_items(self, items: Sequence[PictureItem]) -> None:
        """These pictures, in their order."""
        had = next((n for n, card in enumerate(self.cards) if card.hasFocus()), None)
        while len(self.cards) > len(items):
            gone = self.cards.pop()
            gone.hide()
            gone.deleteLater()
        while len(self.cards) < len(items):
            self._add(len(self.cards))
        for place, (card, item) in enumerate(zip(self.cards, items, strict=True)):
            if card.shown != (item, place, len(items)):
                card.show_item(item, place, len(items))
        self.setVisible(bool(items))
        self._arrange()
        self.updateGeometry()
        if had is not None and items:
            self.cards[min(had, len(items) - 1)].setFocus()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._arrange()

    def heightForWidth(self, width: int) -> int:  # noqa: N802
        places = self._places(width)
        if not places:
            return 0
        row = places[0].height()
        whole = max(place.bottom() for place in places) + 1
        return min(whole, round(row * MOST_ROWS)) if self._editable else whole

    def sizeHint(self) -> QSize:  # noqa: N802
        return QSize(320, self.heightForWidth(max(self.width(), 1)))

    def _add(self, place: int) -> None:
        card = Card(self._loader, self._editable)
        card.setParent(self._inside)
        card.opened.connect(lambda: self.opened.emit(self.cards.index(card)))
        card.removed.connect(lambda: self.removed.emit(self.cards.index(card)))
        card.chosen.connect(lambda choice: self.chosen.emit(self.cards.index(card), choice))
        card.step_wanted.connect(lambda step: self._step(self.cards.index(card), step))
        card.next_wanted.connect(lambda step: self._focus(self.cards.index(card) + step))
        card.dragged.connect(lambda at: self._drag(card, at))
        card.dropped.connect(self._drop)
        card.show()
        self.cards.append(card)

    def _focus(self, place: int) -> None:
        if 0 <= place < len(self.cards):
            self.cards[place].setFocus()
            self._area.ensureWidgetVisible(self.cards[place])

    def _step(self, place: int, step: int) -> None:
        if 0 <= place + step < len(self.cards):
            self.moved.emit(place, place + step)
            self._focus(place + step)

    def _drag(self, card: Card, at: QPoint) -> None:
        """The card goes where the pointer is; the others make room."""
        place = self.cards.index(card)
        begun = self._dragged[0] if self._dragged is not None else place
        self._dragged = begun, place
        over = next((n for n, c in enumerate(self.cards) if c.geometry().contains(at)), place)
        if over != place:
            self.cards.insert(over, self.cards.pop(place))
            self._dragged = begun, over
            self._arrange()
        card.raise_()

    def _drop(self) -> None:
        dragged, self._dragged = self._dragged, None
        if dragged is not None and dragged[0] != dragged[1]:
            self.moved.emit(*dragged)

    def _places(self, width: int) -> list[QRect]:
        """Where the cards go: row by row, none wider than all there is."""
        places: list[QRect] = []
        hints = [card.sizeHint() for card in self.cards]
        height = max((hint.height() for hint in hints), default=0)
        left = top = 0
        for hint in hints:
            wide = min(hint.width(), width)
            if left and left + wide > width:
                left, top = 0, top + height + GRID // 2
            places.append(QRect(left, top, wide, height))
            left += wide + GRID // 2
        return places

    def _arrange(self) -> None:
        width = self.width()
        places = self._places(width)
        if max((place.bottom() for place in places), default=0) >= self.heightForWidth(width):
            width -= self._area.verticalScrollBar().sizeHint().width()
            places = self._places(width)
        for card, place in zip(self.cards, places, strict=True):
            card.setGeometry(place)
        bottom = max((place.bottom() + 1 for place in places), default=0)
        self._inside.resize(width, bottom)
