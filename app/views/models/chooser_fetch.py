"""Downloads: the bar of one, and those under way; terms of use, to be accepted first."""

from collections.abc import Callable

from PySide6.QtCore import QEvent, Signal
from PySide6.QtWidgets import QLabel, QProgressBar, QWidget

from app.fetch.known import KnownModel, Terms
from app.language import tr
from app.state.models.downloads import Download, Downloads
from app.state.workbench import Workbench
from app.theme import fonts
from app.theme.tokens import GRID, PADDING
from app.widgets.basics import TEXT_SIZE, Button, label, set_shown, set_tone
from app.widgets.controls.elided import ElidedLabel
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.numbers import file_size, whole_duration

ENDED = ("done", "stopped")
WIDEST = 560  # pixels at normal text; beyond it a button is too far from its model


class DownloadBar(QWidget):
    """Download, progress, Pause, Resume, Cancel and Open of one model. Buttons have `of` in their
    accessible names, where a page has several bars; `beside` stands at the left of them.
    """

    opening = Signal()

    def __init__(
        self,
        bench: Workbench,
        start: Callable[[str], None],
        of: str = "",
        beside: QWidget | None = None,
    ) -> None:
        super().__init__()
        self._bench, self._start = bench, start
        self.name, self._of, self._supported = of, f" {of}".rstrip(), bool(of)
        self.progress = QProgressBar()
        self.progress.setTextVisible(False)
        self.progress.setAccessibleName(tr("Progress of {of}", of=of or tr("the download")))
        self.text = wrapped()
        downloads = bench.downloads
        kind = "" if of else "primary"
        self.get = Button(tr("Download"), self.take, kind, "download")
        self.pause = Button(
            tr("Pause"), lambda: downloads.pause(self.name), name=tr("Pause{of}", of=self._of)
        )
        self.cancel = Button(
            tr("Cancel"), lambda: downloads.cancel(self.name), name=tr("Cancel{of}", of=self._of)
        )
        buttons = hbox(spacing=GRID)
        if beside is not None:
            buttons.addWidget(beside, 1)
        for button in (self.get, self.pause, self.cancel):
            buttons.addWidget(button)
        buttons.addStretch(0 if beside is not None else 1)
        vbox(buttons, self.progress, self.text, on=self)
        downloads.changed.connect(self._on_changed)
        self.refresh()

    def show_model(self, name: str, supported: bool) -> None:
        """The download of `org/repo:quant`."""
        self.name, self._supported = name, supported
        self.refresh()

    def take(self) -> None:
        """The next step: download, continue, or open."""
        item = self._item
        if item is not None and item.state == "done" and item.path is not None:
            self._bench.open_model(str(item.path))
            self.opening.emit()
        elif item is not None and item.state in ("paused", "failed"):
            self._bench.downloads.resume(self.name)
        elif self._supported and (item is None or item.state == "stopped"):
            self._start(self.name)

    def refresh(self) -> None:
        """Show how far it is."""
        item = self._item
        state = item.state if item is not None else ""
        busy = state in ("running", "stopping")
        words = {"done": tr("Open"), "paused": tr("Resume"), "failed": tr("Try again")}
        self.get.set_text(words.get(state, tr("Download")))
        self.get.setAccessibleName(self.get.text() + self._of)
        self.get.setEnabled(self._supported)
        self.get.setVisible(not busy)
        self.pause.setVisible(state == "running")
        self.cancel.setVisible(busy or state in ("paused", "failed"))
        self.progress.setVisible(busy)
        text = _progress(item) if item is not None and state not in ("", "done") else ""
        self.text.setText(text)
        self.text.setVisible(bool(text))
        set_tone(self.text, "bad" if state == "failed" else "quiet")
        if item is not None:
            self.progress.setRange(0, 1000 if item.total else 0)
            self.progress.setValue(round(1000 * item.done / max(item.total, 1)))

    @property
    def _item(self) -> Download | None:
        return self._bench.downloads.items.get(self.name)

    def _on_changed(self, name: str) -> None:
        if name == self.name:
            self.refresh()


