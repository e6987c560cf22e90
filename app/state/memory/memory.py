"""The engine's memory: its latest records, what is held by its events, and their past."""

from pathlib import Path
from time import time_ns

from PySide6.QtCore import QObject, Signal

from app.client import EngineClient, Latest
from app.state.memory.allocations import Allocations
from app.state.memory.totals import Cell, Key, allocated, apply, cells, key
from engine.protocol import (
    Failed,
    HeldMemory,
    MemoryEvents,
    PlannedMemory,
    PoolRow,
    Predict,
    PredictedMemory,
    Unloaded,
)
from engine.settings import EngineOptions


class MemoryState(QObject):
    """`planned` before loading, `held` the record after it, `predicted` for the chooser's choice
    about. `cells` are what all views show, by events in between; `refusal` is one line that says
    why memory ran out. `prediction_problem` is one line where there is nothing to predict. When the
    engine dies, everything stays as it was last (`died`), until another load or a restart.
    """

    changed = Signal()  # planned, held or cells
    prediction_changed = Signal()

    def __init__(self, client: EngineClient, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.planned: PlannedMemory | None = None
        self.held: HeldMemory | None = None
        self.predicted: PredictedMemory | None = None
        self.prediction_problem = ""
        self.refusal = ""
        self.died = False
        self.cells: list[Cell] = []
        self.allocations = Allocations()
        self._taken: dict[Key, int] = {}
        self._prediction = Latest(client)
        client.on(PlannedMemory, self._on_planned)
        client.on(HeldMemory, self._on_held)
        client.on(MemoryEvents, self._on_events)
        client.failed.connect(self._on_failed)
        client.on(Unloaded, self._on_gone)
        client.died.connect(self._on_died)
        client.restarted.connect(self._on_restarted)

    @property
    def pools(self) -> list[PoolRow]:
        """Every pool as it was last."""
        latest = self.held if self.held is not None and self.held.pools else self.planned
        return latest.pools if latest is not None else []

    @property
    def n_layer(self) -> int:
        """Layers of the model; its output block counts as layer `n_layer`."""
        latest = self.held or self.planned
        return latest.n_layer if latest is not None else 0

    @property
    def failed(self) -> Cell | None:
        """The cell where memory ran out; the other cells are as they were then."""
        return next((cell for cell in self.cells if cell.status == "failed"), None)

    def layers_on(self, device: str) -> set[int]:
        """The layers of which weights lie there."""
        mine = (cell for cell in self.cells if cell.device == device and cell.size)
        return {c.layer for c in mine if c.layer is not None and c.component == "weights"}

    def devices_of(self, layer: int) -> list[str]:
        """Where weights of a layer lie."""
        devices = dict.fromkeys(cell.device for cell in self.cells)
        return [device for device in devices if layer in self.layers_on(device)]

    def predict(self, path: str | Path, options: EngineOptions) -> None:
        """Ask what loading would take; the engine answers after what it is doing now."""
        self.predicted = None
        request = Predict(0, str(path), options)
        self._prediction.send(request, self._on_predicted, self._on_prediction_failed)

    def _on_planned(self, memory: PlannedMemory) -> None:
        self._forget()
        self.planned = memory
        self._refresh()

    def _on_held(self, memory: HeldMemory) -> None:
        self.held, self._taken = memory, allocated(memory)
        self._note_refusal(memory)
        self._refresh()

    def _on_events(self, message: MemoryEvents) -> None:
        self.allocations.add(message.events)
        apply(message.events, self._taken)
        self._refresh()

    def _on_failed(self, failed: Failed) -> None:
        if failed.kind == "NoMem":
            self.refusal = failed.message
        if failed.kind == "Cancelled":
            self._on_gone()
        elif self.failed is None and not self._taken:
            self.held = None  # what a load had taken is given back
        self._refresh()

    def _note_refusal(self, memory: HeldMemory) -> None:
        """Add what a dry run has refused to the events, since no pool reports it."""
        failed = next((row for row in memory.rows if row.status == "failed"), None)
        if failed is None:
            return
        known = next((e for e in reversed(self.allocations.events) if e.kind == "refuse"), None)
        if known is None or key(known) != key(failed):
            self.allocations.refuse(failed, self.pools, time_ns())

    def _on_predicted(self, memory: PredictedMemory) -> None:
        self.predicted, self.prediction_problem = memory, ""
        self.prediction_changed.emit()

    def _on_prediction_failed(self, failed: Failed) -> None:
        self.predicted, self.prediction_problem = None, failed.message
        self.prediction_changed.emit()

    def _on_gone(self, _: object = None) -> None:
        self._forget()
        self._refresh()

    def _on_died(self, _: object) -> None:
        self.allocations.end(time_ns())
        self.died = bool(self.cells)
        self.changed.emit()

    def _on_restarted(self) -> None:
        if not self.died:  # else that was noted when it died
            self.allocations.end(time_ns())
        self._on_gone()

    def _forget(self) -> None:
        self.planned = self.held = None
        self.refusal, self.died, self._taken = "", False, {}

    def _refresh(self) -> None:
        self.cells = cells(self.planned, self._taken, self.held)
        self.changed.emit()
