"""Recording answers: the next one or none, the last two that were recorded, the devices' roofs."""

from time import time

from PySide6.QtCore import QObject, Signal

from app.state.live import LiveWanted
from app.state.problem import Problem
from app.state.profile.recorded import RecordedAnswer
from app.state.session import Session
from engine.protocol import (
    AnswerRecorded,
    DeviceRoof,
    Failed,
    MeasureRoofs,
    RoofsMeasured,
)

MOST = 2  # answers that are kept: the last, and one to compare it with


class ProfileState(QObject):
    """`answers` are the latest recorded, the newest last; `recording` says that the next answer, or
    the one being written, is recorded.
    """

    changed = Signal()
    problem = Signal(object)  # Problem of measuring the devices

    def __init__(self, session: Session, live: LiveWanted, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session, self._live = session, live
        self.answers: list[RecordedAnswer] = []
        self.roofs: dict[str, DeviceRoof] = {}
        self.measuring = False
        self._roofs_of: object = None
        session.client.on(AnswerRecorded, self._take)
        session.client.died.connect(self._died)
        session.changed.connect(self._follow_model)

    @property
    def recording(self) -> bool:
        return self._live.value.record

    @property
    def latest(self) -> RecordedAnswer | None:
        return self.answers[-1] if self.answers else None

    @property
    def before(self) -> RecordedAnswer | None:
        """The recording to compare the latest one with."""
        return self.answers[-2] if len(self.answers) > 1 else None

    def record(self, wanted: bool) -> None:
        """Record the answer that is written, or else the next one; or no longer."""
        if wanted != self.recording:
            self._live.want(record=wanted)
            self.changed.emit()

    def measure_roofs(self) -> None:
        """Measure what the open model's devices can do, once for a model."""
        if self.measuring or self.roofs or self._session.status != "ready":
            return
        self.measuring = True
        self._session.client.send(MeasureRoofs(0), self._measured, self._not_measured)
        self.changed.emit()

    def _take(self, record: AnswerRecorded) -> None:
        answer = RecordedAnswer(record, self._session.model_title, time())
        self.answers = [*self.answers, answer][-MOST:]
        self._live.want(record=False)
        self.changed.emit()

    def _died(self, error: object) -> None:
        self.measuring = False
        self.changed.emit()

    def _follow_model(self) -> None:
        if self._session.model is not self._roofs_of:
            self._roofs_of = self._session.model
            self.roofs = {}
        self.changed.emit()

    def _measured(self, measured: RoofsMeasured) -> None:
        self.measuring = False
        self.roofs = {roof.device: roof for roof in measured.roofs}
        self.changed.emit()

    def _not_measured(self, failed: Failed) -> None:
        self.measuring = False
        self.problem.emit(Problem(failed.kind, failed.message))
        self.changed.emit()
