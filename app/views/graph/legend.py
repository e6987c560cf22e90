"""What the colours of the graph mean."""

from collections.abc import Mapping

from PySide6.QtCore import QRectF, Signal
from PySide6.QtWidgets import QWidget

from app.language import tr
from app.state.graph.blocks import GraphIndex
from app.state.graph.overlay import NOT_COMPARED, NodeError, Overlay, coloured
from app.state.graph.scene import Shows
from app.theme.devices import swatch_size
from app.theme.theme import tokens
from app.theme.tokens import DEVICES
from app.views.graph.picture.painting import shade
from app.widgets.layouts import hbox
from app.widgets.numbers import kib, milliseconds
from app.widgets.plots.legend import ChartLegend, LegendEntry
from app.widgets.plots.paper import Paper

DEVIATES = "!"
_ERRORS = (
    LegendEntry(0.0, tr("1e-6 of the tolerance")),
    LegendEntry(0.5, "1e-3"),
    LegendEntry(1.0, "all"),
    LegendEntry(DEVIATES, tr("! deviates")),
)


class GraphLegend(QWidget):
    """Devices, types, or the smallest and the largest amount."""

    device_picked = Signal(str)
    type_picked = Signal(str)
    box_picked = Signal(int)  # the node or launch of the smallest or the largest amount

    def __init__(self) -> None:
        super().__init__()
        self._overlay: Overlay = "device"
        self._types: list[str] = []
        self._amounts: Mapping[int, float] = {}
        self._text = ""
        self.chart = ChartLegend(tr("Colours of the graph"), self._draw, swatch_size)
        self.chart.picked.connect(self._pick)
        hbox(self.chart, on=self)

    @property
    def text(self) -> str:
        """What stands in place of colours; empty where there are some."""
        return self._text

    def show_graph(
        self,
        index: GraphIndex | None,
        overlay: Overlay,
        shows: Shows,
        ns: Mapping[int, int],
        errors: Mapping[int, NodeError] = NOT_COMPARED,
    ) -> None:
        if index is None:
            self.chart.show_entries([])
            return
        self._overlay, self._text = overlay, ""
        found = coloured(index, shows, overlay, ns, errors)
        self._amounts = found.amounts
        if overlay in ("device", "type"):
            self._types = list(dict.fromkeys(found.names.values()))
            used = self._types
            if overlay == "device":
                used = list(dict.fromkeys(split.device for split in index.graph.splits))
            self.chart.show_entries([LegendEntry(name, name) for name in used])
        elif overlay == "error":
            self.chart.show_entries(_ERRORS if found.amounts else [])
        elif not found.amounts:
            self._text = tr("No times yet. Send a message to measure them.")
            self.chart.show_entries([LegendEntry(None, self._text)])
        else:
            least = min(found.amounts.values())
            text = _kib if overlay == "bytes" else _ms
            self.chart.show_entries(
                [LegendEntry(0.0, text(least)), LegendEntry(1.0, text(found.most))]
            )
        self.chart.update()

    def _pick(self, key: object) -> None:
        if self._overlay == "device":
            self.device_picked.emit(key)
        elif self._overlay == "type":
            self.type_picked.emit(key)
        elif self._amounts:
            end = max if key == 1.0 else min
            self.box_picked.emit(end(self._amounts, key=lambda box: self._amounts[box]))

    def _draw(self, paper: Paper, area: QRectF, key: object) -> None:
        if self._overlay == "device":
            paper.swatch(area.left(), area.center().y(), str(key))
            return
        colour = shade(float(str(key))) if isinstance(key, float) else tokens().faint
        if key == DEVIATES:
            colour = tokens().bad
        if key in self._types:
            colour = DEVICES[self._types.index(str(key)) % len(DEVICES)]
        paper.fill(area, colour, radius=3)


def _kib(amount: float) -> str:
    return f"{kib(round(amount))} KiB"


def _ms(amount: float) -> str:
    return f"{milliseconds(round(amount))} ms"
