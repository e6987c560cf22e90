"""A quantised row as it is stored, and what it lost against another file."""

from functools import partial
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QProgressBar, QSpinBox, QWidget

from app.language import tr
from app.state.tensors.numbers import Numbers
from app.state.tensors.statistics import StoredBlock, stored_blocks
from app.state.tensors.tensors import TensorsState
from app.theme import fonts
from app.widgets.basics import Button, label, set_tone
from app.widgets.file_dialogs import open_file
from app.widgets.layouts import SPARE, vbox
from app.widgets.lists.rows import Column, TableRows
from app.widgets.lists.table import Table
from app.widgets.numbers import grouped
from app.widgets.plots.cells import number_text
from app.work import Work

BLOCKS = (
    Column[StoredBlock](tr("From"), lambda b: str(b.first), lambda b: b.first, right=True),
    Column[StoredBlock](
        tr("Scales"),
        lambda b: "  ".join(map(number_text, b.scales)) or "–",
        lambda b: b.scales,
        right=True,
        mono=True,
    ),
    Column[StoredBlock](tr("Least"), lambda b: number_text(b.low), lambda b: b.low, right=True),
    Column[StoredBlock](tr("Largest"), lambda b: number_text(b.high), lambda b: b.high, right=True),
    Column[StoredBlock](tr("Bytes"), lambda b: b.bytes, mono=True, quiet=True),
)


class BlocksPage(QWidget):
    """The blocks of one row; the error of all rows once another file is chosen."""

    def __init__(self, state: TensorsState) -> None:
        super().__init__()
        self._state = state
        self._numbers: Numbers | None = None
        self._job: Work | None = None
        self.row = QSpinBox()
        self.row.setAccessibleName(tr("Row to show the blocks of"))
        self.row.setPrefix(tr("Row "))
        self.row.valueChanged.connect(self._read)
        self.about = label(tone="quiet", size="small", wrap=True)
        self.table = Table(TableRows(BLOCKS, self), tr("Blocks"))
        self.table.setMinimumHeight(fonts.px(160))
        self.against = Button(tr("Compare with a file…"), self._choose_file)
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setAccessibleName(tr("Comparing"))
        self.error = label(tone="quiet", wrap=True)
        vbox(
            (self.row, Qt.AlignmentFlag.AlignLeft),
            self.about,
            (self.table, 1),
            self.error,
            self.bar,
            (self.against, Qt.AlignmentFlag.AlignLeft),
            SPARE,
            on=self,
        )
        state.compared.connect(self._show_error)
        self._show_error()

    def show_numbers(self, numbers: Numbers | None) -> None:
        """The tensor whose blocks are shown, from its first row on."""
        self._numbers = numbers
        has = numbers is not None and numbers.fmt is not None and numbers.fmt.quantized
        for part in (self.row, self.table):
            part.setVisible(has)
        self.table.rows.show_rows(())
        if numbers is None or numbers.fmt is None or not has:
            plain = tr("numbers are stored one by one, not in blocks with a scale")
            self.about.setText("" if numbers is None else f"{numbers.type}: {plain}")
            return
        fmt = numbers.fmt
        bits = 8 * fmt.bytes / fmt.block
        self.about.setText(
            tr(
                "{name}: {block} numbers in {bytes} bytes, {bits:.4g} bits each",
                name=fmt.name,
                block=fmt.block,
                bytes=fmt.bytes,
                bits=bits,
            )
        )
        self.row.blockSignals(True)
        self.row.setRange(0, numbers.rows - 1)
        self.row.setValue(0)
        self.row.blockSignals(False)
        self._read()

    def _read(self) -> None:
        if self._numbers is not None:
            job = Work(stored_blocks, self._numbers, self.row.value())
            self._job = job.then(partial(self._have, self._numbers)).fail(self._failed).start(self)

    def _have(self, numbers: Numbers, blocks: list[StoredBlock]) -> None:
        if numbers is self._numbers:
            self.table.rows.show_rows(blocks)

    def _failed(self, problem: str) -> None:
        set_tone(self.about, "bad")
        self.about.setText(problem)

    def _choose_file(self) -> None:
        path = open_file(self, tr("Compare with"), tr("Models (*.gguf)"))
        if path:
            self._state.compare(Path(path))

    def _show_error(self) -> None:
        state = self._state
        self.bar.setVisible(state.comparing is not None)
        self.bar.setRange(0, 1000)
        self.bar.setValue(round(1000 * (state.comparing or 0)))
        set_tone(self.error, "bad" if state.loss_problem else "quiet")
        if state.loss_problem:
            self.error.setText(state.loss_problem)
        elif state.loss is not None and state.other is not None:
            loss = state.loss
            self.error.setText(
                tr(
                    "Against {type} of {name}: RMSE {rmse}, NMSE {nmse:.3g}, at most {worst} in"
                    " row {row}, column {column}",
                    type=loss.type,
                    name=state.other.name,
                    rmse=number_text(loss.rmse),
                    nmse=loss.nmse,
                    worst=number_text(loss.worst),
                    row=grouped(loss.row),
                    column=grouped(loss.column),
                )
            )
        else:
            self.error.setText(tr("Quantisation error against a file of higher precision."))
