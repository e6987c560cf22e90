"""The talk without a model: how to get one, and how far that is."""

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QHBoxLayout, QLabel, QProgressBar, QVBoxLayout, QWidget

from app.fetch import bundled
from app.fetch.known import SMOLLM2
from app.language import tr
from app.library import Stored
from app.state.models.downloads import Download
from app.state.workbench import Workbench
from app.theme import fonts
from app.theme.icons import pixmap
from app.theme.theme import tokens
from app.theme.tokens import GRID
from app.views.models.chooser_fetch import download_amount, download_title
from app.views.talk.statistics import stage_left, stage_percent, stage_title
from app.widgets.basics import LOOKS, Button, label, scrolled, surface
from app.widgets.commands import Actions
from app.widgets.controls.elided import ElidedLabel
from app.widgets.controls.offer import Offer
from app.widgets.focus import focus_first, has_focus
from app.widgets.layouts import hbox, vbox
from app.widgets.numbers import file_size, whole_duration

PICTURE, WIDTH = 64, 480
MOST = 4  # stored models offered here; the chooser has them all


class Welcome(QWidget):
    """Offers what is on the disk, a first model to fetch, and shows a fetch or a load."""

    def __init__(self, bench: Workbench, commands: Actions[Any]) -> None:
        super().__init__()
        surface(self, "canvas")
        self._bench, self._commands = bench, commands
        self._picture = QLabel()
        self._title = label(size="title", wrap=True)
        self._caption = label(tone="quiet", wrap=True)
        self.work = _Progress(self._cancel)
        self.get = Button(
            tr("Download SmolLM2, {size}", size=file_size(SMOLLM2.download_size)),
            self._runs("model.get"),
            "primary",
            "download",
        )
        self.open = Button(tr("Choose a model…"), self._runs("model.open"), picture="model")
        self.demo = Offer(
            tr("Try a vision model"), tr("nothing to download"), self._runs("model.demo")
        )
        self.demo.setAccessibleName(tr("Try a vision model, nothing to download"))
        self.guide = Offer(tr("What you will see, explained"), "F1", self._runs("app.guide"))
        self._stored = vbox(spacing=2)
        self._buttons = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._buttons.setSpacing(GRID)
        self._buttons.addWidget(self.get)
        self._buttons.addWidget(self.open)
        self._buttons.addStretch(1)
        self._block = QWidget()
        self._lay_out()
        bench.session.changed.connect(self.refresh)
        bench.session.stage_changed.connect(self._show_work)
        bench.downloads.changed.connect(self.refresh)
        bench.library.changed.connect(self._show_stored)
        self._tint()
        self._show_stored()
        self.refresh()

    def _lay_out(self) -> None:
        """Put the parts below each other, in the middle of the page."""
        vbox(
            self._picture,
            GRID // 2,
            self._title,
            self._caption,
            GRID,
            self._buttons,
            self.demo,
            self._stored,
            self.work,
            self.guide,
            on=self._block,
        )
        body = QWidget()
        across = QHBoxLayout()
        across.addStretch(1)
        across.addWidget(self._block, 1000)  # all, up to its widest
        across.addStretch(1)
        column = QVBoxLayout(body)
        column.addStretch(2)
        column.addLayout(across)
        column.addStretch(3)
        vbox(scrolled(body), on=self)

    def refresh(self) -> None:
        session = self._bench.session
        loading, download = session.status == "loading", self._download()
        if loading and session.path is not None:
            self._title.setText(tr("Opening {model_title}", model_title=session.model_title))
            self._caption.setText(
                tr("You can type now; the message is sent when the model is ready.")
            )
        elif download is not None:
            self._title.setText(tr("Downloading a model"))
            self._caption.setText(tr("It opens after the download. It runs on this machine."))
        elif self._bench.library.models:
            self._title.setText(tr("Open a model"))
            self._caption.setText(
                tr("Drop a .gguf file anywhere in this window, or choose one of these.")
            )
        else:
            self._title.setText(tr("No model yet"))
            self._caption.setText(
                tr(
                    "SmolLM2 is a small model that runs on any processor: {size}, licence"
                    " {licence}. It runs on this machine; nothing you write leaves it. Or drop a"
                    " .gguf file here.",
                    size=file_size(SMOLLM2.download_size).replace(" ", "\xa0"),
                    licence=SMOLLM2.licence,
                )
            )
        busy, had = loading or download is not None, has_focus(self)
        self.get.setVisible(not busy and not self._bench.library.models)
        self.open.setVisible(not busy)
        self.demo.setVisible(not busy and bundled.is_there())
        self.guide.setVisible(not busy and not self._bench.library.models)
        self._set_stored_visible(not busy)
        self.work.setVisible(busy)
        self._show_work()
        self._arrange()
        if had and not has_focus(self):  # what had the keyboard is hidden now
            focus_first(self)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in LOOKS:
            self._tint()
            self._arrange()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        """The buttons go below each other where they do not fit side by side."""
        width = min(fonts.px(WIDTH), self.width() - 4 * GRID)
        self._block.setMaximumWidth(fonts.px(WIDTH))
        beside = self.get.sizeHint().width() + self.open.sizeHint().width() + GRID <= width
        way = QBoxLayout.Direction.LeftToRight if beside else QBoxLayout.Direction.TopToBottom
        self._buttons.setDirection(way)

    def _runs(self, command: str) -> Callable[[], None]:
        return lambda: self._commands.run(command)

    def _download(self) -> Download | None:
        items = self._bench.downloads.items.values()
        return next((d for d in items if d.state in ("running", "stopping")), None)

    def _show_work(self) -> None:
        session, download = self._bench.session, self._download()
        if session.status == "loading":
            stage = session.stage
            if stage is None:
                self.work.show_part(tr("Reading the file"), 0, 0, "")
            else:
                left = stage_left(stage)
                numbers = [stage_percent(stage), tr("{left} left", left=left) if left else ""]
                text = " · ".join(filter(None, numbers))
                self.work.show_part(stage_title(stage), stage.done, stage.total, text)
        elif download is not None:
            self.work.show_download(download)

    def _cancel(self) -> None:
        download = self._download()
        if self._bench.session.status == "loading":
            self._bench.session.cancel_load()
        elif download is not None:
            self._bench.downloads.cancel(download.name)

    def _show_stored(self) -> None:
        while (item := self._stored.takeAt(0)) is not None:
            widget = item.widget()
            if widget is not None:
                widget.setParent(None)  # gone now; deleted later
                widget.deleteLater()
        usable = [m for m in self._bench.library.models if m.is_model]
        for model in usable[:MOST]:
            self._stored.addWidget(self._offer(model))
        self.refresh()

    def _offer(self, model: Stored) -> Offer:
        path = str(model.paths[0])
        kind = f"{model.quantization or ''}  {file_size(model.size)}"
        return Offer(model.name, kind, lambda: self._bench.open_model(path))

    def _set_stored_visible(self, visible: bool) -> None:
        for at in range(self._stored.count()):
            item = self._stored.itemAt(at)
            widget = item.widget() if item is not None else None
            if widget is not None:
                widget.setVisible(visible)

    def _tint(self) -> None:
        ratio = self.devicePixelRatioF()
        drawn = pixmap("model", tokens().accent, PICTURE, ratio)
        edge = round(PICTURE * ratio * 3 / 24)  # empty in the drawing; the text below is flush left
        inner = drawn.copy(edge, edge, drawn.width() - 2 * edge, drawn.height() - 2 * edge)
        inner.setDevicePixelRatio(ratio)
        self._picture.setPixmap(inner)


