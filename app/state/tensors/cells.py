"""The cells of the open model's caches: which are in use, by how many, and at which positions."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QObject, Signal

from app.client import EngineClient, Latest
from app.language import tr, tr_n
from app.state.live import LiveWanted
from app.state.session import Session
from engine.protocol import CacheCells, CellsRead, Compared, Failed, ReadCells


@dataclass(frozen=True)
class CacheUse:
    """One cache [C cells]: `sequences` in each, 0 where it is free, and `positions`, there -1.

    Or the slots of recurrent states: `kept` shows which are checkpoints, and the position is that
    of the last token that a state has read.
    """

    title: str
    layers: tuple[int, ...]
    sequences: NDArray[np.int64]
    positions: NDArray[np.int32]
    kept: NDArray[np.bool_] | None = None

    @property
    def size(self) -> int:
        return len(self.positions)

    @cached_property
    def used(self) -> int:
        return int(np.count_nonzero(self.sequences))

    @cached_property
    def shared(self) -> int:
        """The number of cells that several sequences share."""
        return int(np.count_nonzero(self.sequences > 1))

    @property
    def free(self) -> int:
        return self.size - self.used

    @cached_property
    def reach(self) -> tuple[int, int] | None:
        """The first and the last position that is kept."""
        kept = self.positions[self.sequences > 0]
        return (int(kept.min()), int(kept.max())) if len(kept) else None


class CellsState(QObject):
    """Asks while somebody looks: when a model opens, and again whenever an answer ends; meanwhile
    the answer sends by itself.
    """

    changed = Signal()

    def __init__(
        self,
        client: EngineClient,
        session: Session,
        live: LiveWanted,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._session, self._request, self._live = session, Latest(client), live
        self.caches: list[CacheUse] = []
        self.problem = ""
        self._shown = False
        session.changed.connect(self._look)
        client.on(Compared, lambda compared: self._look())
        client.on(CellsRead, self._read)

    def shown(self, shown: bool) -> None:
        """Set whether the view is visible."""
        self._shown = shown
        self._live.want(cells=shown)
        self._look()

    def _look(self) -> None:
        if self._session.model is None:
            self._request.forget()
            if self.caches or self.problem:
                self.caches, self.problem = [], ""
                self.changed.emit()
        elif self._shown and self._session.status == "ready":
            self._request.send(ReadCells(0), lambda reply: None, self._failed)

    def _read(self, reply: CellsRead) -> None:
        if self._session.model is None:
            return
        self.caches, self.problem = [cache_use(cache) for cache in reply.caches], ""
        self.changed.emit()

    def _failed(self, failed: Failed) -> None:
        self.problem = "" if failed.kind == "Cancelled" else failed.message
        self.changed.emit()


def cache_use(cells: CacheCells) -> CacheUse:
    """Count the cells in the engine's record of a cache."""
    bits = np.frombuffer(cells.bits, "<i4")
    sequences = np.unpackbits(bits.view(np.uint8)).reshape(-1, 32).sum(axis=1, dtype=np.int64)
    positions = np.frombuffer(cells.positions, "<i4").astype(np.int32)
    kept = np.frombuffer(cells.kept, "<i4") != 0 if cells.kept else None
    return CacheUse(_title(cells), tuple(cells.layers), sequences, positions, kept)


def _title(cells: CacheCells) -> str:
    sight = tr("whole context")
    if cells.kept:
        sight = tr("recurrent states")
    elif cells.window is not None:
        sight = tr("window {window}", window=cells.window)
    elif cells.chunk is not None:
        sight = tr("chunks of {chunk}", chunk=cells.chunk)
    layers = tr_n("{n} layer", "{n} layers", len(cells.layers))
    return f"{sight}, {layers}"
