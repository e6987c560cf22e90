"""The splits of a step as a ribbon: as wide as what they compute, with what is copied between."""

from collections.abc import Sequence

from PySide6.QtCore import Signal

from app.theme.devices import device_look
from app.theme.theme import tokens
from app.theme.tokens import mix
from app.widgets.numbers import grouped, kib, milliseconds
from app.widgets.plots.bands import Bands, Joint, Piece, component_look
from engine.protocol import GraphDone, SplitNode, SplitRecord


class SplitRibbon(Bands):
    """A piece for each split, as wide as its time where a step was measured, else as its number of
    operations. Arrows walk, Enter or a click picks.
    """

    picked = Signal(int)
    above, high, between = 18, 31, 14.0

    def __init__(self) -> None:
        super().__init__("Splits of the step")
        self._graph: GraphDone | None = None
        self._times: Sequence[SplitRecord] = ()
        self._selected: int | None = None

    def show_graph(self, graph: GraphDone | None, times: Sequence[SplitRecord]) -> None:
        """`times` of the same splits, or none."""
        self._graph, self._times = graph, times
        self.changed()

    def show_selected(self, number: int | None) -> None:
        self._selected = number
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
            size, amount = split.n_nodes, f"{grouped(split.n_nodes)} ops"
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
        return at == self._selected

    def words(self, at: int) -> str:
        """A split in words, with what is copied for it and why it begins."""
        split = self._splits[at]
        said = f"Split {at} on {split.device}: {grouped(split.n_nodes)} operations, "
        said += split.first if split.n_nodes == 1 else f"{split.first} – {split.last}"
        if at < len(self._times):
            said += f"; {self._milliseconds(at)}"
        said += f". It starts here because: {split.why}." if at else f"; {split.why}."
        copies = [copy for copy in split.copies if copy.origin is not None]
        shown = [f"{copy.name} ({kib(copy.size)} KiB from {copy.origin})" for copy in copies[:4]]
        more = f" and {len(copies) - 4} more" if len(copies) > 4 else ""
        return f"{said} Copied for it: {', '.join(shown)}{more}." if copies else said

    def in_words(self) -> str:
        if not self.stops():
            return "No splits yet"
        return f"{self.stops()} splits. {self.words(self.at)}"

    def empty(self) -> str:
        return "no splits are known yet"

    @property
    def _splits(self) -> Sequence[SplitNode]:
        return self._graph.splits if self._graph is not None else ()

    def _milliseconds(self, at: int) -> str:
        return f"{milliseconds(self._times[at].compute_ns)} ms"
