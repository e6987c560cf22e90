"""Chooses which dimensions of a tensor are rows and columns, and where the others are."""

from functools import partial

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QComboBox, QGridLayout, QSlider, QSpinBox, QWidget

from app.language import tr
from app.state.tensors.numbers import ShownAxes, usual_axes
from app.theme.tokens import GRID
from app.widgets.basics import label

LEAST_DIMS = 3  # below there is nothing to choose
MOST_DIMS = 4  # of a tensor


class _Place(QWidget):
    """A slider and a field for the same place in a dimension."""

    changed = Signal(int)

    def __init__(self, grid: QGridLayout, row: int) -> None:
        super().__init__()
        self.name = label(tone="quiet")
        self.slider, self.field = QSlider(Qt.Orientation.Horizontal), QSpinBox()
        self.field.valueChanged.connect(self.slider.setValue)
        self.slider.valueChanged.connect(self.field.setValue)
        self.field.valueChanged.connect(self.changed)
        grid.addWidget(self.name, row, 0)
        grid.addWidget(self.slider, row, 1)
        grid.addWidget(self.field, row, 2)
        self.parts = (self.name, self.slider, self.field)

    def show_dim(self, dim: int, size: int, place: int) -> None:
        """A place in a dimension, without a signal."""
        name = tr("Index in dimension {dim}", dim=dim)
        self.name.setText(tr("dim {dim} at", dim=dim))
        for part in (self.slider, self.field):
            part.setAccessibleName(tr("{name}, slider", name=name) if part is self.slider else name)
            part.blockSignals(True)
            part.setRange(0, size - 1)
            part.setValue(place)
            part.blockSignals(False)


class AxesBar(QWidget):
    """Emits what a person chooses; hidden where a tensor has no more than rows and columns."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.axes = ShownAxes()
        self._dims: tuple[int, ...] = ()
        self.rows, self.columns = QComboBox(), QComboBox()
        self.rows.setAccessibleName(tr("Dimension shown as rows"))
        self.columns.setAccessibleName(tr("Dimension shown as columns"))
        self.rows.activated.connect(lambda dim: self._take(self.axes.with_rows(dim)))
        self.columns.activated.connect(lambda dim: self._take(self.axes.with_columns(dim)))
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setHorizontalSpacing(GRID)
        grid.setVerticalSpacing(GRID // 2)
        for row, (name, box) in enumerate(((tr("rows"), self.rows), (tr("columns"), self.columns))):
            grid.addWidget(label(name, tone="quiet"), row, 0)
            grid.addWidget(box, row, 1, 1, 2)
        grid.setColumnStretch(1, 1)
        self.places = [_Place(grid, 2 + n) for n in range(MOST_DIMS - 2)]
        for n, place in enumerate(self.places):
            place.changed.connect(partial(self._moved, n))
        self.hide()

    def show_dims(self, dims: tuple[int, ...], row: int = 0) -> None:
        """A tensor's dimensions, the fastest first, as usual; where that row of all planes is."""
        self._dims, self.axes = dims, usual_axes(dims, row)
        titles = [tr("dim {dim} ({size})", dim=dim, size=size) for dim, size in enumerate(dims)]
        for box in (self.rows, self.columns):
            box.clear()
            box.addItems(titles)
        self.setVisible(len(dims) >= LEAST_DIMS)
        self._show()

    def _take(self, axes: ShownAxes) -> None:
        if axes != self.axes:
            self.axes = axes
            self._show()
            self.changed.emit()

    def _moved(self, number: int, place: int) -> None:
        dim = self.axes.others(len(self._dims))[number]
        self._take(self.axes.with_place(dim, place))

    def _show(self) -> None:
        self.rows.setCurrentIndex(self.axes.rows)
        self.columns.setCurrentIndex(self.axes.columns)
        others = self.axes.others(len(self._dims))
        for n, place in enumerate(self.places):
            for part in place.parts:
                part.setVisible(n < len(others))
            if n < len(others):
                dim = others[n]
                place.show_dim(dim, self._dims[dim], self.axes.at[dim])
