"""The line on top: model, device, vitals, context, settings."""

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QMenu, QSizePolicy, QToolButton, QWidget

from app.language import tr
from app.state.workbench import Workbench
from app.theme import fonts
from app.theme.tokens import GRID, TOP_LINE
from app.widgets.basics import LOOKS, Button, IconButton, divider, surface
from app.widgets.commands import Actions
from app.widgets.layouts import STRETCH, hbox
from app.widgets.tips import set_tip
from app.window.panes.device_line import DeviceLine
from app.window.panes.vitals import ContextMeter, Vitals

DEVICE_FROM, VITALS_FROM = 720, 720  # widths of the line, at normal text, that have room for them
VITALS_SHARE = 1000  # of what is left; the rest keeps the others apart where there are none


class TopLine(QWidget):
    """The top line: model, device, speed, context."""

    def __init__(self, bench: Workbench, commands: Actions[Any], menu: QMenu) -> None:
        super().__init__()
        surface(self, "panel")
        self._session = bench.session
        self.model = ChooserButton("model", 360, lambda: commands.run("model.open"))
        self.about = IconButton(
            "info",
            tr("About the model: metadata, tensors, tokenizer (Ctrl+I)"),
            lambda: commands.run("model.file"),
            16,
        )
        self.device = DeviceLine(bench, commands)
        self.vitals = Vitals(bench)
        self.context = ContextMeter(bench)
        self.inside = IconButton(
            "panel-right", tr("Open or close the inspector (Ctrl+J)"),
            lambda: commands.run("view.inside"),
        )  # fmt: skip
        self.settings = IconButton(
            "settings", tr("Preferences"), lambda: commands.run("app.preferences")
        )
        self.menu = IconButton("menu", tr("Menu"))
        self.menu.setMenu(menu)
        self.menu.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self._after_model = _short_divider()
        self._after_device = _short_divider()
        hbox(
            self.model,
            self.about,
            self._after_model,
            self.device,
            self._after_device,
            (self.vitals, VITALS_SHARE),
            STRETCH,
            self.context,
            self.inside,
            self.settings,
            self.menu,
            on=self,
            margins=(GRID, 0, GRID, 0),
        )
        self._session.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        session = self._session
        if session.path is None:
            name, text = tr("Choose a model"), tr("Choose a model")
        else:
            name = session.model_title
            if session.adapters_title:
                name = tr("{name} + {adapters}", name=name, adapters=session.adapters_title)
            at, owner = session.connection, session.client.abilities.owner
            where = tr(", on the server {host}", host=at.host) if at is not None else ""
            if owner:
                name = tr("{name} in {partition}", name=name, partition=owner.partition(" (")[0])
                where = tr(", in the engine of {owner}", owner=owner)
            text = tr("Model: {name}{where}. Choose another", name=name, where=where)
        if session.status == "loading":
            name = f"{name} …"
        self.model.say(name, text)
        self.about.setVisible(session.path is not None)
        self._after_model.setVisible(session.path is not None)
        self._arrange()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        """Show the parts that fit: the model's name and the context come first."""
        self.setFixedHeight(fonts.px(TOP_LINE))
        here = self._session.model is not None and self._session.connection is None
        shown = here and self.width() >= fonts.px(DEVICE_FROM)
        self.device.setVisible(shown)
        self._after_device.setVisible(shown)
        self.vitals.setVisible(self.width() >= fonts.px(VITALS_FROM))

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in LOOKS:
            self._arrange()


class ChooserButton(Button):
    """A name with an arrow: it opens the chooser."""

    shortened = Qt.TextElideMode.ElideMiddle

    def __init__(self, picture: str, widest: int, clicked: Callable[[], object]) -> None:
        super().__init__("", clicked, "flat", picture)
        self._widest = widest
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)

    def say(self, name: str, text: str) -> None:
        """`text` is for the tool tip and for screen readers."""
        self.setText(f"{name}  ▾")
        set_tip(self, text)
        self.setAccessibleName(text)

    def sizeHint(self) -> QSize:  # noqa: N802
        hint = super().sizeHint()
        return QSize(min(hint.width(), fonts.px(self._widest)), hint.height())


def _short_divider() -> QWidget:
    line = divider(vertical=True)
    line.setFixedHeight(20)
    return line
