"""The splits of a step as a ribbon, each as wide as its work, with what crosses between devices;
and the arena of a device: positions of results in its memory.
"""

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, Signal

from app.language import tr
from app.theme import fonts
from app.theme.devices import device_look
from app.theme.theme import tokens
from app.theme.tokens import mix
from app.widgets.numbers import grouped, kib, milliseconds
from app.widgets.plots.bands import Bands, Joint, Piece, component_look
from app.widgets.plots.chart import Chart
from app.widgets.plots.paper import Paper
from engine.protocol import ArenaLife, ArenaMap, GraphDone, SplitNode, SplitRecord


class SplitRibbon(Bands):
    """A piece for each split, as wide as its time where a step was measured, else as its number of
    operations. Arrows walk, Enter or a click picks.
    """

    picked = Signal(int)
    above, high, between = 18, 31, 14.0

    def __init__(self) -> None:
        super().__init__(tr("Splits of the step"))
        self._graph: GraphDone | None = None
        self._times: Sequence[SplitRecord] = ()
        self.selected: int | None = None

    def show_graph(self, graph: GraphDone | None, times: Sequence[SplitRecord]) -> None:
        """`times` of the same splits, or none."""
        self._graph, self._times = graph, times
        self.changed()

    def show_selected(self, number: int | None) -> None:
        self.selected = number
        if number is not None:
            self._at = number
        self.changed()

    def clicked(self, at: int) -> None:
        self.go(at)

    def walked(self) -> None:
        self.picked.emit(self.at)

    def chosen(self) -> bool:
        self.picked.emit(self.at)
        return True

    def pieces(self) -> list[Piece]:
        timed, made = len(self._times) == len(self._splits), []
        for at, split in enumerate(self._splits):
            size, amount = split.n_nodes, tr("{n_nodes} ops", n_nodes=grouped(split.n_nodes))
            if timed:
                size, amount = self._times[at].compute_ns, self._milliseconds(at)
            letter = device_look(split.device).letter
            texts = f"{letter}  #{at}  {amount}", f"{letter} #{at}", letter
            made.append(Piece(size, component_look(split.device, "weights"), texts, at, 6.0))
        return made

    def joint(self, at: int) -> Joint:
        """The bytes that are copied for a split."""
        now = tokens()
        size = sum(copy.size for copy in self._splits[at].copies if copy.origin is not None)
        text = f"{kib(size)} KiB" if size else ""
        return Joint(text, now.warn if size else now.faint, mix(now.warn, now.text, 0.5))

    def framed(self, at: int) -> bool:
        return at == self.selected

    def words(self, at: int) -> str:
        """A split in words, with what is copied for it and why it begins."""
        split = self._splits[at]
        text = tr(
            "Split {at} on {device}: {n_nodes} operations, ",
            at=at,
            device=split.device,
            n_nodes=grouped(split.n_nodes),
        )
        text += split.first if split.n_nodes == 1 else f"{split.first} – {split.last}"
        if at < len(self._times):
            text += f"; {self._milliseconds(at)}"
        text += tr(". It starts here because: {why}.", why=split.why) if at else f"; {split.why}."
        copies = [copy for copy in split.copies if copy.origin is not None]
        shown = [
            tr(
                "{name} ({size} KiB from {origin})",
                name=copy.name,
                size=kib(copy.size),
                origin=copy.origin,
            )
            for copy in copies[:4]
        ]
        more = tr(" and {copies} more", copies=len(copies) - 4) if len(copies) > 4 else ""
        return (
            tr("{text} Copied for it: {shown}{more}.", text=text, shown=", ".join(shown), more=more)
            if copies
            else text
        )

    def in_words(self) -> str:
        if not self.stops():
            return tr("No splits yet")
        return tr("{stops} splits. {words}", stops=self.stops(), words=self.words(self.at))

    def empty(self) -> str:
        return tr("no splits are known yet")

    @property
    def _splits(self) -> Sequence[SplitNode]:
        return self._graph.splits if self._graph is not None else ()

    def _milliseconds(self, at: int) -> str:
        return f"{milliseconds(self._times[at].compute_ns)} ms"


