"""Files of pictures, in every format that is read."""

import io
import struct
import zlib
from typing import Any

import numpy as np
from PIL import Image

LOSSLESS: dict[str, dict[str, Any]] = {
    "PNG": {},
    "WEBP": {"lossless": True, "exact": True},
    "TIFF": {"compression": "tiff_deflate"},
    "BMP": {},
    "JPEG2000": {"irreversible": False},
    "QOI": {},
    "PPM": {},
    "TGA": {"compression": "tga_rle"},
}
"""Formats that give back what they were given, and how they are saved so."""
LOSSY: dict[str, dict[str, Any]] = {
    "JPEG": {"quality": 95, "subsampling": 0},
    "AVIF": {"quality": 95, "subsampling": "4:4:4", "speed": 10},
    "GIF": {},
}


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    """The bytes of a file."""
    stream = io.BytesIO()
    image.save(stream, kind, **{**(LOSSLESS | LOSSY)[kind], **options})
    return stream.getvalue()


def noise(w: int, h: int, channels: int = 3) -> np.ndarray:
    """u8 [h, w, channels], with large areas and fine grain."""
    draw = np.random.default_rng([w, h, channels])
    coarse = draw.integers(0, 256, (h // 8 + 1, w // 8 + 1, channels))
    fine = draw.integers(-20, 21, (h, w, channels))
    return np.clip(coarse.repeat(8, 0).repeat(8, 1)[:h, :w] + fine, 0, 255).astype(np.uint8)


def chunk(kind: bytes, data: bytes) -> bytes:
    """A chunk of a PNG."""
    check = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)


def png(w: int, h: int, depth: int, colour: int, rows: bytes, *more: bytes) -> bytes:
    """A PNG by hand: raw rows, each with its filter byte; `more` chunks before the pixels."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, depth, colour, 0, 0, 0))
    body = b"".join(more) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + head + body


def header(kind: str, w: int, h: int) -> bytes:
    """A small file that says that its picture is w x h."""
    small = saved(Image.new("RGB", (7, 5)), kind)
    if kind == "PNG":
        return small[:8] + chunk(b"IHDR", struct.pack(">II", w, h) + small[24:29]) + small[33:]
    if kind == "GIF":
        return small[:6] + struct.pack("<HH", w, h) + small[10:]
    if kind == "BMP":
        return small[:18] + struct.pack("<II", w, h) + small[26:]
    if kind == "JPEG":
        at = small.index(b"\xff\xc0") + 5
        return small[:at] + struct.pack(">HH", h, w) + small[at + 4 :]
    if kind == "QOI":
        return small[:4] + struct.pack(">II", w, h) + small[12:]
    if kind == "PPM":
        return b"P6 %d %d 255\n" % (w, h)
    assert kind == "TGA"
    return small[:12] + struct.pack("<HH", w, h) + small[16:]
