"""The line on top: model, device, vitals, context, settings."""

from typing import Any

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtWidgets import QHBoxLayout, QMenu, QPushButton, QSizePolicy, QToolButton, QWidget

from app.state.workbench import Workbench
from app.theme.icons import icon
from app.theme.tokens import GRID, TOP_LINE
from app.widgets.basics import IconButton, divider, surface
from app.widgets.commands import Actions
from app.window.vitals import ContextMeter, Vitals


class TopLine(QWidget):
    """What is open, where it runs, how fast, how full."""

    def __init__(self, bench: Workbench, commands: Actions[Any], menu: QMenu) -> None:
        super().__init__()
        surface(self, "panel")
        self.setFixedHeight(TOP_LINE)
        self._session, self._commands = bench.session, commands
        self.model = self._chooser_button("model")
        self.device = self._chooser_button("device")
        self.vitals = Vitals(bench)
        self.context = ContextMeter(bench)
        self.settings = IconButton(
            "settings", "Preferences", lambda: commands.run("app.preferences")
        )
        self.menu = IconButton("menu", "Menu")
        self.menu.setMenu(menu)
        self.menu.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        row = QHBoxLayout(self)
        row.setContentsMargins(GRID, 0, GRID, 0)
        row.setSpacing(GRID)
        row.addWidget(self.model)
        row.addWidget(_short_divider())
        row.addWidget(self.device)
        self._after_device = _short_divider()
        row.addWidget(self._after_device)
        row.addWidget(self.vitals, 1)
        row.addWidget(self.context)
        row.addWidget(self.settings)
        row.addWidget(self.menu)
        self._session.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        session, model = self._session, self._session.model
        if session.path is None:
            name, says = "Choose a model", "Choose a model"
        else:
            name = session.model_title
            says = f"Model: {name}. Choose another"
        if session.status == "loading":
            name = f"{name} …"
        self._label(self.model, name, says)
        device = model.device_name or model.device if model is not None else "No device"
        self._label(self.device, _plain_device(device), f"Device: {device}. Choose another")
        self.device.setVisible(model is not None)
        self._after_device.setVisible(model is not None)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self.model.setIcon(icon("model", "quiet"))
            self.device.setIcon(icon("device", "quiet"))

    def _chooser_button(self, picture: str) -> QPushButton:
        button = QPushButton()
        button.setProperty("kind", "flat")
        button.setIcon(icon(picture, "quiet"))
        button.setIconSize(QSize(18, 18))
        button.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        button.clicked.connect(lambda: self._commands.run("model.open"))
        return button

    def _label(self, button: QPushButton, text: str, says: str) -> None:
        room = 320 if button is self.model else 200
        short = button.fontMetrics().elidedText(text, Qt.TextElideMode.ElideMiddle, room)
        button.setText(f"{short}  ▾")
        button.setToolTip(says)
        button.setAccessibleName(says)


def _short_divider() -> QWidget:
    line = divider(vertical=True)
    line.setFixedHeight(20)
    return line


def _plain_device(name: str) -> str:
    """A processor's name without what its vendor adds for lawyers."""
    for noise in ("(R)", "(TM)", "(tm)", "(r)"):
        name = name.replace(noise, "")
    return " ".join(name.split("@")[0].replace(" CPU ", " ").split())
