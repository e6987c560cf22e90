"""All tensors in groups, with a filter."""

from collections.abc import Sequence
from dataclasses import dataclass
from os.path import commonprefix
from typing import Any

from PySide6.QtCore import (
    QEvent,
    QModelIndex,
    QPersistentModelIndex,
    QSortFilterProxyModel,
    Qt,
    Signal,
)
from PySide6.QtGui import QColor, QStandardItem, QStandardItemModel
from PySide6.QtWidgets import (
    QAbstractItemView,
    QComboBox,
    QHeaderView,
    QLineEdit,
    QTreeView,
    QWidget,
)

from app.language import tr
from app.state.lab.shading import Shade
from app.state.models.model import shape_text
from app.state.tensors.results import TensorGroup, TensorItem
from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import readable
from app.widgets.basics import LOOKS
from app.widgets.layouts import vbox
from app.widgets.plots.scale import ColourScale, shade_of
from app.widgets.tips import plain_tip

INDENTATION = 14
_ITEM = Qt.ItemDataRole.UserRole


class TensorTree(QWidget):
    """Groups that open and close; a filter shows what has all of its words, opened. Beside a tensor
    is its type, or what it loses in the colour of that, as `colour` chooses where it is known.
    """

    picked = Signal(object)  # a TensorItem that the person went to
    opened = Signal()  # the present one, by Enter or a double click

    def __init__(self) -> None:
        super().__init__()
        self._groups: list[TensorGroup] = []
        self._at: TensorItem | None = None
        self._by_program = False
        self._loss: Shade | None = None
        self._seen = _Seen()
        self.colour = QComboBox()
        self.colour.setAccessibleName(tr("Colour of the tensors"))
        for title in (tr("Type"), tr("Loss")):
            self.colour.addItem(title)
        self.colour.hide()
        self.colour.activated.connect(self._show_shade)
        self.scale = ColourScale(tr("Meaning of the colours"))
        self.scale.hide()
        self.query = QLineEdit()
        self.query.setPlaceholderText(tr("Filter tensors"))
        self.query.setAccessibleName(tr("Filter tensors"))
        self.query.setClearButtonEnabled(True)
        self.query.textChanged.connect(self._filter)
        self._rows = QStandardItemModel(self)
        self.filtered = _Filtered(self)
        self.filtered.setSourceModel(self._rows)
        self.view = QTreeView()
        self.view.setAccessibleName(tr("Tensors"))
        self.view.setModel(self.filtered)
        self.view.setHeaderHidden(True)
        self.view.setUniformRowHeights(True)
        self.view.setIndentation(fonts.px(INDENTATION))
        self.view.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.view.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.view.selectionModel().currentChanged.connect(self._current)
        self.view.activated.connect(self._activated)
        vbox(self.query, self.colour, (self.view, 1), self.scale, on=self)

    def show_groups(self, groups: list[TensorGroup]) -> None:
        """Other tensors; the first group is open."""
        self._groups = groups
        self._fill()

    def show_loss(self, loss: Shade | None) -> None:
        """Offer what tensors lose by their names; None where it is not known."""
        if loss != self._loss:
            self._loss = loss
            self.colour.setVisible(loss is not None)
            self._show_shade()

    def _show_shade(self) -> None:
        """Show types or losses in every row."""
        shade = self._seen.shade = self._loss if self.colour.currentIndex() == 1 else None
        self.scale.setVisible(shade is not None)
        if shade is not None:
            self.scale.show_scale(shade.heading, shade.ends, shade.is_diverging)
        for at in range(self._rows.rowCount()):
            for row in (self._rows.item(at, 0), self._rows.item(at, 1)):
                row.emitDataChanged()
            head = self._rows.item(at)
            for row in (head.child(n, side) for n in range(head.rowCount()) for side in (0, 1)):
                row.emitDataChanged()

    def go_to(self, item: TensorItem | None) -> None:
        """Put the cursor on a tensor without a signal."""
        self._at = item
        for row in range(self._rows.rowCount()):
            group = self._rows.item(row)
            for at in range(group.rowCount()):
                if group.child(at).data(_ITEM) == item:
                    index = self.filtered.mapFromSource(group.child(at).index())
                    if index.isValid() and index != self.view.currentIndex():
                        self._by_program = True
                        self.view.setCurrentIndex(index)
                        self.view.scrollTo(index)
                        self._by_program = False
                    return

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in LOOKS:
            self.view.setIndentation(fonts.px(INDENTATION))
            self.view.scheduleDelayedItemsLayout()

    def _fill(self) -> None:
        self._by_program = True
        self._rows.clear()
        self._rows.setColumnCount(2)
        for group in self._groups:
            every = [item.name for item in group.items]
            head = _Row(group.title, self._seen, every)
            for item in group.items:
                name, one = short_name(item, group), [item.name]
                head.appendRow(
                    [_Row(name, self._seen, one, item), _Value(item.type, self._seen, one)]
                )
            self._rows.appendRow([head, _Value(str(len(group.items)), self._seen, every)])
        header = self.view.header()
        if header.count():
            header.setStretchLastSection(False)
            header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
            header.setSectionResizeMode(1, QHeaderView.ResizeMode.ResizeToContents)
        self._filter(self.query.text())
        self._by_program = False
        self.go_to(self._at)

    def _filter(self, text: str) -> None:
        self.filtered.look_for(text)
        if text.strip():
            self.view.expandAll()
        elif self._rows.rowCount():
            self.view.expand(self.filtered.index(0, 0))

    def _activated(self, index: QModelIndex) -> None:
        if isinstance(index.siblingAtColumn(0).data(_ITEM), TensorItem):
            self.opened.emit()

    def _current(self, index: QModelIndex) -> None:
        item = index.siblingAtColumn(0).data(_ITEM)
        if isinstance(item, TensorItem) and not self._by_program:
            self._at = item
            self.picked.emit(item)


