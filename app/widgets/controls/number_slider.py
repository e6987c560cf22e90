"""A number by slider and by field, side by side; below, the place that its default comes from."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QDoubleSpinBox, QGridLayout, QLabel, QSlider, QWidget

from app.language import tr
from app.theme import fonts
from app.theme.tokens import GRID
from app.widgets.basics import IconButton, label
from app.widgets.tips import set_tip

STEPS = 1000
NAME = 128  # pixels for what it is called


class NumberSlider(QWidget):
    """`changed` only for what a person does. The field takes more than the slider shows:
    numbers up to `most`. One that `resets` has room for the button that emits `reset`, which
    `set_origin` shows.
    """

    changed = Signal(float)
    reset = Signal()

    def __init__(
        self,
        name: str,
        help: str,
        low: float,
        high: float,
        most: float,
        decimals: int = 2,
        off: str = "",
        resets: bool = False,
    ) -> None:
        super().__init__()
        self._low, self._high = low, high
        self._setting = False
        self.name: QLabel = label(name)
        set_tip(self.name, help)
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self.slider.setRange(0, STEPS)
        self.slider.setAccessibleName(tr("{name}, slider", name=name))
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
        self._help = help
        self.origin = label("", "quiet", "small")
        self.origin.hide()
        self.back = IconButton("undo", tr("Reset {name}", name=name), self.reset.emit, size=14)
        kept = self.back.sizePolicy()
        kept.setRetainSizeWhenHidden(resets)  # all fields of a form end at one line
        self.back.setSizePolicy(kept)
        self.back.hide()
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setHorizontalSpacing(GRID)
        grid.setVerticalSpacing(0)
        grid.setColumnStretch(1, 1)
        grid.addWidget(self.name, 0, 0)
        grid.addWidget(self.slider, 0, 1)
        grid.addWidget(self.field, 0, 2)
        grid.addWidget(self.origin, 1, 1, 1, 2)
        if resets:
            grid.addWidget(self.back, 0, 3)
        else:
            self.back.setParent(self)
        self.slider.valueChanged.connect(self._slid)
        self.field.valueChanged.connect(self._entered)

    @property
    def value(self) -> float:
        return self.field.value()

    def set_value(self, value: float) -> None:
        """Show a number without a signal."""
        self._setting = True
        self.field.setValue(value)
        self.slider.setValue(self._step(value))
        self._setting = False

    def set_origin(self, shown: str, spoken: str, default: float | None) -> None:
        """Show a line of where the default comes from, if any, and the way back to a default that
        the number differs from. `spoken` is the origin of the number, for screen readers.
        """
        self.origin.setText(shown)
        self.origin.setVisible(bool(shown))
        differs = default is not None and self.text_of(default) != self.field.text()
        if default is not None:
            name = tr("Reset to default ({value})", value=self.text_of(default))
            set_tip(self.back, name)
            self.back.setAccessibleName(f"{self.name.text()}: {name}")
        self.back.setVisible(differs)
        self.field.setAccessibleDescription(tr("{help}. Now {text}", help=self._help, text=spoken))

    def text_of(self, value: float) -> str:
        """A number as the field writes it."""
        off = self.field.specialValueText()
        return off if off and value <= self.field.minimum() else self.field.textFromValue(value)

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
