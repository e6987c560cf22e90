"""Where the model is: its devices, each to be selected, and the way to others."""

from functools import partial

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.language import tr
from app.state.workbench import Workbench
from app.theme import fonts
from app.theme.devices import device_look
from app.widgets.basics import Button, IconButton
from app.widgets.commands import Actions
from app.widgets.layouts import hbox
from app.widgets.tips import set_tip

WIDEST = 208  # pixels at normal text, of all devices together


class DeviceLine(QWidget):
    """A button per device that holds weights or cache; one that is selected is marked."""

    def __init__(self, bench: Workbench, commands: Actions[object]) -> None:
        super().__init__()
        self._bench = bench
        self.buttons: dict[str, DeviceButton] = {}
        self._choose = IconButton(
            "chevron-down", tr("Choose another device"), lambda: commands.run("model.open"), 16
        )
        self._row = hbox(self._choose, on=self, spacing=2)
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        for signal in (bench.session.changed, bench.memory.changed):
            signal.connect(self.refresh)
        bench.selection.changed.connect(self._mark)
        self.refresh()

    @property
    def devices(self) -> list[str]:
        """Return the devices of the open model."""
        model = self._bench.session.model
        if model is None or self._bench.session.connection is not None:
            return []
        holding = [
            cell.device
            for cell in self._bench.memory.cells
            if cell.component in ("weights", "cache", "recurrent state")
        ]
        return list(dict.fromkeys([model.device, *(d for d in holding if d != "host")]))

    def refresh(self) -> None:
        """Show the devices as they are now."""
        devices, model = self.devices, self._bench.session.model
        if devices != list(self.buttons):
            self._put_buttons(devices)
        for device, button in self.buttons.items():
            alone = len(devices) == 1 and model is not None
            name = plain_device(model.device_name or device) if alone and model else device
            button.say(name if alone else f"{device_look(device).letter} {device}", device)
            button.widest = WIDEST // len(devices)
        self._mark()

    def _put_buttons(self, devices: list[str]) -> None:
        for button in self.buttons.values():
            self._row.removeWidget(button)
            button.hide()
            button.deleteLater()
        self.buttons = {device: DeviceButton(partial(self._select, device)) for device in devices}
        for at, button in enumerate(self.buttons.values()):
            self._row.insertWidget(at, button)
            button.show()

    def _select(self, device: str) -> None:
        self._bench.selection.select_device(device)
        self._mark()  # a click has turned the button's mark, even where nothing has changed

    def _mark(self) -> None:
        selected = self._bench.selection.now.device
        for device, button in self.buttons.items():
            button.setChecked(device == selected)


class DeviceButton(Button):
    """A device's name, as wide as it needs up to `widest`."""

    def __init__(self, clicked: partial[None]) -> None:
        super().__init__("", clicked, "flat", "device")
        self.widest = WIDEST
        self.setCheckable(True)
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)

    def say(self, name: str, device: str) -> None:
        self.setText(name)
        text = (
            tr("Device: {name}", name=name)
            if name.endswith(device)
            else tr("Device: {name}, {device}", name=name, device=device)
        )
        set_tip(self, tr("{says}. Select it", says=text))
        self.setAccessibleName(tr("{says}. Select it", says=text))

    def sizeHint(self) -> QSize:  # noqa: N802
        hint = super().sizeHint()
        return QSize(min(hint.width(), fonts.px(self.widest)), hint.height())


def plain_device(name: str) -> str:
    """A processor's name without what its vendor adds for lawyers."""
    for noise in ("(R)", "(TM)", "(tm)", "(r)"):
        name = name.replace(noise, "")
    return " ".join(name.split("@")[0].replace(" CPU ", " ").split())