class _Filtered(QSortFilterProxyModel):
    """Tensors in whose name, type or group every word of the query stands; a number is a layer."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._words: list[str] = []
        self.setRecursiveFilteringEnabled(True)

    def look_for(self, text: str) -> None:
        self.beginFilterChange()
        self._words = text.lower().split()
        self.endFilterChange()

    def filterAcceptsRow(  # noqa: N802
        self, row: int, parent: QModelIndex | QPersistentModelIndex
    ) -> bool:
        index = self.sourceModel().index(row, 0, parent)
        item = index.data(_ITEM)
        if not isinstance(item, TensorItem):
            return False
        text = f"{index.parent().data()} {item.name} {item.type}".lower()
        layer = str(item.layer)
        return all(word == layer if word.isdigit() else word in text for word in self._words)


def short_name(item: TensorItem, group: TensorGroup) -> str:
    """Without what all names of the group begin with, and without ".weight"."""
    begin = commonprefix([other.name for other in group.items]).rpartition(".")[0]
    name = item.name.removeprefix(f"{begin}.") if begin and len(group.items) > 1 else item.name
    return name.removesuffix(".weight") or item.name


@dataclass
class _Seen:
    """The losses that rows show; None while they show types."""

    shade: Shade | None = None


class _Row(QStandardItem):
    """The name of a group or of a tensor, in the fonts of the moment."""

    def __init__(
        self, text: str, seen: _Seen, names: Sequence[str], item: TensorItem | None = None
    ) -> None:
        super().__init__(text)
        self._seen, self._names, self._item = seen, names, item

    def data(self, role: int = Qt.ItemDataRole.UserRole) -> Any:
        if role == _ITEM:
            return self._item
        if role == Qt.ItemDataRole.FontRole and self._item is not None:
            return fonts.mono()
        if role == Qt.ItemDataRole.ToolTipRole and self._item is not None:
            lines = f"{self._item.name}: {shape_text(self._item.dims)}", self._loss
            return plain_tip(", ".join(one for one in lines if one))
        if role == Qt.ItemDataRole.AccessibleTextRole and self._loss:
            return f"{self.text()}, {self._loss}"
        return super().data(role)

    @property
    def _loss(self) -> str:
        """The loss in words; "" where it is not shown."""
        shade = self._seen.shade
        return shade.words(self._names) if shade is not None else ""


class _Value(QStandardItem):
    """The type of a tensor or the count of a group; or its loss, that of a group being the largest,
    in the colours of the moment.
    """

    def __init__(self, text: str, seen: _Seen, names: Sequence[str]) -> None:
        super().__init__(text)
        self._seen, self._names = seen, names

    def data(self, role: int = Qt.ItemDataRole.UserRole) -> Any:
        shade = self._seen.shade
        value = shade.of(self._names) if shade is not None else None
        if shade is not None and role == Qt.ItemDataRole.DisplayRole:
            return shade.text(value)
        if role == Qt.ItemDataRole.ForegroundRole:
            return QColor(tokens().quiet if value is None else readable(self._colour(value)))
        if value is not None and role == Qt.ItemDataRole.BackgroundRole:
            return QColor(self._colour(value))
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        return super().data(role)

    def _colour(self, value: float) -> str:
        shade = self._seen.shade
        return shade_of(shade.share(value), shade.is_diverging) if shade is not None else ""
