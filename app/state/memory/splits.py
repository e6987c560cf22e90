"""Times of each split of a step, measured by the engine during an answer."""

from PySide6.QtCore import QObject, Signal

from app.client import EngineClient
from app.state.selection import Selected
from engine.protocol import Loaded, SplitRecord, StepTimes, Unloaded

MOST_LAYERS = 1 << 20


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

    def place_of(self, selected: Selected) -> int | None:
        """The split that is selected, else the first one that holds the layer, else the first on
        the device; None where there is none.
        """
        if selected.split is not None:
            return selected.split if selected.split < len(self.splits) else None
        fits = (
            number
            for number, split in enumerate(self.splits)
            if (selected.layer is None or selected.layer in layers_of(split))
            and selected.device in (split.device, None)
        )
        return next(fits, None) if (selected.layer, selected.device) != (None, None) else None

    def _show(self, times: StepTimes) -> None:
        self.latest = times
        self.changed.emit()

    def _forget(self, _: object = None) -> None:
        if self.latest is not None:
            self.latest = None
            self.changed.emit()


def layers_of(split: SplitRecord) -> range:
    """The layers whose nodes a split runs, by the names of its first and last node: those after the
    last layer belong to the output block.
    """
    first, last = _layer(split.first), _layer(split.last)
    return range(first if first is not None else 0, (last if last is not None else MOST_LAYERS) + 1)


def _layer(node: str) -> int | None:
    number = node.rpartition("-")[2]
    return int(number) if number.isascii() and number.isdigit() else None
