"""Probes that are pinned: numbers of named results, token by token, while answers are written."""

from collections import deque
from dataclasses import dataclass

import numpy as np
from PySide6.QtCore import QObject, Signal

from app.client import EngineClient
from app.state.talk.chat import ChatState
from app.state.tensors.numbers import Floats
from engine.protocol import ProbedTokens

MOST = 512  # tokens that are kept
USUAL = r"l_out-\d+"


@dataclass(frozen=True)
class ProbedColumn:
    """Probed values of one token [rows]: root mean squares, largest |x|, and the channels of those.
    `word` is the token in the chat, None where its answer is not known any more.
    """

    word: tuple[int, int] | None  # message and index
    rms: Floats
    largest: Floats
    at: "np.ndarray[tuple[int], np.dtype[np.int32]]"


class ProbesState(QObject):
    """`columns` are of the latest tokens, all with the same `rows`. Answers send them only while
    something is pinned and somebody looks.
    """

    changed = Signal()  # pinned, pattern or problem
    begun = Signal()  # rows
    arrived = Signal(list)  # ProbedColumns that are new

    def __init__(
        self, client: EngineClient, chat: ChatState, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._chat = chat
        self._shown = False
        self._answer = 0
        self.pattern = USUAL
        self.pinned = False
        self.problem = ""
        self.rows: list[str] = []
        self.layers: list[int | None] = []  # of the rows
        self.columns: deque[ProbedColumn] = deque(maxlen=MOST)
        client.on(ProbedTokens, self._on_probed)

    def shown(self, shown: bool) -> None:
        """Set whether the view is visible; hidden views request no data."""
        self._shown = shown
        self._want()

    def pin(self, pattern: str) -> None:
        """From now on probe results whose whole name the regular expression matches."""
        self.pattern, self.pinned, self.problem = pattern, True, ""
        self._want()
        self.changed.emit()

    def unpin(self) -> None:
        self.pinned = False
        self._want()
        self.changed.emit()

    def _want(self) -> None:
        self._chat.live.want(probes=[self.pattern] if self.pinned and self._shown else [])

    def _on_probed(self, probed: ProbedTokens) -> None:
        if probed.problem:
            self.problem = probed.problem
            self.changed.emit()
            return
        rows = [f"{r.name}#{r.occurrence}" if r.occurrence else r.name for r in probed.rows]
        if rows != self.rows or probed.id != self._answer:
            self.rows, self._answer = rows, probed.id
            self.layers = [row.layer for row in probed.rows]
            self.columns.clear()
            self.begun.emit()
        n = len(rows)
        rms, largest = (
            np.frombuffer(x, "<f4").reshape(-1, n) for x in (probed.rms, probed.largest)
        )
        at = np.frombuffer(probed.at, "<i4").reshape(-1, n)
        words = [self._word(probed.first + i) for i in range(len(rms))]
        new = [ProbedColumn(*column) for column in zip(words, rms, largest, at, strict=True)]
        self.columns.extend(new)
        self.arrived.emit(new)

    def _word(self, index: int) -> tuple[int, int] | None:
        """That token of the answer."""
        answer = self._chat.answer
        if answer is None or answer.sent is None or answer.sent.id != self._answer:
            return None
        return answer.message.id, answer.begun + index
