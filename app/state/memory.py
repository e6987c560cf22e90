"""The engine's memory records, the latest of each kind."""

from collections import Counter

from PySide6.QtCore import QObject, Signal

from app.client import EngineClient
from engine.protocol import Failed, Memory


class MemoryState(QObject):
    """`planned` before loading, `held` now, `predicted` for what the chooser asks about.

    `prediction_problem` is one line where there is nothing to predict.
    """

    changed = Signal()  # planned or held
    prediction_changed = Signal()

    def __init__(self, client: EngineClient, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.planned: Memory | None = None
        self.held: Memory | None = None
        self.predicted: Memory | None = None
        self.prediction_problem = ""
        client.memory.connect(self._on_memory)
        client.predicted.connect(self._on_predicted)
        client.prediction_failed.connect(self._on_prediction_failed)
        client.unloaded.connect(self._on_gone)
        client.died.connect(self._on_gone)
        client.restarted.connect(self._on_gone)

    def _on_memory(self, memory: Memory) -> None:
        if any(row.status == "planned" for row in memory.rows):
            self.planned, self.held = memory, None
        else:
            self.held = memory
        self.changed.emit()

    def _on_predicted(self, memory: Memory) -> None:
        self.predicted, self.prediction_problem = memory, ""
        self.prediction_changed.emit()

    def _on_prediction_failed(self, failed: Failed) -> None:
        self.predicted, self.prediction_problem = None, failed.message
        self.prediction_changed.emit()

    def _on_gone(self, _: object = None) -> None:
        self.planned = self.held = None
        self.changed.emit()


def totals(memory: Memory) -> dict[str, Counter[str]]:
    """Bytes by device and component, of what is planned, allocated or failed: not mapped pages."""
    found: dict[str, Counter[str]] = {}
    for row in memory.rows:
        if row.status != "mapped":
            found.setdefault(row.device, Counter())[row.component] += row.size
    return found
