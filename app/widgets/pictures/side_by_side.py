"""Pictures side by side under grids of cells, one of which is marked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QImage, QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QSizePolicy

from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import GRID
from app.widgets.plots.chart import Painted
from app.widgets.plots.paper import DASHED, Paper

LEAST_CELL = 4.0  # pixels; smaller ones have no lines between them
LEAST = 160, 96  # pixels of all of it
DARKEST = 190  # opacity, of 255, over a cell of no strength
LARGEST = 8.0  # times that a small picture is enlarged at most


@dataclass(frozen=True)
class Tiled:
    """A picture with `columns` x `rows` cells. Those of one `group` stand at their `row` and
    `column`; groups stand beside each other. `content` is what of it is no padding, in pixels. Of
    the `titles` the first is shown that has room.
    """

    image: QImage
    titles: tuple[str, ...]
    group: int
    row: int
    column: int
    columns: int
    rows: int
    content: QRectF


Cell = tuple[int, int]
"""A picture's place, and a cell's number in it, from the top left, row by row."""


class CellPictures(Painted):
    """Arrow keys go from cell to cell, Page Up and Page Down from picture to picture."""

    marked = Signal(object)  # Cell, by the mouse or the keyboard

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        self.setMinimumSize(*LEAST)
        self.pictures: list[Tiled] = []
        self.cell: Cell | None = None
        self.strengths: Mapping[Cell, float] | None = None

    def show_pictures(self, pictures: Sequence[Tiled]) -> None:
        """These, with no cell marked."""
        self.pictures, self.cell, self.strengths = list(pictures), None, None
        self.update()

    def shade(self, strengths: Mapping[Cell, float]) -> None:
        """Darken each cell the more, the less its strength from 0 to 1; one not named is dark."""
        self.strengths = strengths
        self.update()

    def mark(self, cell: Cell | None) -> None:
        """Mark a cell; emits nothing."""
        self.cell = cell
        self.update()

    def areas(self) -> list[QRectF]:
        """Where each picture lies, in this widget; its title is above it."""
        above = fonts.px(20)
        boxes = self._boxes()
        wide = sum(width for width, _, _, _ in boxes.values()) + 2 * GRID * (len(boxes) - 1)
        gaps = 2 * GRID * max(0, len(boxes) - 1)
        rows = {group: len(tops) for group, (_, _, _, tops) in boxes.items()}
        high = max((height for _, height, _, _ in boxes.values()), default=1.0)
        lines = max(rows.values(), default=1)
        gaps_in = max((len(lefts) for _, _, lefts, _ in boxes.values()), default=1) * GRID
        room = self.width() - gaps - gaps_in * len(boxes), self.height() - lines * (above + GRID)
        scale = max(0.01, min(room[0] / max(1.0, wide - gaps), room[1] / high, LARGEST))
        found = []
        starts, left = {}, 0.0
        for group, (width, _, lefts, _) in boxes.items():
            starts[group] = left
            left += width * scale + len(lefts) * GRID + 2 * GRID
        for picture in self.pictures:
            _, _, lefts, tops = boxes[picture.group]
            x = starts[picture.group] + lefts[picture.column] * scale + picture.column * GRID
            y = tops[picture.row] * scale + picture.row * (above + GRID) + above
            size = picture.image.width() * scale, picture.image.height() * scale
            found.append(QRectF(x, y, *size))
        whole = max((area.right() for area in found), default=0.0)
        bottom = max((area.bottom() for area in found), default=0.0)
        aside = (self.width() - whole) / 2, max(0.0, self.height() - bottom - GRID) / 2
        return [area.translated(*aside) for area in found]

    def cell_area(self, cell: Cell) -> QRectF:
        """Where a cell lies, in this widget."""
        picture, area = self.pictures[cell[0]], self.areas()[cell[0]]
        wide, high = area.width() / picture.columns, area.height() / picture.rows
        row, column = divmod(cell[1], picture.columns)
        return QRectF(area.left() + column * wide, area.top() + row * high, wide, high)

    def cell_at(self, at: QPointF) -> Cell | None:
        """The cell under a point."""
        for place, (picture, area) in enumerate(zip(self.pictures, self.areas(), strict=True)):
            if area.contains(at):
                column = int((at.x() - area.left()) / area.width() * picture.columns)
                row = int((at.y() - area.top()) / area.height() * picture.rows)
                row, column = min(row, picture.rows - 1), min(column, picture.columns - 1)
                return place, row * picture.columns + column
        return None

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        cell = self.cell_at(event.position())
        if cell is not None and cell != self.cell:
            self._go(cell)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        cell = self._after(Qt.Key(event.key()))
        if cell is None:
            super().keyPressEvent(event)
        else:
            self._go(cell)

    def draw(self, paper: Paper) -> None:
        now, title = tokens(), fonts.px(20)
        for place, (picture, area) in enumerate(zip(self.pictures, self.areas(), strict=True)):
            shrunk = area.width() < picture.image.width()  # enlarged, each pixel is seen
            paper.image(area, picture.image, shrunk)
            if self.strengths is not None:
                paper.image(area, self._shades(place, self.strengths), smooth=False)
            _draw_grid(paper, picture, area)
            above = QRectF(area.left(), area.top() - title, area.width(), title)
            paper.text(above, *picture.titles, tone=now.quiet)
        with paper.sharp():
            if self.cell is not None:
                area = self.cell_area(self.cell)
                with paper.faded(70 / 255):
                    paper.fill(area, now.accent)
                paper.frame(area.adjusted(-1, -1, 1, 1), "#000000", 4)
                paper.frame(area.adjusted(-1, -1, 1, 1), "#FFFFFF", 2)
        if self.hasFocus():
            paper.focus(self.rect().toRectF())

    def _shades(self, place: int, strengths: Mapping[Cell, float]) -> QImage:
        """A dark pixel for each cell."""
        picture = self.pictures[place]
        shades = QImage(picture.columns, picture.rows, QImage.Format.Format_ARGB32)
        for cell in range(picture.columns * picture.rows):
            dark = round(DARKEST * (1 - strengths.get((place, cell), 0.0)))
            row, column = divmod(cell, picture.columns)
            shades.setPixelColor(column, row, QColor(0, 0, 0, dark))
        return shades

    def _go(self, cell: Cell) -> None:
        self.mark(cell)
        self.marked.emit(cell)

    def _after(self, key: Qt.Key) -> Cell | None:
        """Where a key leads from the marked cell."""
        if not self.pictures or key not in _KEYS:
            return None
        if self.cell is None:
            return 0, 0
        place, number = self.cell
        picture = self.pictures[place]
        if key in (Qt.Key.Key_PageUp, Qt.Key.Key_PageDown):
            step = 1 if key == Qt.Key.Key_PageDown else -1
            return (place + step) % len(self.pictures), 0
        if key == Qt.Key.Key_Home:
            return place, 0
        if key == Qt.Key.Key_End:
            return place, picture.columns * picture.rows - 1
        row, column = divmod(number, picture.columns)
        row += {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}.get(key, 0)
        column += {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(key, 0)
        row, column = min(max(row, 0), picture.rows - 1), min(max(column, 0), picture.columns - 1)
        return place, row * picture.columns + column

    def _boxes(self) -> dict[int, tuple[float, float, list[float], list[float]]]:
        """Return width, height, and the starts of columns and rows of each group, in pixels."""
        found = {}
        for group in sorted({picture.group for picture in self.pictures}):
            members = [picture for picture in self.pictures if picture.group == group]
            wide = [0.0] * (max(picture.column for picture in members) + 1)
            high = [0.0] * (max(picture.row for picture in members) + 1)
            for picture in members:
                wide[picture.column] = max(wide[picture.column], picture.image.width())
                high[picture.row] = max(high[picture.row], picture.image.height())
            lefts = [sum(wide[:n]) for n in range(len(wide))]
            tops = [sum(high[:n]) for n in range(len(high))]
            found[group] = sum(wide), sum(high), lefts, tops
        return found


_KEYS = {
    *(Qt.Key.Key_Left, Qt.Key.Key_Right, Qt.Key.Key_Up, Qt.Key.Key_Down),
    *(Qt.Key.Key_PageUp, Qt.Key.Key_PageDown, Qt.Key.Key_Home, Qt.Key.Key_End),
}


def _draw_grid(paper: Paper, picture: Tiled, area: QRectF) -> None:
    wide, high = area.width() / picture.columns, area.height() / picture.rows
    with paper.sharp():
        if min(wide, high) >= LEAST_CELL:
            ends = [
                (QPointF(x, area.top()), QPointF(x, area.bottom()))
                for x in (area.left() + n * wide for n in range(1, picture.columns))
            ] + [
                (QPointF(area.left(), y), QPointF(area.right(), y))
                for y in (area.top() + n * high for n in range(1, picture.rows))
            ]
            for tone, strength, by in (("#FFFFFF", 120 / 255, 0), ("#000000", 80 / 255, 1)):
                with paper.faded(strength):  # one of them is seen on any ground
                    for one, other in ends:
                        paper.line([one + QPointF(by, by), other + QPointF(by, by)], tone, 0)
        paper.frame(area, tokens().faint, 0)
        scale = area.width() / max(1, picture.image.width())
        content = picture.content
        inside = QRectF(content.topLeft() * scale + area.topLeft(), content.size() * scale)
        if inside.width() < area.width() - 1 or inside.height() < area.height() - 1:
            paper.frame(inside, tokens().accent, style=DASHED)
