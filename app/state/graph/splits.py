"""What each split of a step takes, as the engine measures it while an answer is written."""

from PySide6.QtCore import QObject, Signal

from app.client import EngineClient
from engine.protocol import Loaded, SplitRecord, StepTimes, Unloaded


class SplitsState(QObject):
    """`latest` is of the model that is open, from the answer being written or the last one."""

    changed = Signal()

    def __init__(self, client: EngineClient, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.latest: StepTimes | None = None
        client.on(StepTimes, self._show)
        client.on(Loaded, self._forget)
        client.on(Unloaded, self._forget)
        client.died.connect(self._forget)
        client.restarted.connect(self._forget)

    @property
    def splits(self) -> list[SplitRecord]:
        """In the order in which they run; none before an answer."""
        return self.latest.splits if self.latest is not None else []

    def busy(self) -> dict[str, int]:
        """Nanoseconds of a token that each device computes."""
        sums: dict[str, int] = {}
        for split in self.splits:
            sums[split.device] = sums.get(split.device, 0) + split.compute_ns
        return sums

    def _show(self, times: StepTimes) -> None:
        self.latest = times
        self.changed.emit()

    def _forget(self, _: object = None) -> None:
        if self.latest is not None:
            self.latest = None
            self.changed.emit()
