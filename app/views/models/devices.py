"""Which devices a model is loaded to: automatic, one, or several with shares of its layers."""

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QCheckBox, QLineEdit, QWidget

from app.language import tr
from app.theme.tokens import GRID
from app.widgets.basics import label
from app.widgets.layouts import vbox
from app.widgets.tips import set_tip
from engine.protocol import DeviceRow


class DevicesChoice(QWidget):
    """A check box per device; none is checked where the engine is to choose. With several, `place`
    may say how the layers are shared.
    """

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Devices"))
        self._rows: Sequence[DeviceRow] = ()
        self.boxes: dict[str, QCheckBox] = {}
        self._caption = label(tr("Automatic: the fastest with enough memory"), "quiet", wrap=True)
        self.place = QLineEdit()
        self.place.setAccessibleName(tr("Split of the layers between devices"))
        self.place.setPlaceholderText(tr("As they fit, or a ratio such as 3,1"))
        self.place.editingFinished.connect(self.changed)
        self._column = vbox(self._caption, self.place, on=self, spacing=GRID // 2)
        self._show()

    @property
    def device(self) -> str | None:
        """The checked ones, with commas, as the engine's options have them; None is automatic."""
        chosen = [name for name, box in self.boxes.items() if box.isChecked()]
        return ",".join(chosen) or None

    def show_devices(self, rows: Sequence[DeviceRow]) -> None:
        """Show the available devices; what is checked stays so."""
        chosen = self.device
        self._rows = rows
        self._make_boxes([row.id for row in rows])
        self.choose(chosen, self.place.text())

    def choose(self, device: str | None, place: str) -> None:
        """Check those of an option; one that is not there is shown as well, so it is not lost."""
        wanted = device.split(",") if device else []
        self._make_boxes(list(dict.fromkeys([*(row.id for row in self._rows), *wanted])))
        for name, box in self.boxes.items():
            box.setChecked(name in wanted)
        self.place.setText(place)
        self._show()

    def _make_boxes(self, names: Sequence[str]) -> None:
        if list(self.boxes) == list(names):
            return
        for box in self.boxes.values():
            self._column.removeWidget(box)
            box.deleteLater()
        described = {row.id: row for row in self._rows}
        self.boxes = {}
        for at, name in enumerate(names):
            row = described.get(name)
            box = QCheckBox(f"{name}   {row.name}" if row is not None else name)
            box.setAccessibleName(name)
            set_tip(box, row.note if row is not None else tr("This device is not connected."))
            box.clicked.connect(self._clicked)
            self.boxes[name] = box
            self._column.insertWidget(1 + at, box)

    def _clicked(self) -> None:
        self._show()
        self.changed.emit()

    def _show(self) -> None:
        several = sum(box.isChecked() for box in self.boxes.values()) > 1
        self._caption.setVisible(self.device is None)
        self.place.setVisible(several or bool(self.place.text()))
