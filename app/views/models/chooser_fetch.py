"""Models that can be downloaded, and downloads under way."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QProgressBar, QVBoxLayout, QWidget

from app.fetch.known import KnownModel
from app.state.models.downloads import Download
from app.state.workbench import Workbench
from app.theme.tokens import GRID
from app.widgets.basics import Button
from app.widgets.controls.elided import ElidedLabel
from app.widgets.numbers import duration, mib


class FetchView(QWidget):
    """A line per model: what it is, Download, or how far it is."""

    wanted = Signal(str)  # name, or org/repo[:quant]

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._bench = bench
        self._lines: dict[str, _Line] = {}
        self._column = QVBoxLayout()
        self._column.setSpacing(0)
        self.address = QLineEdit()
        self.address.setPlaceholderText("Hugging Face: org/repo or org/repo:Q4_K_M")
        self.address.setAccessibleName("Hugging Face repository to download")
        self.address.returnPressed.connect(self._fetch_address)
        row = QHBoxLayout()
        row.setSpacing(GRID)
        row.addWidget(self.address, 1)
        row.addWidget(Button("Download", self._fetch_address, name="Download the repository"))
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(GRID)
        column.addLayout(self._column)
        column.addLayout(row)
        bench.library.changed.connect(self.refresh)
        bench.downloads.changed.connect(self._download_changed)
        self.refresh()

    def refresh(self) -> None:
        """The known models that are not on the disk, and every download that has not ended."""
        offered = {model.name: model for model in self._bench.library.fetchable}
        downloads = self._bench.downloads.items
        names = [*offered, *(n for n, d in downloads.items() if d.state != "done")]
        for name in set(self._lines) - set(names):
            self._lines.pop(name).deleteLater()
        for name in dict.fromkeys(names):
            if name not in self._lines:
                self._lines[name] = _Line(name, offered.get(name), self._bench, self.wanted.emit)
                self._column.addWidget(self._lines[name])
            self._lines[name].show_download(downloads.get(name))

    def _download_changed(self, name: str) -> None:
        if name in self._lines and self._bench.downloads.items[name].state != "done":
            self._lines[name].show_download(self._bench.downloads.items[name])
        else:
            self.refresh()

    def _fetch_address(self) -> None:
        if self.address.text().strip():
            self.wanted.emit(self.address.text().strip())
            self.address.clear()


class _Line(QWidget):
    def __init__(
        self, name: str, model: KnownModel | None, bench: Workbench, wanted: object
    ) -> None:
        super().__init__()
        assert callable(wanted)
        self._about = ""
        if model is not None:
            about = "" if model.parts else "reads pictures · "
            self._about = f"{about}{model.download_size / 1e6:.0f} MB · {model.licence}"
        self._says = ElidedLabel(self._about)
        self._says.setProperty("tone", "quiet")
        self._says.setProperty("letters", "small")
        self._get = Button(
            "Download", lambda: wanted(name), picture="download", name=f"Download {name}"
        )
        self._stop = Button(
            "Cancel", lambda: bench.downloads.cancel(name), name=f"Cancel downloading {name}"
        )
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._bar.setAccessibleName(f"Progress of {name}")
        words = QVBoxLayout()
        words.setSpacing(2)
        words.addWidget(ElidedLabel(name))
        words.addWidget(self._says)
        words.addWidget(self._bar)
        row = QHBoxLayout(self)
        row.setContentsMargins(GRID, 6, 0, 6)
        row.addLayout(words, 1)
        row.addWidget(self._get)
        row.addWidget(self._stop)
        self.show_download(None)

    def show_download(self, download: Download | None) -> None:
        busy = download is not None and download.state in ("running", "stopping")
        self._bar.setVisible(busy)
        self._stop.setVisible(busy)
        self._get.setVisible(not busy)
        self._says.setText(self._about)
        if download is None:
            return
        stopped = download.state in ("stopped", "failed")
        self._get.setText("Continue" if stopped else "Download")
        self._says.setText(_words(download) or self._about)
        self._bar.setRange(0, 1000 if download.total else 0)
        self._bar.setValue(round(1000 * download.done / max(download.total, 1)))


def _words(download: Download) -> str:
    if download.state == "failed":
        return download.problem
    if download.state == "stopping":
        return "stopping …"
    parts = [f"{mib(download.done)} of {mib(download.total)} MiB"] if download.total else []
    if download.state == "stopped":
        return " · ".join(["stopped", *parts])
    parts += [f"{mib(int(download.rate))} MiB/s"] if download.rate else []
    parts += [f"{duration(download.left_s)} left"] if download.left_s is not None else []
    return " · ".join(parts) or f"{download.stage} …"
