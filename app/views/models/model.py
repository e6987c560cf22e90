"""The file of the model: metadata, tensors, its tokenizer to play with, another file beside it."""

from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QStackedWidget, QVBoxLayout, QWidget

from app.state.wanted import title_of
from app.state.workbench import Workbench
from app.theme.tokens import GRID, PADDING
from app.views.models.difference import DifferencePage
from app.views.models.tables import MetadataPage, TensorsPage
from app.views.models.tokenizer import TokenizerPage
from app.widgets.basics import IconButton, label, set_tone
from app.widgets.controls.elided import ElidedLabel
from app.widgets.controls.fitted_tabs import FittedTabs
from app.widgets.numbers import grouped, mib
from engine.protocol import FileContent


class ModelView(QWidget):
    """Shows `bench.file`."""

    done = Signal()

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._state = state = bench.file
        self.setAccessibleName("The model's file")
        self._title = ElidedLabel(size="strong")
        self._says = label(tone="quiet", wrap=True)
        self.tabs = FittedTabs("Parts of the model's file")
        self.tabs.setProperty("level", "second")
        self.metadata = MetadataPage(state)
        self.tensors = TensorsPage(bench)
        self.tokenizer = TokenizerPage(state)
        self.difference = DifferencePage(state)
        self._stack = QStackedWidget()
        for title, page in (
            ("Metadata", self.metadata),
            ("Tensors", self.tensors),
            ("Tokenizer", self.tokenizer),
            ("Difference", self.difference),
        ):
            self.tabs.put(title)
            self._stack.addWidget(page)
        self.tabs.currentChanged.connect(self._stack.setCurrentIndex)
        self._parts = QWidget()
        parts = QVBoxLayout(self._parts)
        parts.setContentsMargins(0, 0, 0, 0)
        parts.setSpacing(0)
        line = QHBoxLayout()
        line.setContentsMargins(PADDING, 0, PADDING, GRID // 2)
        line.addWidget(self.tabs, 1)
        parts.addLayout(line)
        parts.addWidget(self._stack, 1)
        head = QVBoxLayout()
        head.setContentsMargins(PADDING, PADDING, PADDING, GRID // 2)
        head.setSpacing(GRID // 2)
        first = QHBoxLayout()
        first.addWidget(self._title, 1)
        first.addWidget(IconButton("close", "Close the model's file", self.done.emit, 16))
        head.addLayout(first)
        head.addWidget(self._says)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(head)
        column.addSpacing(GRID // 2)
        column.addWidget(self._parts, 1)
        column.addStretch(0)
        state.changed.connect(self.refresh)
        self.refresh()

    def show_tensors(self, layer: int | None) -> None:
        """The tensors of a layer, or all."""
        self.tensors.show_layer(layer)
        self.tabs.setCurrentIndex(self._stack.indexOf(self.tensors))

    def refresh(self) -> None:
        state, content = self._state, self._state.content
        set_tone(self._says, "bad" if state.problem else "quiet")
        if content is None:
            self._title.setText(title_of(state.path) or "No model")
            empty = "A model's metadata, tensors and tokens show here when it opens."
            self._says.setText(state.problem or ("Reading the file …" if state.looking else empty))
        else:
            self._title.setText(Path(content.path).name)
            self._says.setText(_summary(content))
        self._parts.setVisible(content is not None)
        self.metadata.show_content(content)
        self.tensors.show_content(content)


def _summary(content: FileContent) -> str:
    types = " · ".join(f"{name} {mib(size)} MiB" for name, (_, size) in content.types.items())
    first = (
        f"{content.name} · {content.architecture or 'no architecture'} · "
        f"{content.parameters / 1e6:.1f} M parameters · {mib(content.size)} MiB"
    )
    return f"{first}\n{grouped(len(content.tensors))} tensors: {types}"
