"""The quality of a quantisation in the sheet of runs: the form, and what was measured."""

from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLineEdit, QSpinBox, QWidget

from app.documents.document import Document
from app.documents.reading import read_document
from app.language import tr
from app.state.lab.repeat import command_of_quality
from app.state.lab.shading import title_of
from app.state.workbench import Workbench
from app.theme import fonts
from app.views.lab.fields import BETWEEN, PathField, check_box, form_of, time_of
from app.widgets.basics import label
from app.widgets.layouts import vbox
from app.widgets.lists.rows import Column, TableRows
from app.widgets.lists.table import Table
from app.widgets.numbers import UNKNOWN, grouped, mib, small
from app.work import Work
from engine.protocol import (
    Estimate,
    LayerDrift,
    MeasureQuality,
    QualityMeasured,
    TensorLoss,
    TensorSwap,
)

MODELS, TEXTS = tr("Models (*.gguf)"), tr("Texts (*.txt *.md)")
CTX, CHUNKS, EXACT = 512, 8, 16
ROWS = 220  # pixels of a table


class QualityForm(QWidget):
    """Two files, a text, and how much of it is read; or one file with tensors in other types."""

    changed = Signal()
    title = tr("Quality of a quantisation")
    note = tr(
        "A file is compared with one in higher precision on a text of yours: how often the"
        " likeliest token is another one, and by how much. The open model is closed for that and"
        " opened again afterwards."
    )

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._bench = bench
        self.path = PathField(tr("File"), "file", MODELS)
        self.base = PathField(tr("Compare with"), "file", MODELS)
        self.text = PathField(tr("Text"), "file", TEXTS)
        self.swaps, self.ctx, self.chunks = QLineEdit(), QSpinBox(), QSpinBox()
        self.swaps.setPlaceholderText(r"blk\.5\.ffn_down\.weight=Q4_K; output\.weight=Q6_K")
        self.ctx.setRange(16, 1 << 16)
        self.ctx.setValue(CTX)
        self.chunks.setRange(1, 1 << 16)
        self.chunks.setValue(CHUNKS)
        self.drift = check_box(tr("Error of each layer"))
        self.guilty = check_box(tr("Find the tensors that lose most"))
        self.problem = ""
        self._document: Document | None = None
        self._job: Work | None = None
        vbox(
            form_of(
                (tr("File"), self.path),
                (tr("Compare with"), self.base),
                (tr("Text"), self.text),
                (tr("Tensors in another type"), self.swaps),
                (tr("Tokens of a chunk"), self.ctx),
                (tr("Chunks at most"), self.chunks),
            ),
            self.drift,
            self.guilty,
            on=self,
        )
        self.text.changed.connect(self._read)
        self.swaps.textChanged.connect(self._show_swaps)
        for changed in (
            self.path.changed,
            self.base.changed,
            self.ctx.valueChanged,
            self.chunks.valueChanged,
        ):
            changed.connect(self.changed)

    def refresh(self) -> None:
        """Begin with the open model."""
        session = self._bench.session
        if not self.path.text and session.path is not None and session.connection is None:
            self.path.set_text(str(session.path))

    @property
    def is_ready(self) -> bool:
        """True if it can be started."""
        other = self.path.text or self.swapped
        return bool(other and self.base.text and self._document)

    @property
    def swapped(self) -> list[TensorSwap]:
        """Tensors of the compared file in another type, or as the other file has them."""
        parts = (one.strip().partition("=") for one in self.swaps.text().split(BETWEEN.strip()))
        return [TensorSwap(name.strip(), kind.strip()) for name, _, kind in parts if name]

    @property
    def request(self) -> MeasureQuality:
        """The measurement that the form describes."""
        return MeasureQuality(
            0,
            self.base.text,
            self._bench.session.options,
            self._document.text if self._document is not None else "",
            self.path.text,
            self.ctx.value(),
            self.chunks.value(),
            drift=self.drift.isChecked() and not self.swapped,
            guilty=EXACT if self.guilty.isChecked() and not self.swapped else 0,
            swaps=self.swapped,
        )

    @property
    def command(self) -> str:
        """The same in a terminal."""
        return command_of_quality(self.request, self.text.text)

    @property
    def foreseen(self) -> str:
        """Cost of the run, or what is missing."""
        if self.problem:
            return self.problem
        if not self.is_ready:
            return tr("Choose two files and a text, or one to compare with and its tensors.")
        tokens = 2 * self.ctx.value() * self.chunks.value()
        return tr(
            "At most {tokens} tokens: about {time}; {mib} MiB of weights, or one file after the"
            " other where both do not fit",
            tokens=grouped(tokens),
            time=time_of(self._bench, tokens),
            mib=mib(sum(_size(one.text) for one in (self.path, self.base))),
        )

    def _show_swaps(self) -> None:
        """Offer what is measured of two whole files only without swaps."""
        for box in (self.drift, self.guilty):
            box.setEnabled(not self.swapped)
        self.changed.emit()

    def _read(self) -> None:
        """Read the text, in a job."""
        self._document, self.problem = None, ""
        if self._job is not None:
            self._job.cancel()
        if self.text.text:
            path = Path(self.text.text).expanduser()
            self._job = Work(read_document, path).then(self._have).fail(self._refuse).start(self)
        self.changed.emit()

    def _have(self, document: Document) -> None:
        self._document = document
        self.changed.emit()

    def _refuse(self, problem: str) -> None:
        self.problem = problem
        self.changed.emit()


