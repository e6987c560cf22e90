"""Parts of the forms of runs: fields of paths, and rows with names."""

from typing import Literal

from PySide6.QtCore import Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDoubleSpinBox,
    QFormLayout,
    QLineEdit,
    QSpinBox,
    QWidget,
)

from app.language import tr
from app.state.workbench import Workbench
from app.theme import fonts
from app.widgets.basics import Button, label
from app.widgets.file_dialogs import choose_folder, open_file, open_files
from app.widgets.layouts import hbox
from app.widgets.numbers import UNKNOWN, whole_duration

BETWEEN = "; "
"""Between paths of a field."""
NUMBER = 120  # pixels of a number
NARROW = QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon


class PathField(QWidget):
    """A path, or several with semicolons between them, typed or chosen in a dialog."""

    changed = Signal()

    def __init__(
        self, name: str, kind: Literal["file", "files", "folder"], filters: str = ""
    ) -> None:
        super().__init__()
        self._name, self._kind, self._filters = name, kind, filters
        self.field = QLineEdit()
        self.field.setAccessibleName(name)
        self.field.textChanged.connect(self.changed)
        self.button = Button(tr("Choose…"), self._choose, name=tr("Choose: {name}", name=name))
        self.setFocusProxy(self.field)
        hbox((self.field, 1), self.button, on=self)

    @property
    def text(self) -> str:
        """The first path."""
        return next(iter(self.paths), "")

    @property
    def paths(self) -> list[str]:
        """All of them."""
        parts = self.field.text().split(BETWEEN.strip()) if self._kind == "files" else []
        whole = parts or [self.field.text()]
        return [one.strip() for one in whole if one.strip()]

    def set_text(self, text: str) -> None:
        """Replace what is there."""
        self.field.setText(text)

    def _choose(self) -> None:
        if self._kind == "folder":
            found = [choose_folder(self, self._name, self.text)]
        elif self._kind == "files":
            found = open_files(self, self._name, self._filters, self.text)
        else:
            found = [open_file(self, self._name, self._filters, self.text)]
        if any(found):
            self.set_text(BETWEEN.join(found))


def form_of(*rows: tuple[str, QWidget]) -> QFormLayout:
    """Widgets with their names, which become their accessible ones."""
    form = QFormLayout()
    wrap = QFormLayout.RowWrapPolicy
    has_texts = any(isinstance(widget, PathField | QLineEdit) for _, widget in rows)
    form.setRowWrapPolicy(wrap.WrapAllRows if has_texts else wrap.WrapLongRows)
    form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
    for name, widget in rows:
        if not isinstance(widget, PathField):
            widget.setAccessibleName(name)
        if isinstance(widget, QSpinBox | QDoubleSpinBox):
            widget.setMaximumWidth(fonts.px(NUMBER))
        if isinstance(widget, QComboBox):
            widget.setSizeAdjustPolicy(NARROW)
            widget.setMinimumContentsLength(12)
        named = label(name, "quiet")
        named.setBuddy(widget)
        form.addRow(named, widget)
    return form


def check_box(title: str) -> QCheckBox:
    """A check box as high as the other fields, with its title as its accessible name."""
    box = QCheckBox(title)
    box.setAccessibleName(title)
    box.setProperty("row", True)
    return box


def time_of(bench: Workbench, tokens: float) -> str:
    """How long so many tokens take, read as fast as the last prompt was."""
    latest = bench.chat.latest
    rate = latest.stats.prefill_rate if latest is not None and latest.stats is not None else 0
    return whole_duration(tokens / rate) if rate else UNKNOWN
