"""The file of the model: metadata, tensors, its tokenizer to play with, another file beside it."""

from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QStackedWidget, QWidget

from app.language import tr
from app.state.models.model import Difference, ModelState
from app.state.wanted import title_of
from app.state.workbench import Workbench
from app.theme.tokens import GRID, PADDING
from app.views.models.file_tables import MetadataPage, TensorsPage
from app.views.models.tokenizer import TokenizerPage
from app.widgets.basics import Button, IconButton, label, set_tone
from app.widgets.controls.elided import ElidedLabel
from app.widgets.controls.fitted_tabs import FittedTabs
from app.widgets.file_dialogs import open_file
from app.widgets.layouts import SPARE, hbox, vbox
from app.widgets.lists.rows import Column, TableRows
from app.widgets.lists.table import Table
from app.widgets.numbers import file_size, grouped, mib
from engine.protocol import FileContent

TONES = {"only A": "warn", "only B": "good", "changed": "link"}
COLUMNS = (
    Column[Difference](tr("Where"), lambda d: d.where, tone=lambda d: TONES[d.where]),
    Column[Difference](tr("Kind"), lambda d: d.kind, quiet=True),
    Column[Difference](tr("Name"), lambda d: d.name, mono=True),
    Column[Difference]("A", lambda d: " ".join(d.a.split())),
    Column[Difference]("B", lambda d: " ".join(d.b.split())),
)


class DifferencePage(QWidget):
    """Choose a file; keys and tensors that are not the same in both."""

    def __init__(self, state: ModelState) -> None:
        super().__init__()
        self._state = state
        self.caption = label(tone="quiet", wrap=True)
        self.choose = Button(tr("Compare with…"), self._choose, picture="compare")
        self.table = Table(TableRows(COLUMNS, self), tr("Differences"), stretch=(3, 4))
        row = hbox((self.caption, 1), self.choose, spacing=GRID)
        vbox(row, (self.table, 1), SPARE, on=self, margins=(PADDING, 12, PADDING, PADDING))
        state.difference_changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        state = self._state
        set_tone(self.caption, "bad" if state.difference_problem else "quiet")
        if state.difference_problem:
            text = state.difference_problem
        elif state.other is None:
            text = tr("Choose another file to see which keys and tensors differ from this one.")
        else:
            count = len(state.differences)
            name = Path(state.other.path).name
            text = tr(
                "{count} differences. B is {name}.",
                count=grouped(count) if count else tr("No"),
                name=name,
            )
        self.caption.setText(text)
        self.table.setVisible(state.other is not None)
        self.table.rows.show_rows(state.differences)

    def _choose(self) -> None:
        path = open_file(self, tr("Compare with"), tr("Models (*.gguf)"))
        if path:
            self._state.compare(Path(path))


class ModelView(QWidget):
    """Shows `bench.file`."""

    done = Signal()

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._state = state = bench.file
        self.setAccessibleName(tr("The model's file"))
        self._title = ElidedLabel(size="strong")
        self.caption = label(tone="quiet", wrap=True)
        self.tabs = FittedTabs(tr("Parts of the model's file"))
        self.tabs.setProperty("level", "second")
        self.metadata = MetadataPage(state)
        self.tensors = TensorsPage(bench)
        self.tokenizer = TokenizerPage(state)
        self.difference = DifferencePage(state)
        self._stack = QStackedWidget()
        for title, page in (
            (tr("Metadata"), self.metadata),
            (tr("Tensors"), self.tensors),
            (tr("Tokenizer"), self.tokenizer),
            (tr("Difference"), self.difference),
        ):
            self.tabs.put(title)
            self._stack.addWidget(page)
        self.tabs.currentChanged.connect(self._stack.setCurrentIndex)
        self._parts = QWidget()
        line = hbox((self.tabs, 1), margins=(PADDING, 0, PADDING, GRID // 2))
        vbox(line, (self._stack, 1), on=self._parts, spacing=0)
        first = hbox(
            (self._title, 1), IconButton("close", tr("Close the model's file"), self.done.emit, 16)
        )
        head = vbox(
            first, self.caption, margins=(PADDING, PADDING, PADDING, GRID // 2), spacing=GRID // 2
        )
        vbox(head, GRID // 2, (self._parts, 1), SPARE, on=self, spacing=0)
        state.changed.connect(self.refresh)
        self.refresh()

    def show_tensors(self, layer: int | None) -> None:
        """The tensors of a layer, or all."""
        self.tensors.show_layer(layer)
        self.tabs.setCurrentIndex(self._stack.indexOf(self.tensors))

    def refresh(self) -> None:
        state, content = self._state, self._state.content
        set_tone(self.caption, "bad" if state.problem else "quiet")
        if content is None:
            self._title.setText(title_of(state.path) or tr("No model"))
            empty = tr("A model's metadata, tensors and tokens show here when it opens.")
            self.caption.setText(
                state.problem or (tr("Reading the file …") if state.looking else empty)
            )
        else:
            self._title.setText(Path(content.path).name)
            self.caption.setText(_summary(content))
        self._parts.setVisible(content is not None)
        self.metadata.show_content(content)
        self.tensors.show_content(content)


def _summary(content: FileContent) -> str:
    types = " · ".join(f"{name} {mib(size)} MiB" for name, (_, size) in content.types.items())
    first = tr(
        "{name} · {architecture} · {parameters:.1f} M parameters · {size}",
        name=content.name,
        architecture=content.architecture or tr("no architecture"),
        parameters=content.parameters / 1000000.0,
        size=file_size(content.size),
    )
    return tr(
        "{first}\n{tensors} tensors: {types}",
        first=first,
        tensors=grouped(len(content.tensors)),
        types=types,
    )