class QualityResult(QWidget):
    """Show estimates in sentences, layers and tensors as tables."""

    def __init__(self) -> None:
        super().__init__()
        self.title = label("", size="strong", wrap=True)
        self.caption = label("", wrap=True)
        self.layers = Table(
            TableRows(_LAYERS, self), tr("Error of each layer"), stretch=(0,), short=True
        )
        self.tensors = Table(
            TableRows(_TENSORS, self), tr("Tensors that lose most"), stretch=(0,), short=True
        )
        vbox(self.title, self.caption, self.layers, self.tensors, on=self)
        for table in (self.layers, self.tensors):
            table.setMinimumHeight(fonts.px(ROWS))

    def show_result(self, found: QualityMeasured) -> None:
        """Another measurement."""
        self.title.setText(title_of(found))
        self.caption.setText("\n".join(_sentences(found)))
        self.layers.rows.show_rows(found.drift)
        self.tensors.rows.show_rows(found.tensors)
        self.layers.setVisible(bool(found.drift))
        self.tensors.setVisible(bool(found.tensors))


def _sentences(found: QualityMeasured) -> list[str]:
    one = found.estimates
    if one is None:
        return []
    turn = tr(" The files were open one after the other.") if found.in_turn else ""
    return [
        tr(
            "Mean KL divergence {kld}, at most {most:.3g}",
            kld=_with_error(one.kld, 5),
            most=one.kld_max,
        ),
        tr(
            "The likeliest token is the same at {share} % of the positions",
            share=_with_error(_percent(one.same_top), 2),
        ),
        tr(
            "Perplexity {ppl}, of the other file {base}: the ratio is {ratio}",
            ppl=_with_error(one.ppl, 3),
            base=_with_error(one.ppl_base, 3),
            ratio=_with_error(one.ratio, 4),
        ),
        tr(
            "{n} positions of {chunks} chunks of {ctx} tokens, on {device}.{turn}",
            n=grouped(one.n),
            chunks=grouped(found.n_chunks),
            ctx=grouped(found.n_ctx),
            device=found.device,
            turn=turn,
        ),
    ]


def _percent(share: Estimate) -> Estimate:
    return Estimate(100 * share.value, 100 * share.error)


def _with_error(one: Estimate, digits: int) -> str:
    return tr("{value} ± {error}", value=round(one.value, digits), error=round(one.error, digits))


def _size(path: str) -> int:
    try:
        return Path(path).expanduser().stat().st_size
    except OSError:
        return 0


def _exact(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.5f}"


_LAYERS: list[Column[LayerDrift]] = [
    Column(tr("Layer"), lambda one: str(one.layer), lambda one: one.layer),
    Column("NMSE", lambda one: small(one.nmse, 3), lambda one: one.nmse, right=True),
    Column(tr("Cosine"), lambda one: f"{one.cosine:.5f}", lambda one: one.cosine, right=True),
    Column(
        tr("NMSE from token 4 on"),
        lambda one: small(one.later_nmse, 3),
        lambda one: one.later_nmse,
        right=True,
    ),
]
_TENSORS: list[Column[TensorLoss]] = [
    Column(tr("Tensor"), lambda one: one.name, mono=True),
    Column(tr("Type"), lambda one: one.type),
    Column("MiB", lambda one: mib(one.size), lambda one: one.size, right=True),
    Column(
        tr("First order"),
        lambda one: small(one.output_nmse, 3),
        lambda one: one.output_nmse,
        right=True,
    ),
    Column(
        tr("KLD alone"), lambda one: _exact(one.alone), lambda one: one.alone or 0.0, right=True
    ),
    Column(
        tr("KLD without"),
        lambda one: _exact(one.without),
        lambda one: one.without or 0.0,
        right=True,
    ),
]
