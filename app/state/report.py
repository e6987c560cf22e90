"""A report on this machine's devices, while it is gathered and when it is there."""

from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.files import write_named
from app.report.contents import Report, ReportWanted
from app.report.document import markdown
from app.report.gather import gather
from app.work import Work


class ReportState(QObject):
    """`doing` says what runs now, `done` how much of it all, from 0 to 1; `report` is the last one.

    `problem` is one line where it could not be made or saved, `saved` the file it is in.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._job: Work | None = None
        self.doing, self.done = "", 0.0
        self.report: Report | None = None
        self.problem = ""
        self.saved: Path | None = None

    @property
    def is_busy(self) -> bool:
        return self._job is not None

    def start(self, wanted: ReportWanted) -> None:
        """Gather one; nothing while one is gathered."""
        if self.is_busy:
            return
        self.doing, self.done, self.problem = "starting", 0.0, ""
        self.report = self.saved = None
        job = Work.polling(_gather, wanted)
        self._job = (
            job.then(self._gathered).fail(self._failed).progress(self._on_progress).start(self)
        )
        self.changed.emit()

    def cancel(self) -> None:
        """Stop what runs on the devices, within a second; nothing is kept."""
        if self._job is not None:
            self._job.cancel()
            self._job, self.doing = None, ""
            self.changed.emit()

    def save(self, path: Path) -> None:
        """Write what there is into a file."""
        report = self.report
        if report is not None:
            job = Work(lambda: write_named(path, markdown(report).encode()))
            job.then(lambda _: self._stored(path)).fail(self._failed).start(self)

    def _on_progress(self, doing: str, done: float, total: float) -> None:
        self.doing, self.done = doing, done / total
        self.changed.emit()

    def _gathered(self, report: Report) -> None:
        self._job, self.doing, self.report = None, "", report
        self.changed.emit()

    def _failed(self, problem: str) -> None:
        self._job, self.doing, self.problem = None, "", problem
        self.changed.emit()

    def _stored(self, path: Path) -> None:
        self.saved, self.problem = path, ""
        self.changed.emit()


def _gather(job: Work, wanted: ReportWanted) -> Report:
    return gather(wanted, job.report, lambda: job.cancelled)
