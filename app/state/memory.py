"""The engine's memory records, the latest of each kind."""

from PySide6.QtCore import QObject, Signal

from engine.protocol import Memory


class MemoryState(QObject):
    """`planned` before loading, `held` now, `predicted` for what the chooser asks about."""

    changed = Signal()  # planned or held
    prediction_changed = Signal()

    planned: Memory | None
    held: Memory | None
    predicted: Memory | None
