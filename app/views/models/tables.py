"""A file's metadata and tensors as tables."""

import re
from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QSplitter, QVBoxLayout, QWidget

from app.state.models.model import FileContent, MetaRow, shape_text, value_text
from app.state.selection import layer_of
from app.state.workbench import Workbench
from app.theme.tokens import GRID, PADDING
from app.widgets.basics import label
from app.widgets.lists.rows import Column, Rows
from app.widgets.lists.table import Table
from app.widgets.numbers import grouped, mib
from app.work import Work
from engine.gguf import Array, TensorInfo

Item = tuple[int, str]  # place in an array, value as text

META = (
    Column[MetaRow]("Key", lambda r: r.key, mono=True),
    Column[MetaRow]("Type", lambda r: r.type, quiet=True, mono=True),
    Column[MetaRow]("Value", lambda r: " ".join(r.value.split())),
)
ITEMS = (
    Column[Item]("Index", lambda r: str(r[0]), lambda r: r[0], right=True, quiet=True),
    Column[Item]("Value", lambda r: r[1], mono=True),
)
TENSORS = (
    Column[TensorInfo]("Name", lambda t: t.name, lambda t: _natural(t.name), mono=True),
    Column[TensorInfo]("Type", lambda t: t.fmt.name, mono=True),
    Column[TensorInfo](
        "Shape",
        lambda t: shape_text(t.shape[: t.n_dims]),
        lambda t: t.elements,
        right=True,
        mono=True,
    ),
    Column[TensorInfo]("MiB", lambda t: _small_mib(t.nbytes), lambda t: t.nbytes, right=True),
    Column[TensorInfo](
        "Bytes", lambda t: grouped(t.nbytes), lambda t: t.nbytes, right=True, quiet=True
    ),
    Column[TensorInfo](
        "Offset", lambda t: _place(t), lambda t: (t.file, t.offset), right=True, quiet=True
    ),
)


class MetadataPage(QWidget):
    """The pairs; an array's values below when it is chosen."""

    def __init__(self) -> None:
        super().__init__()
        self.table = Table(Rows(META, self), "Metadata")
        self.items = Table(Rows(ITEMS, self), "Values of the array")
        self._heading = label(tone="quiet")
        self._below = QWidget()
        below = QVBoxLayout(self._below)
        below.setContentsMargins(0, GRID, 0, 0)
        below.setSpacing(GRID)
        below.addWidget(self._heading)
        below.addWidget(self.items, 1)
        self._below.hide()
        split = QSplitter(Qt.Orientation.Vertical)
        split.setObjectName("metadata")
        split.setChildrenCollapsible(False)
        split.setHandleWidth(1)
        split.addWidget(self.table)
        split.addWidget(self._below)
        _fill(self, split)
        self._array: Array | None = None
        self._job: Work | None = None
        self.table.chosen.connect(self._chosen)

    def show_content(self, content: FileContent | None) -> None:
        rows = content.metadata if content is not None else ()
        if rows != self.table.rows.all_rows:
            self._below.hide()
            self.table.rows.show_rows(rows)

    def _chosen(self, row: MetaRow | None) -> None:
        array = row.array if row is not None else None
        self._below.setVisible(array is not None)
        if row is None or array is None or array is self._array:
            return
        self._array = array
        self._heading.setText(f"{row.key}: {grouped(len(array))} × {array.type}")
        self.items.rows.show_rows([])
        if self._job is not None:
            self._job.cancel()
        self._job = Work(array_items, array).then(self._show_items).start(self)

    def _show_items(self, made: tuple[Sequence[Item], Sequence[str]]) -> None:
        self.items.rows.show_rows(*made)


class TensorsPage(QWidget):
    """The tensors by name, layers in their order; by offset they stand as in the file."""

    place_wanted = Signal()  # of the tensor that is selected, by Enter or a double click

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._bench = bench
        self.table = Table(Rows(TENSORS, self), "Tensors", stretch=(0,))
        _fill(self, self.table)
        self.table.picked.connect(self._picked)
        self.table.activated.connect(lambda _: self.place_wanted.emit())
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

    def _picked(self, tensor: TensorInfo) -> None:
        self._bench.selection.select_tensor(tensor.name, self._layer(tensor))

    def _layer(self, tensor: TensorInfo) -> int | None:
        return layer_of(tensor.name, self._bench.memory.n_layer)

    def _show_selected(self) -> None:
        """The tensor, else the first one of the layer."""
        now = self._bench.selection.now
        if now.tensor is not None:
            self.table.choose_first(lambda tensor: tensor.name == now.tensor)
        elif now.layer is not None:
            self.table.choose_first(lambda tensor: self._layer(tensor) == now.layer)


def array_items(array: Array) -> tuple[list[Item], list[str]]:
    """Every value of an array with its place, and the texts that a filter looks in."""
    values: Any = array.strings() if str(array.type) == "string" else list(array)
    items = [
        (i, v if isinstance(v, str) else value_text(v, array.type)) for i, v in enumerate(values)
    ]
    return items, [f"{i}\t{text}".lower() for i, text in items]


def _natural(name: str) -> list[tuple[int, str]]:
    """Sorts blk.2 before blk.10: numbers first by their length, however long they are."""
    parts = re.split(r"([0-9]+)", name)
    numbers = [part.lstrip("0") if at % 2 else part for at, part in enumerate(parts)]
    return [(len(part) if at % 2 else -1, part) for at, part in enumerate(numbers)]


def _small_mib(size: int) -> str:
    """Small tensors are there, too: no 0.0."""
    return mib(size) if size >= 52429 else "< 0.1"


def _place(tensor: TensorInfo) -> str:
    return f"{tensor.file + 1}:{tensor.offset}" if tensor.file else str(tensor.offset)


def _fill(page: QWidget, content: QWidget) -> None:
    column = QVBoxLayout(page)
    column.setContentsMargins(PADDING, 12, PADDING, PADDING)
    column.addWidget(content)
