"""Recordings over texts in the sheet of runs: the form of one, and what was written."""

from pathlib import Path
from typing import get_args

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QGridLayout, QSpinBox, QWidget

from app.language import tr
from app.state.lab.repeat import command_of_recording
from app.state.talk.context import CHARACTERS_A_TOKEN
from app.state.workbench import Workbench
from app.theme import fonts
from app.views.lab.fields import PathField, check_box, form_of, time_of
from app.widgets.basics import label
from app.widgets.layouts import vbox
from app.widgets.lists.rows import Column, TableRows
from app.widgets.lists.table import Table
from app.widgets.numbers import UNKNOWN, grouped, kib
from engine.protocol import DatasetRecorded, ProbeFit, RecordDataset, RecordKind

KINDS: dict[RecordKind, str] = {
    "norms": tr("Norms"),
    "neurons": tr("Strongest tokens"),
    "experts": tr("Experts"),
    "imatrix": tr("Importance matrix"),
    "probe": tr("Linear probe"),
}
TEXTS = tr("Texts (*.txt *.md *.jsonl)")
CTX = 512
ROWS = 220  # pixels of the table
MOST_FILES = 1000  # whose sizes are added up


class RecordForm(QWidget):
    """Texts, a folder for what is recorded, and what that is."""

    changed = Signal()
    title = tr("Recording of texts")
    note = tr(
        "The model reads texts, and numbers of its inside are written into a folder. A recording"
        " that was stopped can be continued. Probes need JSONL files with text and label."
    )

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._bench = bench
        self.paths = PathField(tr("Texts"), "files", TEXTS)
        self.out = PathField(tr("Folder for the results"), "folder")
        self.ctx = QSpinBox()
        self.ctx.setRange(8, 1 << 16)
        self.ctx.setValue(CTX)
        self.kinds = {kind: check_box(title) for kind, title in KINDS.items()}
        self.kinds["norms"].setChecked(True)
        self.resume = check_box(tr("Continue what is in the folder"))
        column = vbox(
            form_of(
                (tr("Texts"), self.paths),
                (tr("Folder for the results"), self.out),
                (tr("Tokens of a chunk"), self.ctx),
            ),
            on=self,
        )
        what = QGridLayout()
        for box in (*self.kinds.values(), self.resume):
            box.toggled.connect(self.changed)
        for at, box in enumerate(self.kinds.values()):
            what.addWidget(box, at // 2, at % 2)
        column.addWidget(label(tr("What is recorded"), "quiet"))
        column.addLayout(what)
        column.addWidget(self.resume)
        for changed in (self.paths.changed, self.out.changed, self.ctx.valueChanged):
            changed.connect(self.changed)

    def refresh(self) -> None:
        """Chunks fit the context of the open model."""
        model = self._bench.session.model
        if model is not None:
            self.ctx.setMaximum(max(8, model.n_ctx))

    @property
    def is_ready(self) -> bool:
        """True if it can be started."""
        return bool(
            self._bench.session.model is not None
            and self.paths.paths
            and self.out.text
            and self.request.what
        )

    @property
    def request(self) -> RecordDataset:
        """The recording that the form describes."""
        return RecordDataset(
            0,
            self.paths.paths,
            self.out.text,
            [kind for kind in get_args(RecordKind) if self.kinds[kind].isChecked()],
            self.ctx.value(),
            self.resume.isChecked(),
        )

    @property
    def command(self) -> str:
        """The same in a terminal."""
        return command_of_recording(self.request, str(self._bench.session.path or "MODEL"))

    @property
    def foreseen(self) -> str:
        """Cost of the run, or what is missing."""
        if not self.is_ready:
            return tr("Open a model, choose texts, a folder and what is recorded.")
        size = sum(_sizes(self.paths.paths))
        if not size:
            return tr("These paths contain no text.")
        return tr(
            "{kib} KiB of text, about {tokens} tokens: about {time}",
            kib=kib(size),
            tokens=grouped(size // CHARACTERS_A_TOKEN),
            time=time_of(self._bench, size / CHARACTERS_A_TOKEN),
        )


class RecordResult(QWidget):
    """Show what was read and written, probes as a table."""

    def __init__(self) -> None:
        super().__init__()
        self.title = label("", size="strong", wrap=True)
        self.caption = label("", wrap=True)
        self.probes = Table(TableRows(_PROBES, self), tr("Linear probe"), stretch=(0,), short=True)
        self.probes.setMinimumHeight(fonts.px(ROWS))
        vbox(self.title, self.caption, self.probes, on=self)

    def show_result(self, found: DatasetRecorded) -> None:
        """Another recording."""
        self.title.setText(tr("{name}: recording", name=found.name))
        lines = [
            tr(
                "{tokens} tokens of {n} texts, on {device}",
                tokens=grouped(found.n_tokens),
                n=grouped(found.n_documents),
                device=found.device,
            ),
            tr("Written: {files}", files=", ".join(found.files)),
        ]
        if found.resumed:
            earlier = grouped(found.resumed)
            lines.insert(1, tr("{n} of them by an earlier run", n=earlier))
        self.caption.setText("\n".join(lines))
        self.probes.rows.show_rows(found.probes)
        self.probes.setVisible(bool(found.probes))


def _sizes(paths: list[str]) -> list[int]:
    """Bytes of files, and of those in folders."""
    found: list[int] = []
    for text in paths:
        path = Path(text).expanduser()
        try:
            inside = list(path.iterdir())[:MOST_FILES] if path.is_dir() else [path]
            found += [one.stat().st_size for one in inside if one.is_file()]
        except OSError:
            continue
    return found


def _share(value: float) -> str:
    return f"{100 * value:.1f} %"


_PROBES: list[Column[ProbeFit]] = [
    Column(tr("Layer"), lambda one: str(one.layer), lambda one: one.layer),
    Column(tr("Right"), lambda one: _share(one.accuracy), lambda one: one.accuracy, right=True),
    Column("±", lambda one: _share(one.error), lambda one: one.error, right=True),
    Column(
        "AUC",
        lambda one: UNKNOWN if one.auc is None else f"{one.auc:.3f}",
        lambda one: one.auc or 0.0,
        right=True,
    ),
    Column(
        tr("Shuffled labels"),
        lambda one: _share(one.shuffled),
        lambda one: one.shuffled,
        right=True,
    ),
]
