"""500 broken, hostile or odd picture files, and a program that decodes them.

    python -m tests.engine.images.hostile FOLDER

decodes each file of a folder and prints one line of JSON: what became of each, in how many seconds,
and how many bytes of memory that took at most. Needs Linux, whose kernel counts them.
"""

import json
import random
import struct
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from engine.errors import BadPicture
from engine.images.decode import MOST_PIXELS, MOST_PIXELS_OF, decode
from tests.engine.images.files import LOSSLESS, LOSSY, chunk, header, noise, png, saved

COUNT = 500
EXTREMES = (b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\1", b"\x80\0\0\0")


def originals() -> list[bytes]:
    """Sound files: each format, and what formats have besides colours."""
    rgb = Image.fromarray(noise(120, 80))
    rgba = Image.fromarray(noise(60, 40, 4))
    exif = Image.Exif()
    exif[0x0112] = 6
    frames = [Image.fromarray(noise(30, 20 + n)[:20]) for n in range(4)]
    deep = np.arange(1200, dtype=np.uint16).reshape(30, 40) * 50
    made = [saved(rgb, kind) for kind in LOSSLESS | LOSSY]
    made += [saved(rgb, kind, exif=exif) for kind in ("JPEG", "PNG", "WEBP", "TIFF", "AVIF")]
    made += [saved(rgba, kind) for kind in ("PNG", "WEBP", "TIFF", "TGA", "JPEG2000", "AVIF")]
    made += [
        saved(frames[0], kind, save_all=True, append_images=frames[1:])
        for kind in ("GIF", "PNG", "WEBP", "TIFF", "AVIF")
    ]
    made += [saved(rgb.convert("P"), kind) for kind in ("PNG", "GIF", "BMP", "TIFF")]
    made += [saved(rgb.convert("CMYK"), kind) for kind in ("JPEG", "TIFF")]
    made += [saved(Image.fromarray(deep), kind) for kind in ("PNG", "TIFF", "JPEG2000")]
    made.append(saved(rgb, "JPEG", progressive=True))
    made += [
        saved(rgb, "TIFF", compression=how)
        for how in ("tiff_lzw", "packbits", "jpeg", "tiff_lzma", "raw")
    ]
    made.append(saved(rgb.convert("1"), "TIFF", compression="group4"))
    return made


def cut(draw: random.Random, data: bytes, _: bytes) -> bytes:
    return data[: draw.randrange(len(data))]


def flip(draw: random.Random, data: bytes, _: bytes) -> bytes:
    """Some bytes are others, more often near the start."""
    changed = bytearray(data)
    for _k in range(draw.choice((1, 3, 20))):
        changed[int(len(data) * draw.random() ** 3)] = draw.randrange(256)
    return bytes(changed)


def extreme(draw: random.Random, data: bytes, _: bytes) -> bytes:
    """A number of the header is as large or as small as can be."""
    changed, at = bytearray(data), draw.randrange(min(len(data) - 4, 400))
    changed[at : at + 4] = draw.choice(EXTREMES)
    return bytes(changed)


def splice(draw: random.Random, data: bytes, other: bytes) -> bytes:
    """The start of one file, the end of another."""
    return data[: draw.randrange(len(data))] + other[draw.randrange(len(other)) :]


def swell(draw: random.Random, data: bytes, _: bytes) -> bytes:
    """A part of the file, again and again."""
    start = draw.randrange(len(data))
    part = data[start : start + draw.choice((1, 20, 300))]
    return data[:start] + part * draw.choice((2, 100, 2000)) + data[start:]


def blank(draw: random.Random, data: bytes, _: bytes) -> bytes:
    """Zeros, or noise, in the place of a part."""
    start = draw.randrange(len(data))
    end = min(start + draw.choice((4, 64, 1000)), len(data))
    return data[:start] + draw.choice((bytes, draw.randbytes))(end - start) + data[end:]


MUTATIONS: tuple[Callable[[random.Random, bytes, bytes], bytes], ...] = (
    *(cut, flip, flip, extreme, extreme, splice, swell, blank),
)


def bombs() -> Iterator[bytes]:
    """Little files that say, or are, a great deal."""
    for kind in ("PNG", "GIF", "BMP", "JPEG", "QOI", "PPM", "TGA"):
        for w, h in ((65535, 65535), (32768, 32768), (30000, 1), (7000, 7000), (6000, 6000)):
            yield header(kind, w, h)
    jp2 = saved(Image.new("RGB", (64, 64)), "JPEG2000")
    size = struct.pack(">II", 64, 64)
    for side in (0xFFFFFFFF, 60000, 3000):
        yield jp2.replace(size, struct.pack(">II", side, side))
    webp = saved(Image.new("RGB", (64, 64)), "WEBP")  # VP8L: width and height - 1 in 14 bits each
    at = webp.index(b"VP8L") + 9
    for side in (16383, 3999):
        bits = side | side << 14 | int.from_bytes(webp[at : at + 4], "little") & 0xF0000000
        yield webp[:at] + struct.pack("<I", bits) + webp[at + 4 :]
    tiff = saved(Image.new("RGB", (64, 64)), "TIFF", compression="raw")
    for side in (65535, 5800):
        tag = struct.pack("<HHII", 256, 4, 1, side)
        yield tiff.replace(struct.pack("<HHIHH", 256, 3, 1, 64, 0), tag)
    text = chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(60 << 20)))
    yield png(1, 1, 8, 0, b"\0\0", text)
    yield png(1, 1, 8, 0, b"\0\0", chunk(b"tEXt", b"a\0b") * 200_000)
    gif = saved(Image.new("L", (3, 3)), "GIF")
    end = gif.index(b"\x2c")
    yield gif[:end] + b"\x21\xfe" + b"\x01a" * 500_000 + b"\0" + gif[end:]
    yield gif[:end] + gif[end:-1] * 200_000 + b";"
    jpeg = saved(Image.new("RGB", (4000, 4000)), "JPEG", progressive=True)
    yield jpeg[:-2] + jpeg[jpeg.rindex(b"\xff\xda") : -2] * 5000 + jpeg[-2:]


