"""A file's metadata and tensors as tables."""

import re
from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QSplitter, QWidget

from app.language import tr
from app.state.models.model import ModelState, shape_text
from app.state.selection import layer_of
from app.state.workbench import Workbench
from app.theme.tokens import GRID, PADDING
from app.widgets.basics import label
from app.widgets.layouts import vbox
from app.widgets.lists.rows import Column, TableRows
from app.widgets.lists.table import Table
from app.widgets.numbers import grouped, mib
from app.work import Work
from engine.protocol import FileContent, MetaRow, TensorRow

Item = tuple[int, str]  # place in an array, value as text

META = (
    Column[MetaRow](tr("Key"), lambda r: r.key, mono=True),
    Column[MetaRow](tr("Type"), lambda r: r.type, quiet=True, mono=True),
    Column[MetaRow](tr("Value"), lambda r: " ".join(r.value.split())),
)
ITEMS = (
    Column[Item](tr("Index"), lambda r: str(r[0]), lambda r: r[0], right=True, quiet=True),
    Column[Item](tr("Value"), lambda r: r[1], mono=True),
)
TENSORS = (
    Column[TensorRow](tr("Name"), lambda t: t.name, lambda t: _natural(t.name), mono=True),
    Column[TensorRow](tr("Type"), lambda t: t.type, mono=True),
    Column[TensorRow](
        tr("Shape"),
        lambda t: shape_text(t.shape),
        lambda t: t.elements,
        right=True,
        mono=True,
    ),
    Column[TensorRow]("MiB", lambda t: _small_mib(t.size), lambda t: t.size, right=True),
    Column[TensorRow](
        tr("Bytes"), lambda t: grouped(t.size), lambda t: t.size, right=True, quiet=True
    ),
    Column[TensorRow](
        tr("Offset"), lambda t: _place(t), lambda t: (t.file, t.offset), right=True, quiet=True
    ),
)


class MetadataPage(QWidget):
    """The pairs; an array's values below when it is chosen."""

    def __init__(self, state: ModelState) -> None:
        super().__init__()
        self._state = state
        self.table = Table(TableRows(META, self), tr("Metadata"))
        self.items = Table(TableRows(ITEMS, self), tr("Array values"))
        self._heading = label(tone="quiet")
        self._below = QWidget()
        vbox(self._heading, (self.items, 1), on=self._below, margins=(0, GRID, 0, 0))
        self._below.hide()
        split = QSplitter(Qt.Orientation.Vertical)
        split.setObjectName("metadata")
        split.setChildrenCollapsible(False)
        split.setHandleWidth(1)
        split.addWidget(self.table)
        split.addWidget(self._below)
        _fill(self, split)
        self._job: Work | None = None
        self.table.chosen.connect(self._chosen)
        state.array_changed.connect(self._show_array)

    def show_content(self, content: FileContent | None) -> None:
        rows = content.metadata if content is not None else ()
        if rows != self.table.rows.all_rows:
            self._below.hide()
            self.table.rows.show_rows(rows)

    def _chosen(self, row: MetaRow | None) -> None:
        self._below.setVisible(row is not None and row.count is not None)
        if row is None or row.count is None or row.key == self._state.array_key:
            return
        self._heading.setText(f"{row.key}: {grouped(row.count)} × {row.type.split()[0]}")
        self.items.rows.show_rows([])
        self._state.read_array(row.key)

    def _show_array(self) -> None:
        if self._job is not None:
            self._job.cancel()
        self._job = Work(array_items, self._state.array).then(self._show_items).start(self)

    def _show_items(self, made: tuple[Sequence[Item], Sequence[str]]) -> None:
        self.items.rows.show_rows(*made)


class TensorsPage(QWidget):
    """The tensors by name, layers in their order; by offset they stand as in the file."""

    picture_wanted = Signal()  # of the tensor that is selected, by Enter or a double click

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._bench = bench
        self.table = Table(TableRows(TENSORS, self), tr("Tensors"), stretch=(0,))
        _fill(self, self.table)
        self.table.picked.connect(self._picked)
        self.table.activated.connect(lambda _: self.picture_wanted.emit())
        bench.selection.changed.connect(self._show_selected)

    def show_content(self, content: FileContent | None) -> None:
        tensors = content.tensors if content is not None else ()
        rows = sorted(tensors, key=lambda t: _natural(t.name))
        if rows != list(self.table.rows.all_rows):
            self.table.rows.show_rows(rows)
            self._show_selected()

    def show_layer(self, layer: int | None) -> None:
        """Only the tensors of a layer; all where it is None."""
        if layer is None:
            self.table.query.clear()
        elif layer == self._bench.memory.n_layer:
            self.table.query.setText("output")
        else:
            self.table.query.setText(f"blk.{layer}.")

    def _picked(self, tensor: TensorRow) -> None:
        self._bench.selection.select_tensor(tensor.name, self._layer(tensor))

    def _layer(self, tensor: TensorRow) -> int | None:
        return layer_of(tensor.name, self._bench.memory.n_layer)

    def _show_selected(self) -> None:
        """The tensor, else the first one of the layer."""
        now = self._bench.selection.now
        if now.tensor is not None:
            self.table.choose_first(lambda tensor: tensor.name == now.tensor)
        elif now.layer is not None:
            self.table.choose_first(lambda tensor: self._layer(tensor) == now.layer)


def array_items(values: Sequence[str]) -> tuple[list[Item], list[str]]:
    """Every value of an array with its place, and the texts that a filter looks in."""
    items = list(enumerate(values))
    return items, [f"{i}\t{text}".lower() for i, text in items]


def _natural(name: str) -> list[tuple[int, str]]:
    """Sorts blk.2 before blk.10: numbers first by their length, however long they are."""
    parts = re.split(r"([0-9]+)", name)
    numbers = [part.lstrip("0") if at % 2 else part for at, part in enumerate(parts)]
    return [(len(part) if at % 2 else -1, part) for at, part in enumerate(numbers)]


def _small_mib(size: int) -> str:
    """MiB of a tensor; never 0.0 for a small one."""
    return mib(size) if size >= 52429 else "< 0.1"


def _place(tensor: TensorRow) -> str:
    return f"{tensor.file + 1}:{tensor.offset}" if tensor.file else str(tensor.offset)


def _fill(page: QWidget, content: QWidget) -> None:
    vbox(content, on=page, margins=(PADDING, 12, PADDING, PADDING))
