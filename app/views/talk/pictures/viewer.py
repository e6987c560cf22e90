"""A picture in full: fitted or pixel by pixel, saved, copied, and as the model sees it."""

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QGuiApplication, QHideEvent, QImage, QKeyEvent
from PySide6.QtWidgets import QStackedWidget, QWidget

from app.files import write_named
from app.language import tr
from app.state.talk.message import Picture
from app.state.workbench import Workbench
from app.theme.tokens import GRID, PADDING
from app.views.talk.pictures.seen import SeenPicture
from app.views.talk.pictures.words import DOT, size
from app.widgets.basics import Button, IconButton, label
from app.widgets.controls.elided import ElidedLabel
from app.widgets.controls.flow import Flow
from app.widgets.file_dialogs import save_file
from app.widgets.layouts import hbox, vbox
from app.widgets.pictures.canvas import PictureCanvas
from app.widgets.pictures.loader import OpenedPicture, PictureLoader, load
from app.work import Work

FITTED = 2048  # pixels of the longer side, where the picture is fitted


class PictureViewer(QWidget):
    """Page Up and Page Down go through the pictures of a message."""

    done = Signal()

    def __init__(self, bench: Workbench, loader: PictureLoader) -> None:
        super().__init__()
        self.setAccessibleName(tr("Picture"))
        self._bench, self._loader = bench, loader
        self._pictures: Sequence[Picture] = ()
        self._place = 0
        self._job: Work | None = None
        self._shown: OpenedPicture | None = None
        self._title = ElidedLabel(size="strong")
        self._about = label("", "quiet", "small")
        self.canvas = PictureCanvas()
        self.seen = SeenPicture(bench)
        self.before = IconButton("chevron-left", tr("Previous picture"), lambda: self._go(-1))
        self.after = IconButton("chevron-right", tr("Next picture"), lambda: self._go(1))
        self.zoom = Button("100 %", self._zoom, "flat")
        self.look = Button(tr("Picture as the model sees it"), self._look, "flat", "eye")
        self.save = Button(tr("Save as…"), self._save, "flat", name=tr("Save picture as"))
        self.copy = Button(tr("Copy"), self._copy, "flat", name=tr("Copy picture"))
        self.stack = QStackedWidget()
        self.stack.addWidget(self.canvas)
        self.stack.addWidget(self.seen)
        self.canvas.zoom_wanted.connect(self._zoom)
        self._lay_out()

    def show_pictures(self, pictures: Sequence[Picture], place: int, seen: bool = False) -> None:
        """These, from the one at `place` on; with `seen` as the model sees it."""
        self._pictures, self._place = pictures, place
        self.stack.setCurrentWidget(self.seen if seen else self.canvas)
        self._show()

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        super().hideEvent(event)
        if not event.spontaneous():  # not by minimizing the window
            self.forget()

    def forget(self) -> None:
        """Hold no pixels any more."""
        self._pictures, self._shown = (), None
        if self._job is not None:
            self._job.cancel()
        self.canvas.say("")
        self.seen.show_picture(None)

    @property
    def looks(self) -> bool:
        """True if it shows the picture as the model sees it."""
        return self.stack.currentWidget() is self.seen

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        step = {Qt.Key.Key_PageUp: -1, Qt.Key.Key_PageDown: 1}.get(Qt.Key(event.key()), 0)
        if step:
            self._go(step)
        else:
            super().keyPressEvent(event)

    def _lay_out(self) -> None:
        line = hbox(
            self.before,
            self.after,
            (self._title, 1),
            IconButton("close", tr("Close"), self.done.emit),
            spacing=GRID // 2,
        )
        steps = Flow(tr("Picture"))
        steps.show_items([self.look, self.zoom, self.copy, self.save])
        vbox(
            line,
            (self.stack, 1),
            self._about,
            steps,
            on=self,
            margins=(PADDING, GRID, GRID, PADDING),
        )
        self.setFocusProxy(self.canvas)

    def _go(self, step: int) -> None:
        if 0 <= self._place + step < len(self._pictures):
            self._place += step
            self._show()

    @property
    def _picture(self) -> Picture:
        return self._pictures[self._place]

    @property
    def _path(self) -> Path:
        return self._bench.chat.pictures_in_engine.path(self._picture)

    def _show(self) -> None:
        several = len(self._pictures) > 1
        number = (
            tr("{place} of {pictures}", place=self._place + 1, pictures=len(self._pictures))
            if several
            else ""
        )
        self._title.setText(DOT.join(filter(None, (self._picture.name, number))))
        for button, edge in ((self.before, 0), (self.after, len(self._pictures) - 1)):
            button.setVisible(several)
            button.setEnabled(self._place != edge)
        self.setFocusProxy(self.seen.views if self.looks else self.canvas)
        self.look.set_text(tr("Picture") if self.looks else tr("Picture as the model sees it"))
        for step in (self.zoom, self.copy, self.save):
            step.setVisible(not self.looks)
        self._about.setText("")
        if self.looks:
            self.seen.show_picture(self._picture)
        else:
            self.seen.show_picture(None)
            self._load()

    def _load(self) -> None:
        """The picture, with as many of its pixels as are to be seen."""
        if self._job is not None:
            self._job.cancel()
        self.canvas.say(tr("Loading the picture…"))
        edge = 0 if self.canvas.pixel_by_pixel else FITTED
        work = Work(load, [self._path], edge).then(lambda made: self._loaded(made[0]))
        self._job = work.fail(self.canvas.say).start(self)

    def _loaded(self, loaded: OpenedPicture) -> None:
        self._job, self._shown = None, loaded
        if loaded.problem:
            self.canvas.say(loaded.problem)
            return
        self.canvas.show_image(loaded.image, QSize(loaded.width, loaded.height))
        self.canvas.setAccessibleName(f"{self._picture.name}, {size(loaded.width, loaded.height)}")
        about = (size(loaded.width, loaded.height), *loaded.notes)
        self._about.setText(DOT.join(about))

    def _zoom(self) -> None:
        self.canvas.set_pixel_by_pixel(not self.canvas.pixel_by_pixel)
        self.zoom.set_text(tr("Fit") if self.canvas.pixel_by_pixel else "100 %")
        self._load()

    def _look(self) -> None:
        self.stack.setCurrentWidget(self.canvas if self.looks else self.seen)
        self._show()

    def _save(self) -> None:
        path, _ = save_file(self, tr("Save the picture"), self._picture.name)
        if path:
            work = Work(_copied, self._path, Path(path))
            name = Path(path).name
            work.then(lambda _: self._about.setText(tr("Saved as {name}", name=name)))
            work.fail(lambda why: self._about.setText(tr("Not saved: {why}", why=why))).start(self)

    def _copy(self) -> None:
        def put(image: QImage) -> None:
            QGuiApplication.clipboard().setImage(image)
            self._about.setText(tr("Copied"))

        work = Work(_whole, self._path).then(put)
        work.fail(self._about.setText).start(self)


def _copied(source: Path, target: Path) -> None:
    write_named(target, source.read_bytes())


def _whole(path: Path) -> QImage:
    """All pixels, in memory of their own; for a thread."""
    return load([path], 0)[0].image.copy()
