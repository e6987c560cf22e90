"""Pictures for the eye, in a process of their own: `python -m engine.images.shrink EDGE PATH...`

A file may be hostile and decoding takes long, so neither happens in a program with a window. For
each path it writes a line of JSON, `Shrunk`, and then RGB pixels, row by row: at most EDGE wide and
high, or with EDGE 0 all there are.
"""

import sys
from typing import BinaryIO

import msgspec
from PIL import Image

from engine.errors import CutawayError
from engine.images.decode import decode
from engine.system import limit_process

MEMORY = 3 << 30  # bytes that the process may take, which the largest picture does not
PROCESSOR_S = 60  # seconds that it may compute


class Shrunk(msgspec.Struct, frozen=True):
    """A picture is `width` x `height`; the pixels that follow are `columns` x `rows`, none where
    it could not be read and `problem` says why.
    """

    width: int = 0
    height: int = 0
    columns: int = 0
    rows: int = 0
    problem: str = ""
    notes: tuple[str, ...] = ()


def shrink(path: str, edge: int) -> tuple[Shrunk, bytes]:
    """Return the record and the pixels of one file."""
    try:
        with open(path, "rb") as file:
            picture = decode(file.read())
    except CutawayError as error:
        return Shrunk(problem=str(error)), b""
    except OSError as error:
        return Shrunk(problem=f"it could not be read: {error.strerror}"), b""
    w, h = picture.size.w, picture.size.h
    image = Image.fromarray(picture.rgb)
    if edge:
        image.thumbnail((edge, edge), Image.Resampling.BOX, reducing_gap=None)
    return Shrunk(w, h, *image.size, notes=picture.notes), image.tobytes()


def write(paths: list[str], edge: int, out: BinaryIO) -> None:
    """Write the records and pixels of all files."""
    for path in paths:
        about, pixels = shrink(path, edge)
        out.write(msgspec.json.encode(about) + b"\n")
        out.write(pixels)


if __name__ == "__main__":
    limit_process(MEMORY, PROCESSOR_S)
    write(sys.argv[2:], int(sys.argv[1]), sys.stdout.buffer)