class _Progress(QWidget):
    """A stage's name, a bar, numbers and Cancel."""

    def __init__(self, cancel: object) -> None:
        super().__init__()
        assert callable(cancel)
        self._text = ElidedLabel()
        self.numbers = label(tone="quiet", size="small", wrap=True)
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._bar.setAccessibleName(tr("Progress"))
        self._bar.setFocusPolicy(Qt.FocusPolicy.StrongFocus)  # before Cancel, which a key presses
        row = hbox((self.numbers, 1), Button(tr("Cancel"), cancel))
        vbox(self._text, self._bar, row, on=self)

    def show_part(self, text: str, done: int, total: int, numbers: str) -> None:
        self._text.setText(text)
        self._bar.setRange(0, 1000 if total else 0)
        self._bar.setValue(round(1000 * done / total) if total else 0)
        self.numbers.setText(numbers)

    def show_download(self, download: Download) -> None:
        text = download_title(download)
        parts = [download_amount(download)]
        parts += [f"{file_size(download.rate)}/s"] if download.rate else []
        if download.left_s is not None:
            parts.append(tr("{value} left", value=whole_duration(download.left_s)))
        numbers = (
            tr("stopping …") if download.state == "stopping" else " · ".join(filter(None, parts))
        )
        self.show_part(text, download.done, download.total, numbers)
