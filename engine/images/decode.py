"""From the bytes of a file to pixels: which formats, how large, which way up.

Files are not trusted. Limits are checked on the header, before pixels are allocated, and reading
is bounded, so that no file takes more than some 300 MiB or a few seconds.
"""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError
from PIL.JpegImagePlugin import JpegImageFile

from engine.errors import BadPicture
from engine.images.colour import strips, to_rgb
from engine.images.plan import Size
from engine.settings import MOST_PICTURE_BYTES
from engine.units import MIB

FORMATS = (
    *("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF"),
    *("AVIF", "JPEG2000", "QOI", "PPM", "TGA"),
)
"""In Pillow's names. Others that it knows start programs (EPS), or hold no pixels of their own."""
MOST_SIDE = 32768
MOST_PIXELS = 40_000_000  # at 7 bytes each, of Pillow's copy and of ours, some 280 MB
SMALLER_JPEGS = (2, 4, 8)  # a larger JPEG is decoded at this part of its sides
# Formats whose decoders take more than 7 bytes per pixel, or much longer than others.
MOST_PIXELS_OF = {
    "WEBP": 16_000_000,
    "AVIF": 24_000_000,
    "JPEG2000": 4_000_000,
    "QOI": 4_000_000,
    "TIFF": 34_000_000,
    "progressive JPEG": 27_000_000,
}
MOST_SCANS = 100  # of a progressive JPEG, each of which goes over all pixels; usual are ten
SCAN = b"\xff\xda"  # where one starts
MOST_READS = 300_000  # by Pillow's parsers, for which each small block of a file is one
ORIENTATION = 0x0112  # the EXIF tag
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""By its number, what makes the stored picture upright."""


@dataclass(frozen=True, eq=False)
class Picture:
    """A decoded picture: `rgb` is uint8 [h, w, 3], read only.

    `notes` show what was done to the file that a person may want to know: "frame 1 of 12".
    """

    rgb: NDArray[np.uint8]
    notes: tuple[str, ...] = ()

    @property
    def size(self) -> Size:
        h, w, _ = self.rgb.shape
        return Size(w, h)

    @cached_property
    def digest(self) -> str:
        """The picture's identity: SHA-256, in hex, of its size and pixels."""
        h, w, _ = self.rgb.shape
        head = w.to_bytes(4, "little") + h.to_bytes(4, "little")
        made = sha256(head)
        made.update(np.ascontiguousarray(self.rgb).data)
        return made.hexdigest()


class _Reads(io.BytesIO):
    """Bytes that may be read so often: files of endless tiny blocks end with an error."""

    left = MOST_READS

    def read(self, size: int | None = -1, /) -> bytes:
        self.left -= 1
        if self.left < 0:
            raise OSError("it is made of too many small blocks")
        return super().read(size)


def decode(data: bytes, name: str = "picture") -> Picture:
    """The first frame of a picture file, upright, on white where it is transparent.

    `name` is what errors call it. Raises `BadPicture`.
    """
    if not data:
        raise BadPicture(name, "the file is empty")
    if len(data) > MOST_PICTURE_BYTES:
        size = f"{len(data) / MIB:.1f} MiB"
        raise BadPicture(name, f"{size} are more than {MOST_PICTURE_BYTES // MIB}; save it smaller")
    source = _Reads(data)
    with _refusals(name):
        try:
            image = Image.open(source, formats=FORMATS)
        except UnidentifiedImageError:
            raise BadPicture(name, _unknown(data)) from None
        with image:
            if image.format == "QOI":  # read byte by byte
                source.left += 2 * len(data)
            if image.info.get("progressive") and data.count(SCAN) > MOST_SCANS:
                raise BadPicture(name, f"a JPEG of more than {MOST_SCANS} scans is not read")
            return _read(image, name)


def from_image(image: Image.Image, name: str = "picture") -> Picture:
    """A Pillow image, as `decode` would give its file. Raises `BadPicture`."""
    with _refusals(name):
        return _read(image, name)


def from_array(values: NDArray[np.uint8], name: str = "picture") -> Picture:
    """An array u8 [h, w], [h, w, 3] or, with alpha, [h, w, 4]. Raises `BadPicture`."""
    shape = values.shape
    if values.dtype != np.uint8 or not (len(shape) == 2 or len(shape) == 3 and shape[2] in (3, 4)):
        wanted = "uint8 [h, w], [h, w, 3] or [h, w, 4]"
        raise BadPicture(name, f"an array of {values.dtype} {list(shape)}; expected {wanted}")
    if not values.size:
        raise BadPicture(name, f"an array {list(shape)} has no pixels")
    return from_image(Image.fromarray(np.ascontiguousarray(values)), name)


