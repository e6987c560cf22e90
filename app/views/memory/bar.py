"""One memory pool: all of it as a thin line, and below, magnified, what the engine has."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from PySide6.QtCore import QPointF, QRectF, Signal
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QWidget

from app.language import tr
from app.state.memory.totals import MemoryPart, PoolSum
from app.theme import fonts
from app.theme.devices import device_look, swatch_size
from app.theme.theme import tokens
from app.theme.tokens import GRID, mix
from app.widgets.layouts import vbox
from app.widgets.numbers import UNKNOWN, mib, milliseconds
from app.widgets.plots.bands import Bands, Piece, component_look
from app.widgets.plots.paper import CENTER, DASHED, RIGHT, Paper, text_width

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
            cells = [mib(mine.get(name) or None) for name in names]
            cells.append(mib(own or None))
            if busy:
                cells.append(milliseconds(busy[device]) if device in busy else UNKNOWN)
            rows[device] = tuple(cells)
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


HEAD, LINE, LENS = 28, 6, 12
IDLE: Mapping[str, int] = MappingProxyType({})


class PoolBar(Bands):
    """Shows a `PoolSum`. Enter or a click inspects a part; what is held is solid, what is planned
    is outlined, mapped pages are only hatched.
    """

    inspected = Signal(object)  # MemoryPart
    device_inspected = Signal(str)
    above = HEAD + LINE + LENS

    def __init__(self) -> None:
        super().__init__()
        self._selected: tuple[str | None, str | None] = (None, None)
        self.pool: PoolSum | None = None
        self.numbers = PoolNumbers((), {})

    def show_sum(self, pool: PoolSum, busy: Mapping[str, int] = IDLE) -> None:
        """`busy` are the nanoseconds that each device computes for a token."""
        self.pool, self.numbers = pool, PoolNumbers.of(pool, busy)
        self.setAccessibleName(tr("{name} memory", name=pool.pool.name))
        self.changed()

    @property
    def parts(self) -> Sequence[MemoryPart]:
        """The parts that arrows walk over."""
        return self.pool.parts if self.pool is not None else ()

    def in_words(self) -> str:
        return self.pool.text() if self.pool is not None else ""

    def tall(self) -> float:
        return super().tall() + GRID + self.numbers.height(self.width())

    def chosen(self) -> bool:
        self.inspected.emit(self.parts[self.at])
        return True

    def show_selected(self, device: str | None, component: str | None) -> None:
        """Frame the parts of a device, or its one component."""
        self._selected = (device, component)
        if self.parts and not self.framed(self.at):
            found = (at for at in range(len(self.parts)) if self.framed(at))
            self._at = next(found, self._at)
        self.update()

    def framed(self, at: int) -> bool:
        device, component = self._selected
        part = self.parts[at]
        return part.device == device and component in (part.component, None)

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        below = event.position().y() - self.band().bottom() - GRID
        device = self.numbers.device_at(below, self.width())
        if device is not None:
            self.device_inspected.emit(device)
        else:
            super().mousePressEvent(event)

    def pieces(self) -> list[Piece]:
        return [
            Piece(
                part.size,
                component_look(part.device, part.component),
                (f"{tr(part.component)}  {mib(part.size)}", tr(part.component)),
                at,
                6.0,
            )
            for at, part in enumerate(self.parts)
            if sum(part.size for part in self.parts)
        ]

    def empty(self) -> str:
        return tr("nothing allocated: no model is open")

    def words(self, at: int) -> str:
        part = self.parts[at]
        planned = tr("{planned} MiB planned, ", planned=mib(part.planned)) if part.planned else ""
        what = tr("mapped, not allocated") if part.mapped else tr("held")
        text = tr(
            "{device} {component}: {planned}{held} MiB {what}",
            device=part.device,
            component=tr(part.component),
            planned=planned,
            held=mib(part.held),
            what=what,
        )
        return tr("{text}, then refused", text=text) if part.failed else text

    def tip(self, place: QPointF) -> str:
        if self.pool is None or place.y() >= self.band().top():
            return super().tip(place)
        other, free = mib(self.pool.other), mib(self.pool.pool.free)
        return tr(
            "{total} MiB in total: others use {other}, {free} are free",
            total=mib(self.pool.pool.total),
            other=other,
            free=free,
        )

    def head(self) -> tuple[str, str, str] | None:
        if self.pool is None:
            return None
        pool, limit = self.pool, mib(self.pool.pool.limit)
        text = tr("{held} of {limit}", held=mib(pool.held), limit=limit)
        if not pool.held and pool.planned:
            text = tr("{planned} planned of {limit}", planned=mib(pool.planned), limit=limit)
        elif pool.planned > pool.held:
            text = tr(
                "{held} of {planned} planned, limit {limit}",
                held=mib(pool.held),
                planned=mib(pool.planned),
                limit=limit,
            )
        return pool_name(pool.pool.name), text, "MiB"

    def head_area(self) -> QRectF:
        return QRectF(0, 0, self.width(), fonts.px(HEAD - 6))

    def draw(self, paper: Paper) -> None:
        if self.pool is not None:
            self._draw_line(paper, self.pool)
            super().draw(paper)
            self.numbers.draw(paper, self.band().bottom() + GRID, self.width())

    def draw_piece(self, paper: Paper, at: int, piece: Piece, area: QRectF) -> None:
        """Solid as far as it is held; the text may lie across the edge."""
        part, now = self.parts[at], tokens()
        assert piece.look is not None
        area = area.adjusted(0, 0, -1, 0)
        held, rest = QRectF(area), QRectF(area)
        held.setWidth(area.width() * (part.held / part.size if part.size else 0.0))
        rest.setLeft(held.right())
        paper.fill(held, *piece.look.brushes)
        if held.width() < area.width():
            inside = area.adjusted(0.5, 0.5, -0.5, -0.5)
            paper.frame(inside, device_look(part.device).colour, 1, style=DASHED)
        if part.failed:
            paper.frame(area.adjusted(1, 1, -1, -1), now.bad, 2)
            paper.cross(area.topRight() + QPointF(-10, 10), 3, now.bad)
        words = area.adjusted(0, 0, -16 * part.failed, 0)
        for place, tone in ((held, piece.look.ink), (rest, now.text)):
            with paper.clipped(place):
                paper.text(words, *piece.texts, tone=tone, align=CENTER, margin=12)

    def _draw_line(self, paper: Paper, pool: PoolSum) -> None:
        """Ours from the left, the others' from the right, the limit as a mark between."""
        now, total = tokens(), max(pool.pool.total, 1)
        area = QRectF(0, fonts.px(HEAD), self.width(), fonts.px(LINE))
        ours, others = QRectF(area), QRectF(area)
        ours.setWidth(max(2.0, area.width() * max(pool.held, pool.planned) / total))
        with paper.rounded(area, 3):
            paper.fill(area, mix(now.faint, now.panel, 0.25))
            if pool.other is not None:
                others.setLeft(area.right() - area.width() * pool.other / total)
                paper.fill(others, now.faint)
            paper.fill(ours, now.text)
        limit = area.width() * min(pool.pool.limit / total, 1)
        ends = [QPointF(limit, area.top() - 3), QPointF(limit, area.bottom() + 3)]
        paper.line(ends, now.warn, 2)
        if self.pieces():
            band = self.band().adjusted(0, -1, 0, 0)
            upper = [QPointF(0, area.bottom() + 1), QPointF(ours.right(), area.bottom() + 1)]
            lens = [*upper, band.topRight(), band.topLeft()]
            paper.shape(lens, mix(now.faint, now.panel, 0.24))


class PoolBars(QWidget):
    """A bar for each pool, one below the other."""

    inspected = Signal(object)  # MemoryPart
    device_inspected = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.bars: list[PoolBar] = []
        self._column = vbox(on=self, spacing=2 * GRID)

    def show_sums(self, sums: Sequence[PoolSum], busy: Mapping[str, int] = IDLE) -> None:
        while len(self.bars) < len(sums):
            self.bars.append(PoolBar())
            self.bars[-1].inspected.connect(self.inspected)
            self.bars[-1].device_inspected.connect(self.device_inspected)
            self._column.addWidget(self.bars[-1])
        for at, bar in enumerate(self.bars):
            bar.setVisible(at < len(sums))
            if at < len(sums):
                bar.show_sum(sums[at], busy)

    def show_selected(self, device: str | None, component: str | None) -> None:
        for bar in self.bars:
            bar.show_selected(device, component)


def pool_name(pool: str) -> str:
    """How a pool is called where people read."""
    return tr("System memory") if pool == "system" else pool