def largest(kind: str) -> int:
    """The side of the largest square that is read."""
    return int(MOST_PIXELS_OF.get(kind, MOST_PIXELS) ** 0.5)


def large() -> Iterator[bytes]:
    """As large as pictures may be, in small files; turned and transparent."""
    exif = Image.Exif()
    exif[0x0112] = 6
    side = largest("PNG")
    shown = Image.new("RGBA", (side, side), (200, 30, 90, 80))
    yield saved(shown, "PNG", exif=exif, compress_level=1)
    side = largest("progressive JPEG")
    yield saved(Image.new("RGB", (side, side)), "JPEG", progressive=True, exif=exif)


def largest_of_each() -> Iterator[bytes]:
    """The largest picture of each kind, but for those whose files have 3 bytes per pixel."""
    exif = Image.Exif()
    exif[0x0112] = 6
    for kind in (set(LOSSLESS) | set(LOSSY)) - {"BMP", "PPM", "QOI", "TGA"}:
        side = largest(kind)
        tile = noise(256, 256).repeat(2, 0).repeat(2, 1)
        image = Image.fromarray(np.tile(tile, (side // 512 + 1, side // 512 + 1, 1))[:side, :side])
        options = {"exif": exif} if kind in ("TIFF", "JPEG", "WEBP", "AVIF") else {}
        yield saved(image, kind, **options)


def odd() -> Iterator[bytes]:
    for size in ((1, 1), (1, 5000), (5000, 1), (10000, 40), (31, 17)):
        for kind in ("PNG", "JPEG", "WEBP", "GIF"):
            yield saved(Image.new("RGB", size, (9, 8, 7)), kind)


def collection(seed: int = 20) -> list[bytes]:
    """The 500 files."""
    draw, sound = random.Random(seed), originals()
    files = [*bombs(), *large(), *odd(), *sound]
    while len(files) < COUNT:
        mutation = draw.choice(MUTATIONS)
        files.append(mutation(draw, draw.choice(sound), draw.choice(sound)))
    return files


def status(name: str) -> int:
    """A number of bytes that the kernel knows of this process."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def main(folder: Path) -> None:
    Image.init()
    results = []
    for path in sorted(folder.iterdir()):
        data = path.read_bytes()
        Path("/proc/self/clear_refs").write_text("5", "ascii")  # the peak starts from here
        before, began = status("VmRSS"), time.perf_counter()
        try:
            picture = decode(data, path.name)
            said = f"{picture.size} {', '.join(picture.notes)}"
        except BadPicture as error:
            said = f"refused: {error}"
        took, peak = time.perf_counter() - began, status("VmHWM") - before
        results.append({"file": path.name, "said": said, "seconds": took, "bytes": peak})
    print(json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
