"""Draw the icons of installers from the program's: `python resources/package/icons.py`."""

import io
from pathlib import Path

from PIL import Image
from PySide6.QtCore import QBuffer, QIODevice
from PySide6.QtGui import QGuiApplication, QIcon

ROOT = Path(__file__).resolve().parents[2]
SIZES = (16, 24, 32, 48, 64, 128, 256, 512)


def drawn(size: int) -> Image.Image:
    """The icon at `size` by `size` pixels."""
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    icon = QIcon(str(ROOT / "resources" / "desktop" / "cutaway.svg"))
    icon.pixmap(size, size).save(buffer, "PNG")  # type: ignore[call-overload]
    return Image.open(io.BytesIO(buffer.data().data())).convert("RGBA")


def main() -> None:
    """Write `resources/package/icons/cutaway.ico` (Windows, to 256) and `.icns` (macOS)."""
    application = QGuiApplication([])
    largest, *others = [drawn(size) for size in reversed(SIZES)]
    folder = ROOT / "resources" / "package" / "icons"
    folder.mkdir(exist_ok=True)
    small = [image for image in others if image.width <= 256]
    small[0].save(folder / "cutaway.ico", append_images=small[1:])
    largest.save(folder / "cutaway.icns", append_images=others)
    application.quit()


if __name__ == "__main__":
    main()
