"""The numbers of a pool as text: a row per device, a column per component."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from PySide6.QtCore import QRectF

from app.state.memory.totals import PoolSum
from app.theme import fonts
from app.theme.devices import swatch_size
from app.theme.theme import tokens
from app.theme.tokens import GRID
from app.widgets.numbers import UNKNOWN, mib, milliseconds
from app.widgets.plots.paper import RIGHT, Paper, text_width

ROW = 24


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

    def draw(self, paper: Paper, top: float, width: float) -> None:
        """From `top` downwards."""
        height, first, now = fonts.px(ROW), self._first(), tokens()
        column = (width - first) / self._per_block(width)
        for block in self._blocks(width):
            for at, number in enumerate(block):
                area = QRectF(first + at * column, top, column, height)
                paper.text(area, self.titles[number], tone=now.quiet, align=RIGHT)
            for device, numbers in self.rows.items():
                top += height
                paper.swatch(0, top + height / 2, device)
                left = swatch_size() + GRID
                name = QRectF(left, top, first - left, height)
                paper.text(name, device, tone=now.text, font=fonts.body())
                for at, number in enumerate(block):
                    text = numbers[number]
                    area = QRectF(first + at * column, top, column, height)
                    tone = now.quiet if text == UNKNOWN else now.text
                    paper.text(area, text, tone=tone, align=RIGHT, font=fonts.body())
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
        names = max((text_width(name, fonts.body()) for name in self.rows), default=0.0)
        return max(swatch_size() + names + 2 * GRID, float(fonts.px(80)))

    def _widest(self) -> float:
        """The width that every column needs."""
        body = fonts.body()
        texts = [text_width(text, body) for row in self.rows.values() for text in row]
        return max([*texts, *map(text_width, self.titles)], default=0.0) + GRID
