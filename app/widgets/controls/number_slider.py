"""A number by slider and by field, side by side under one name."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QDoubleSpinBox, QHBoxLayout, QLabel, QSlider, QWidget

from app.theme import fonts
from app.theme.tokens import GRID
from app.widgets.basics import label
from app.widgets.tips import set_tip

STEPS = 1000
NAME = 128  # pixels for what it is called


class NumberSlider(QWidget):
    """`changed` only for what a person does. The field takes more than the slider shows:
    numbers up to `most`.
    """

    changed = Signal(float)

    def __init__(
        self,
        name: str,
        help: str,
        low: float,
        high: float,
        most: float,
        decimals: int = 2,
        off: str = "",
    ) -> None:
        super().__init__()
        self._low, self._high = low, high
        self._setting = False
        self.name: QLabel = label(name)
        set_tip(self.name, help)
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self.slider.setRange(0, STEPS)
        self.slider.setAccessibleName(f"{name}, slider")
        self.slider.setAccessibleDescription(help)
        self.slider.setSingleStep(max(1, round(STEPS / max(1, (high - low) * 10**decimals))))
        self.field = QDoubleSpinBox()
        self.field.setDecimals(decimals)
        self.field.setRange(low, most)
        self.field.setSingleStep(10**-decimals * (5 if decimals else 1))
        self.field.setAccessibleName(name)
        self.field.setAccessibleDescription(help)
        self.field.setKeyboardTracking(False)
        self.field.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.field.setFixedWidth(fonts.px(84))
        if off:
            self.field.setSpecialValueText(off)
        self.name.setBuddy(self.field)
        self.name.setFixedWidth(fonts.px(NAME))
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(GRID)
        row.addWidget(self.name)
        row.addWidget(self.slider, 1)
        row.addWidget(self.field)
        self.slider.valueChanged.connect(self._slid)
        self.field.valueChanged.connect(self._entered)

    @property
    def value(self) -> float:
        return self.field.value()

    def set_value(self, value: float) -> None:
        """Show a number without telling of it."""
        self._setting = True
        self.field.setValue(value)
        self.slider.setValue(self._step(value))
        self._setting = False

    def _step(self, value: float) -> int:
        share = (value - self._low) / (self._high - self._low)
        return round(min(max(share, 0.0), 1.0) * STEPS)

    def _slid(self, step: int) -> None:
        if not self._setting:
            self._setting = True
            self.field.setValue(self._low + (self._high - self._low) * step / STEPS)
            self._setting = False
            self.changed.emit(self.field.value())

    def _entered(self, value: float) -> None:
        if not self._setting:
            self._setting = True
            self.slider.setValue(self._step(value))
            self._setting = False
            self.changed.emit(value)
