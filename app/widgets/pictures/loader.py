"""Pictures from files, decoded in another process and handed to the window's thread."""

import contextlib
import mmap
import os
import subprocess
import sys
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QImage

from app.language import tr
from app.work import Work

PROGRAM = "engine.images.shrink"
EDGE = 320  # pixels of a thumbnail: sharp at normal text on a screen of double density
PATIENCE_S = 120.0
KEPT = 200  # thumbnails, some 300 kB each
AT_ONCE = 16  # of which the first is shown when the last is ready


class _Head(msgspec.Struct, frozen=True):
    width: int
    height: int
    columns: int
    rows: int
    problem: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class OpenedPicture:
    """A picture's pixels: of its `width` x `height` as many as were requested. `image` is null
    where the file could not be read, and `problem` says why.
    """

    width: int
    height: int
    image: QImage
    problem: str = ""
    notes: tuple[str, ...] = ()
    memory: object = None  # what the pixels lie in


class PictureLoader(QObject):
    """Thumbnails are kept; the latest requested are made first."""

    ready = Signal(object)  # Path

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._kept: OrderedDict[Path, OpenedPicture] = OrderedDict()
        self._wanted: list[Path] = []
        self._job: Work | None = None

    def thumbnail(self, path: Path) -> OpenedPicture | None:
        """None where it is not there yet; `ready` follows."""
        if path in self._kept:
            self._kept.move_to_end(path)
            return self._kept[path]
        if path not in self._wanted:
            self._wanted.append(path)
            self._begin()
        return None

    def whole(
        self, path: Path, then: Callable[[OpenedPicture], None], fail: Callable[[str], None]
    ) -> Work:
        """All pixels of a picture."""
        return Work(load, [path], 0).then(lambda made: then(made[0])).fail(fail).start(self)

    def _begin(self) -> None:
        if self._job is None and self._wanted:
            paths = self._wanted[-AT_ONCE:]
            self._job = (
                Work(load, paths, EDGE)
                .then(lambda made: self._end(paths, made))
                .fail(lambda why: self._end(paths, [_unopened(why)] * len(paths)))
                .start(self)
            )

    def _end(self, paths: Sequence[Path], made: Sequence[OpenedPicture]) -> None:
        self._job = None
        for path, loaded in zip(paths, made, strict=True):
            self._wanted.remove(path)
            self._kept[path] = replace(loaded, image=loaded.image.copy(), memory=None)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        for path in paths:
            self.ready.emit(path)
        self._begin()


def load(paths: Sequence[Path], edge: int) -> list[OpenedPicture]:
    """The pictures, at most `edge` pixels wide and high (0: whole); for a thread.

    A process that dies leaves the one it was at without pixels; another goes on after it.
    """
    made: list[OpenedPicture] = []
    while len(made) < len(paths):
        why = tr("opening it took too much time or memory")
        made += _run(paths[len(made) :], edge) or [_unopened(why)]
    return made


def _unopened(why: str) -> OpenedPicture:
    return OpenedPicture(0, 0, QImage(), why)


def _run(paths: Sequence[Path], edge: int) -> list[OpenedPicture]:
    """Open pictures in a process; return those it opened before it ended."""
    root = str(Path(__file__).resolve().parents[3])
    inherited = os.environ.get("PYTHONPATH", "")
    with tempfile.TemporaryFile() as out:
        with contextlib.suppress(subprocess.TimeoutExpired):  # what it has written is there
            subprocess.run(
                [sys.executable, "-m", PROGRAM, str(edge), *map(str, paths)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.DEVNULL,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (root, inherited)))},
                timeout=PATIENCE_S,
                check=False,
            )
        size = os.fstat(out.fileno()).st_size
        data = mmap.mmap(out.fileno(), 0, access=mmap.ACCESS_READ) if size else None
    return _read(data, len(paths))


def _read(data: mmap.mmap | None, count: int) -> list[OpenedPicture]:
    decoder, made, at = msgspec.json.Decoder(_Head), list[OpenedPicture](), 0
    while data is not None and len(made) < count:
        end = data.find(b"\n", at)
        if end < 0:
            break
        head = decoder.decode(data[at:end])
        at, size = end + 1, 3 * head.columns * head.rows
        if at + size > len(data):
            break
        image = QImage()
        if size:
            pixels = memoryview(data)[at : at + size]
            kind = QImage.Format.Format_RGB888
            image = QImage(pixels, head.columns, head.rows, 3 * head.columns, kind)
        made.append(OpenedPicture(head.width, head.height, image, head.problem, head.notes, data))
        at += size
    return made
