"""The numbers of a pool as text: a row per device, a column per component."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter

from app.state.memory.sums import PoolSum
from app.theme import fonts
from app.theme.devices import draw_swatch, swatch_size
from app.theme.theme import tokens
from app.theme.tokens import GRID
from app.widgets.numbers import UNKNOWN, mib, milliseconds

ROW = 24
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


@dataclass(frozen=True)
class PoolNumbers:
    """`rows` are the numbers of each device under `titles`. Where the columns do not fit beside
    each other, they stand in several blocks, one below the other.
    """

    titles: tuple[str, ...]
    rows: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, pool: PoolSum, busy: Mapping[str, int]) -> "PoolNumbers":
        """MiB per component; `busy` are the nanoseconds that a device computes for a token."""
        names = list(dict.fromkeys(part.component for part in pool.parts))
        rows = {}
        for device in dict.fromkeys(part.device for part in pool.parts):
            mine = {part.component: part.size for part in pool.parts if part.device == device}
            own = sum(size for name, size in mine.items() if name != "mapped")
            said = [mib(mine.get(name) or None) for name in names]
            said.append(mib(own or None))
            if busy:
                said.append(milliseconds(busy[device]) if device in busy else UNKNOWN)
            rows[device] = tuple(said)
        titles = (*names, "total", *["ms/token"] * bool(busy)) if names else ()
        return cls(titles, rows)

    def height(self, width: float) -> int:
        """Pixels that all blocks take at a width."""
        lines = sum(1 + len(self.rows) for _ in self._blocks(width))
        return lines * fonts.px(ROW)

    def paint(self, painter: QPainter, top: float, width: float) -> None:
        """From `top` downwards."""
        height, first = fonts.px(ROW), self._first()
        column = (width - first) / self._per_block(width)
        for block in self._blocks(width):
            painter.setFont(fonts.small())
            painter.setPen(QColor(tokens().quiet))
            for at, number in enumerate(block):
                area = QRectF(first + at * column, top, column, height)
                painter.drawText(area, _RIGHT, self.titles[number])
            for device, numbers in self.rows.items():
                top += height
                draw_swatch(painter, 0, top + height / 2, device)
                painter.setFont(fonts.body())
                painter.setPen(QColor(tokens().text))
                left = swatch_size() + GRID
                painter.drawText(QRectF(left, top, first - left, height), _LEFT, device)
                for at, number in enumerate(block):
                    text = numbers[number]
                    painter.setPen(QColor(tokens().quiet if text == UNKNOWN else tokens().text))
                    area = QRectF(first + at * column, top, column, height)
                    painter.drawText(area, _RIGHT, text)
            top += height

    def device_at(self, y: float, width: float) -> str | None:
        """The device whose row is `y` below the top."""
        height, top = fonts.px(ROW), 0
        for _ in self._blocks(width):
            for device in self.rows:
                top += height
                if top <= y < top + height:
                    return device
            top += height
        return None

    def _blocks(self, width: float) -> Iterator[range]:
        n, each = len(self.titles), self._per_block(width)
        for start in range(0, n, each):
            yield range(start, min(start + each, n))

    def _per_block(self, width: float) -> int:
        """How many columns fit beside each other; at least one."""
        fit = int((width - self._first()) / self._widest())
        return min(max(fit, 1), max(len(self.titles), 1))

    def _first(self) -> float:
        """The width of the devices' column."""
        metrics = QFontMetricsF(fonts.body())
        names = max((metrics.horizontalAdvance(name) for name in self.rows), default=0.0)
        return max(swatch_size() + names + 2 * GRID, float(fonts.px(80)))

    def _widest(self) -> float:
        """The width that every column needs."""
        small, body = QFontMetricsF(fonts.small()), QFontMetricsF(fonts.body())
        texts = [body.horizontalAdvance(text) for row in self.rows.values() for text in row]
        titles = [small.horizontalAdvance(title) for title in self.titles]
        return max([*texts, *titles], default=0.0) + GRID
