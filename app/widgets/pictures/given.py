"""Pictures on the clipboard or in a drag: files, bytes, or pixels of another program."""

import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QMimeData
from PySide6.QtGui import QImage

# What a person may take for a picture; why one cannot be read is said by who reads it.
SUFFIXES = frozenset(
    f".{kind}"
    for kind in (
        *("png", "apng", "jpg", "jpeg", "jpe", "jfif", "webp", "gif", "bmp", "dib", "tif", "tiff"),
        *("avif", "avifs", "jp2", "j2k", "jpx", "qoi", "ppm", "pgm", "pbm", "pnm", "tga"),
        *("heic", "heif", "svg"),
    )
)
KINDS = ("png", "jpeg", "webp", "gif", "bmp", "tiff", "avif")


def is_picture(path: Path) -> bool:
    """Return whether a file's suffix is that of a picture."""
    return path.suffix.lower() in SUFFIXES


def local_files(data: QMimeData) -> list[Path]:
    """The files of this machine that are given."""
    return [Path(url.toLocalFile()) for url in data.urls() if url.isLocalFile()]


def expand(paths: Sequence[Path]) -> list[Path]:
    """Pictures, and those that lie in folders, by name; for a thread."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            names = sorted(name for name in os.listdir(path) if is_picture(Path(name)))
            found += [path / name for name in names]
        else:
            found.append(path)
    return found


def picture_in(data: QMimeData) -> Callable[[], bytes] | None:
    """A picture that is not a file, as it is given or else as a PNG; to be called in a thread."""
    for kind in KINDS:
        name = f"image/{kind}"
        if data.hasFormat(name):
            raw = data.data(name)
            return lambda: bytes(raw.data())
    image = data.imageData() if data.hasImage() else None
    if isinstance(image, QImage) and not image.isNull():
        return lambda: _png(image)
    return None


def _png(image: QImage) -> bytes:
    """Pillow lets other threads work meanwhile."""
    from PIL import Image

    pixels = image.convertToFormat(QImage.Format.Format_RGBA8888)
    size, stride = (pixels.width(), pixels.height()), pixels.bytesPerLine()
    made = Image.frombuffer("RGBA", size, bytes(pixels.constBits()), "raw", "RGBA", stride, 1)
    out = io.BytesIO()
    made.save(out, "PNG", compress_level=1)
    return out.getvalue()
