"""A band of pieces as wide as their sizes, such as the parts of a time or of a memory."""

from collections.abc import Sequence
from typing import NamedTuple

from PySide6.QtCore import QPointF, QRectF

from app.theme import fonts
from app.theme.devices import component_brushes, component_colour
from app.theme.theme import tokens
from app.theme.tokens import RADIUS_CONTROL, readable
from app.widgets.plots.chart import Chart
from app.widgets.plots.paper import CENTER, DASHED, Brush, Paper, text_height, text_width

HEAD, BAND, MARGIN = 28, 32, 8


class Look(NamedTuple):
    """Brushes one over the other and the colour of text on them; `plate` is put below the text
    where a pattern would run through its letters.
    """

    brushes: Sequence[Brush]
    ink: str
    plate: str = ""


class Piece(NamedTuple):
    """At least `least` pixels wide. Pieces of one `stop` are one part of the chart; a piece without
    a look is left empty. Of `texts` the first that fits is written.
    """

    size: float
    look: Look | None
    texts: tuple[str, ...]
    stop: int | None
    least: float = 3.0


class Joint(NamedTuple):
    """An arrow to a piece from the one before, with a text above it."""

    text: str
    tone: str
    ink: str


class Bands(Chart):
    """A head, and a band below it with a piece beside the other."""

    above, high, between = HEAD, BAND, 0.0

    def head(self) -> tuple[str, str, str] | None:
        """Title, number and unit."""
        return None

    def pieces(self) -> Sequence[Piece]:
        raise NotImplementedError

    def whole(self) -> float:
        """The size of the whole band, where pieces do not fill it."""
        return 0.0

    def empty(self) -> str:
        """Words in place of pieces."""
        return ""

    def framed(self, at: int) -> bool:
        """Whether a part is selected."""
        return False

    def joint(self, at: int) -> Joint | None:
        """What leads to a piece from the one before."""
        return None

    def tall(self) -> float:
        return fonts.px(self.above + self.high)

    def band(self) -> QRectF:
        """The place of all pieces."""
        return QRectF(0, fonts.px(self.above), self.width(), fonts.px(self.high))

    def head_area(self) -> QRectF:
        """The place of title and number."""
        return QRectF(0, 0, self.width(), fonts.px(self.above - 6))

    def places(self) -> list[tuple[Piece, QRectF]]:
        """Every piece with its place."""
        pieces, band = self.pieces(), self.band()
        whole = max(self.whole(), sum(piece.size for piece in pieces), 1.0)
        between = min(self.between, band.width() / max(4 * len(pieces), 1))
        spent = sum(piece.least for piece in pieces) + between * (len(pieces) - 1)
        room, left, placed = max(band.width() - spent, 1.0), band.left(), []
        for piece in pieces:
            wide = piece.least + room * piece.size / whole
            placed.append((piece, QRectF(left, band.top(), wide, band.height())))
            left += wide + between
        return placed

    def areas(self) -> list[QRectF]:
        found: dict[int, QRectF] = {}
        for piece, area in self.places():
            if piece.stop is not None:
                found[piece.stop] = found.get(piece.stop, area).united(area)
        return list(found.values())

    def draw(self, paper: Paper) -> None:
        places, now = self.places(), tokens()
        if not places or any(piece.look is None for piece, _ in places):
            inside = self.band().adjusted(0.5, 0.5, -0.5, -0.5)
            paper.frame(inside, now.divider, 1, RADIUS_CONTROL, DASHED)
        if not places:
            paper.text(self.band(), self.empty(), tone=now.quiet, align=CENTER)
        head = self.head()
        if head is not None:
            paper.head(self.head_area(), *head)
        for n, (piece, area) in enumerate(places):
            self.draw_piece(paper, n, piece, area)
            joint = self.joint(n) if n else None
            if joint is not None:
                _draw_joint(paper, joint, places[n - 1][1], area)
        for at, area in enumerate(self.areas()):
            focused = self.hasFocus() and at == self.at
            if focused or self.framed(at):
                tone = now.text if focused else now.accent
                paper.frame(area.adjusted(1, 1, -1 - (not self.between), -1), tone, 2)

    def draw_piece(self, paper: Paper, at: int, piece: Piece, area: QRectF) -> None:
        tone = tokens().quiet
        if piece.look is not None:
            area = area.adjusted(0, 0, -1 if not self.between else 0, 0)
            paper.fill(area, *piece.look.brushes)
            tone = piece.look.ink
            if piece.look.plate and piece.texts:
                _draw_plate(paper, piece, area)
        paper.text(area, *piece.texts, tone=tone, align=CENTER, margin=MARGIN)


def component_look(device: str, component: str) -> Look:
    """How a device's component looks."""
    return Look(component_brushes(device, component), readable(component_colour(device, component)))


def _draw_plate(paper: Paper, piece: Piece, area: QRectF) -> None:
    assert piece.look is not None
    wide = next((w for w in map(text_width, piece.texts) if w <= area.width() - MARGIN), None)
    if wide is not None:
        plate = QRectF(0, 0, wide + 6, text_height())
        plate.moveCenter(area.center())
        paper.fill(plate & area, piece.look.plate)


def _draw_joint(paper: Paper, joint: Joint, before: QRectF, area: QRectF) -> None:
    left, right, middle = before.right() + 2, area.left() - 2, area.center().y()
    paper.line([QPointF(left, middle), QPointF(right - 3, middle)], joint.tone, 1.5)
    back = right - 5
    head = [QPointF(right, middle), QPointF(back, middle - 4), QPointF(back, middle + 4)]
    paper.shape(head, joint.tone)
    free = min(before.width(), area.width()) + right - left + 4
    room = QRectF((left + right - free) / 2, 0, free, area.top())
    paper.text(room, joint.text, tone=joint.ink, align=CENTER)