class FetchView(QWidget):
    """A line for each download that has not ended."""

    opening = Signal()

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._bench = bench
        self.lines: dict[str, DownloadBar] = {}
        self.setMaximumWidth(fonts.px(WIDEST))
        self._column = vbox(label(tr("Downloads"), size="strong"), on=self, margins=(0, GRID, 0, 0))
        bench.downloads.changed.connect(lambda name: self.refresh())
        self.refresh()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in TEXT_SIZE:
            self.setMaximumWidth(fonts.px(WIDEST))

    def refresh(self) -> None:
        """Add and remove lines; a line follows its own download."""
        downloads = self._bench.downloads.items
        names = [name for name, item in downloads.items() if item.state not in ENDED]
        for name in set(self.lines) - set(names):
            self.lines.pop(name).deleteLater()
        for name in names:
            if name not in self.lines:
                self.lines[name] = self._line(name)
                self._column.addWidget(self.lines[name])
        set_shown(self, bool(names))

    def _line(self, name: str) -> DownloadBar:
        line = DownloadBar(self._bench, self._bench.downloads.start, name, ElidedLabel(name))
        line.opening.connect(self.opening)
        return line


def download_title(item: Download) -> str:
    """The stage and the model in one line."""
    if item.stage == "checking":
        return tr("Checking {name}", name=item.name)
    if item.stage == "unpack":
        return tr("Unpacking {name}", name=item.name)
    return tr("Downloading {name}", name=item.name)


def download_amount(item: Download) -> str:
    """How far a stage is: bytes of a download, whose size is the one that was offered; a share of
    what follows, which counts other bytes. Empty while nothing is known.
    """
    if not item.total:
        return ""
    if item.stage == "download":
        return tr("{done} of {total}", done=file_size(item.done), total=file_size(item.total))
    return f"{100 * item.done // item.total} %"


def _progress(item: Download) -> str:
    """How far a download is, or why it failed."""
    if item.state == "failed":
        return item.problem
    if item.state == "stopping":
        return tr("Stopping …")
    done = download_amount(item)
    if item.state == "paused":
        return tr("Paused · {done}", done=done) if done else tr("Paused")
    if item.state == "stopped":
        return tr("Cancelled; what had come is deleted.")
    if item.stage == "waiting":
        return tr("Waiting for other downloads …")
    stage = {"checking": tr("Checking …"), "unpack": tr("Unpacking …")}.get(item.stage, "")
    seconds = item.left_s
    left = tr("{left_s} left", left_s=whole_duration(seconds)) if seconds is not None else ""
    return " · ".join(part for part in (stage, done, left) if part) or tr("Starting …")


def wrapped() -> QLabel:
    """A quiet text of several lines that never widens the page."""
    text = label(tone="quiet", wrap=True)
    text.setMinimumWidth(1)
    return text


class TermsView(QWidget):
    """Asks once for one model."""

    done = Signal()

    def __init__(self, downloads: Downloads) -> None:
        super().__init__()
        self.setAccessibleName(tr("Terms of use"))
        self._downloads, self.name = downloads, ""
        self._title = label(size="strong", wrap=True)
        self._caption = label(tone="quiet", wrap=True)
        self._link = QLabel()
        self._link.setOpenExternalLinks(True)
        self._link.setAccessibleName(tr("Web address of the terms"))
        self.accept = Button(tr("Accept and download"), self._accept, "primary")
        self.setFocusProxy(self.accept)
        row = hbox(STRETCH, Button(tr("Cancel"), self.done.emit), self.accept, spacing=GRID)
        vbox(self._title, self._caption, self._link, GRID, row, on=self, margins=PADDING)

    def show_terms(self, name: str, model: KnownModel | None, terms: Terms) -> None:
        """Show the terms of a model."""
        self.name = name
        self._title.setText(
            tr("{name} is licensed under the {title}", name=name, title=terms.title)
        )
        size = tr("{size} to download. ", size=file_size(model.download_size)) if model else ""
        self._caption.setText(tr("{size}By downloading you accept the terms.", size=size))
        self._link.setText(f'<a href="{terms.url}">{terms.url}</a>')

    def _accept(self) -> None:
        self._downloads.start(self.name, accept_terms=True)
        self.done.emit()
