"""What a person can choose about the window."""

from typing import Any

from PySide6.QtCore import Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QCheckBox, QComboBox, QFormLayout, QHBoxLayout, QVBoxLayout, QWidget

from app.state.preferences import PreferencesState
from app.theme.tokens import GRID, PADDING
from app.widgets.basics import Button, IconButton, divider, label
from app.widgets.elided import ElidedLabel
from engine.settings import model_folders

THEMES = {"As the system": "system", "Light": "light", "Dark": "dark", "High contrast": "contrast"}
SEND_KEYS = {"Enter": "enter", "Ctrl+Enter": "ctrl+enter"}
SIZES = {"Small": 0.9, "Normal": 1.0, "Large": 1.15, "Larger": 1.3, "Largest": 1.6}


class PreferencesView(QWidget):
    """Every choice takes effect at once."""

    done = Signal()

    def __init__(self, preferences: PreferencesState) -> None:
        super().__init__()
        self.setAccessibleName("Preferences")
        self._preferences = preferences
        title = label("Preferences", size="strong")
        head = QHBoxLayout()
        head.addWidget(title, 1)
        head.addWidget(IconButton("close", "Close preferences", self.done.emit, 16))
        self.theme = self._choice("Theme", THEMES, "theme")
        self.send_key = self._choice("Key that sends", SEND_KEYS, "send_key")
        self.text_size = self._choice("Text size", SIZES, "font_scale")
        self.motion = self._switch("Less motion", "reduced_motion")
        self.open_last = self._switch("Open the last model at the start", "open_last_model")
        form = QFormLayout()
        form.setHorizontalSpacing(3 * GRID)
        form.setVerticalSpacing(GRID + 4)
        form.setLabelAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        form.addRow(label("Theme", "quiet"), self.theme)
        form.addRow(label("Text size", "quiet"), self.text_size)
        form.addRow(label("Send with", "quiet"), self.send_key)
        form.addRow(label("Motion", "quiet"), self.motion)
        form.addRow(label("Models", "quiet"), self.open_last)
        form.addRow(label("", "quiet"), self._folder())
        column = QVBoxLayout(self)
        column.setContentsMargins(PADDING, PADDING, PADDING, PADDING)
        column.setSpacing(12)
        column.addLayout(head)
        column.addWidget(divider())
        column.addLayout(form)
        self.setFocusProxy(self.theme)
        preferences.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        value = self._preferences.value
        for box, now in (
            (self.theme, value.theme),
            (self.send_key, value.send_key),
            (self.text_size, value.font_scale),
        ):
            nearest = box.findData(now)
            box.setCurrentIndex(nearest)
        self.motion.setChecked(value.reduced_motion)
        self.open_last.setChecked(value.open_last_model)

    def _choice(self, name: str, choices: dict[str, Any], field: str) -> QComboBox:
        box = QComboBox()
        box.setAccessibleName(name)
        for text, value in choices.items():
            box.addItem(text, value)
        box.activated.connect(lambda at: self._preferences.update(**{field: box.itemData(at)}))
        return box

    def _switch(self, text: str, field: str) -> QCheckBox:
        box = QCheckBox(text)
        box.setAccessibleName(text)
        box.clicked.connect(lambda on: self._preferences.update(**{field: on}))
        return box

    def _folder(self) -> QWidget:
        folder = model_folders()[0]
        line = QWidget()
        row = QHBoxLayout(line)
        row.setContentsMargins(0, 0, 0, 0)
        shown = ElidedLabel(str(folder), Qt.TextElideMode.ElideMiddle)
        shown.setAccessibleName(f"Models are kept in {folder}")
        url = QUrl.fromLocalFile(str(folder))
        row.addWidget(shown, 1)
        row.addWidget(
            Button("Show", lambda: QDesktopServices.openUrl(url), name="Show the models' folder")
        )
        return line