HEIGHT = 96


class ArenaView(Chart):
    """All that lives in one chunk of an arena, one of which is marked; a click picks another."""

    picked = Signal(int)  # a node
    wide, hand = 160, True

    def __init__(self) -> None:
        super().__init__(tr("Position in the compute buffer"), focus=False)
        self._arena: ArenaMap | None = None
        self._life, self._steps = -1, 1

    def show_life(self, arena: ArenaMap | None, life: int, steps: int) -> None:
        """`life` is one of the arena's; nothing is shown for -1."""
        self._arena, self._life, self._steps = arena, life, max(steps, 1)
        self.setVisible(arena is not None and life >= 0)
        self.changed()

    def in_words(self) -> str:
        return describe_life(self._arena, self._life)

    def area_of(self, life: ArenaLife) -> QRectF:
        """The place of a life of the chunk."""
        assert self._arena is not None
        return self._place(life.chunk, life.offset, life.size, life.first, life.last)

    def tall(self) -> float:
        return fonts.px(HEIGHT)

    def lives(self) -> list[int]:
        """The lives of the chunk, by their places in the arena."""
        if self._arena is None or self._life < 0:
            return []
        lives = self._arena.lives
        chunk = lives[self._life].chunk
        return [at for at, life in enumerate(lives) if life.chunk == chunk]

    def under(self, place: QPointF) -> int | None:
        """The shortest life at a place that a node has."""
        lives = self._arena.lives if self._arena is not None else ()
        there = [
            at
            for at in self.lives()
            if lives[at].node >= 0 and self.area_of(lives[at]).contains(place)
        ]
        return min(there, key=lambda at: lives[at].last - lives[at].first, default=None)

    def words(self, at: int) -> str:
        return describe_life(self._arena, at)

    def clicked(self, at: int) -> None:
        assert self._arena is not None
        self.picked.emit(self._arena.lives[at].node)

    def draw(self, paper: Paper) -> None:
        arena, now = self._arena, tokens()
        if arena is None or self._life < 0:
            return
        area = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        paper.fill(area, now.canvas)
        if arena.lives[self._life].chunk == 0 and arena.inputs:
            paper.fill(self._place(0, 0, arena.inputs, 0, self._steps - 1), now.divider)
        colour = mix(device_look(arena.device).colour, now.canvas, 0.4)
        paper.fills([self.area_of(arena.lives[at]) for at in self.lives()], colour)
        own = self.area_of(arena.lives[self._life])
        paper.fill(own, now.accent)
        paper.frame(own.adjusted(-2, -2, 2, 2) & area, now.accent, 2)
        paper.frame(area, now.divider)

    def _place(self, chunk: int, offset: int, size: int, first: int, last: int) -> QRectF:
        """Bytes of a chunk from step `first` to `last`."""
        assert self._arena is not None
        area = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        whole = max(self._arena.chunks[chunk], 1)
        left = area.left() + area.width() * first / self._steps
        right = area.left() + area.width() * (last + 1) / self._steps
        bottom = area.bottom() - area.height() * offset / whole
        high = area.height() * size / whole
        return QRectF(left, bottom - high, max(right - left, 1.0), max(high, 1.0))


def describe_life(arena: ArenaMap | None, life: int) -> str:
    """Address and time of a life in words."""
    if arena is None or life < 0:
        return ""
    one = arena.lives[life]
    chunk = tr("chunk {chunk} of ", chunk=one.chunk) if len(arena.chunks) > 1 else ""
    return tr(
        "{size} KiB at byte {offset} of {chunk}the arena of {device} ({chunks} KiB),"
        " from moment {first} to {last}",
        size=kib(one.size),
        offset=grouped(one.offset),
        chunk=chunk,
        device=arena.device,
        chunks=kib(arena.chunks[one.chunk]),
        first=one.first,
        last=one.last,
    )