@contextmanager
def _refusals(name: str) -> Iterator[None]:
    """Convert Pillow's exceptions to sentences; what it warns of is checked here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        except BadPicture:
            raise
        except Image.DecompressionBombError:
            most = 2 * (Image.MAX_IMAGE_PIXELS or 0) // 10**6
            raise BadPicture(name, f"more than {most} million pixels; save it smaller") from None
        except Exception as error:  # noqa: BLE001  Pillow raises what a broken file makes of it
            raise BadPicture(name, f"the file is cut off or damaged ({_line(error)})") from None


def _read(image: Image.Image, name: str) -> Picture:
    """All pixels, a strip at a time: large pictures are in memory twice and not more often."""
    scaled = _scale_jpeg(image)
    _check_size(image, name)
    image.load()
    turn, notes = _orientation(image)
    convert, more = to_rgb(image)
    w, h = image.size
    across, backwards = turn >= 5, turn in (3, 4, 6, 7)  # rows become columns, the first the last
    rgb = np.empty((w, h, 3) if across else (h, w, 3), np.uint8)
    for top, strip in strips(image):
        start = h - top - strip.height if backwards else top
        here = slice(start, start + strip.height)
        upright = strip.transpose(TURNS[turn]) if turn in TURNS else strip
        rgb[(slice(None), here) if across else here] = convert(upright)
    rgb.setflags(write=False)
    return Picture(rgb, (*scaled, *notes, *more, *_frames(image)))


def _scale_jpeg(image: Image.Image) -> list[str]:
    """Have a JPEG of too many pixels decoded at a half, a quarter or an eighth of its sides. Not a
    progressive one: all its coefficients are in memory, whatever is decoded of them.
    """
    w, h = image.size
    jpeg = isinstance(image, JpegImageFile) and not image.info.get("progressive")
    if not jpeg or w * h <= MOST_PIXELS:
        return []
    for part in SMALLER_JPEGS:
        if (w // part) * (h // part) <= MOST_PIXELS:
            image.draft(image.mode, (w // part, h // part))
            break
    return [f"scaled from {w}x{h} to {image.size[0]}x{image.size[1]}"]


def _check_size(image: Image.Image, name: str) -> None:
    w, h = image.size
    kind = image.format or "picture"
    if kind == "JPEG" and image.info.get("progressive"):
        kind = "progressive JPEG"
    most = MOST_PIXELS_OF.get(kind, MOST_PIXELS)
    if not (w and h):
        raise BadPicture(name, f"{w}x{h} has no pixels")
    if w * h > most:
        counts = f"{w}x{h} are {w * h / 1e6:.1f} million pixels"
        kind = "PNG or JPEG" if kind == "picture" else kind
        advice = "save it smaller" + ("" if "JPEG" in kind else ", or as JPEG")
        raise BadPicture(name, f"{counts}; a {kind} may have {most // 10**6}: {advice}")
    if max(w, h) > MOST_SIDE:
        raise BadPicture(name, f"a side of {w}x{h} is longer than {MOST_SIDE}; save it smaller")


def _orientation(image: Image.Image) -> tuple[int, list[str]]:
    """The EXIF number 1 to 8 of how the stored picture is to be turned."""
    try:
        turn = image.getexif().get(ORIENTATION, 1)
    except Exception:  # noqa: BLE001  a broken block is no reason to refuse the picture
        return 1, ["its EXIF data are broken"]
    if turn not in TURNS:
        return 1, []
    return turn, [f"turned upright (EXIF orientation {turn})"]


def _frames(image: Image.Image) -> list[str]:
    """Only the first frame or page is seen, which the person should know."""
    if image.format == "MPO":  # a phone's JPEG with a gain map or a small copy behind
        return []
    try:
        count = getattr(image, "n_frames", 1)
    except Exception:  # noqa: BLE001  later frames are broken, or too many
        return ["only its first frame"]
    return [f"frame 1 of {count}"] if count > 1 else []


def _unknown(data: bytes) -> str:
    """Why the bytes are no picture, where that is known."""
    advice = "save it as PNG or JPEG"
    if data[4:8] == b"ftyp" and data[8:12] in (b"heic", b"heix", b"hevc", b"mif1", b"msf1"):
        return f"HEIC is not read; {advice}"
    start = data[:1024].lower()
    for mark, kind in ((b"%pdf", "PDF"), (b"<svg", "SVG"), (b"%!ps", "PostScript")):
        if mark in start:
            return f"{kind} is not read; {advice}"
    known = ", ".join(kind.replace("JPEG2000", "JPEG 2000") for kind in FORMATS)
    return f"not a picture in a format that is read ({known}); {advice}"


def _line(error: Exception) -> str:
    """Pillow's words on one line, without what a file may have put into them."""
    text = " ".join(str(error).split())
    return "".join(c for c in text if c.isascii() and c.isprintable())[:120] or "unreadable"
