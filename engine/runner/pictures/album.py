"""The pictures that were sent, by digest: their files, as long as there is room."""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from PIL import Image

from engine.errors import BadPicture, UnknownPictures
from engine.images.decode import Picture, decode
from engine.images.plan import Size
from engine.settings import MOST_PICTURE_BYTES
from engine.units import MIB

MOST_BYTES = 256 * MIB
"""Of files; those requested longest ago are forgotten first, and have to be sent again."""


@dataclass(frozen=True)
class AlbumPicture:
    """A picture's file, and what was found in it."""

    data: bytes
    size: Size
    notes: tuple[str, ...]


def read_picture(path: str | Path) -> bytes:
    """A picture's file, no more of it than is ever decoded. Raises `BadPicture`."""
    try:
        with open(path, "rb") as file:
            return file.read(MOST_PICTURE_BYTES + 1)
    except OSError as error:
        raise BadPicture(str(path), error.strerror or str(error)) from None


class Album:
    """Files of pictures, decoded when their pixels are needed: a file is a tenth of these."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._pictures: OrderedDict[str, AlbumPicture] = OrderedDict()
        self._latest: Picture | None = None

    def put(self, data: bytes, name: str = "picture") -> Picture:
        """Take a file in; `name` is what errors call it. Raises `BadPicture`."""
        picture = decode(data, name)
        self._keep(picture, data)
        return picture

    def put_pixels(self, picture: Picture) -> None:
        """Take in what has no file: kept as PNG, which loses nothing."""
        if picture.digest not in self._pictures:
            file = BytesIO()
            Image.fromarray(picture.rgb).save(file, "PNG", compress_level=1)
            self._keep(picture, file.getvalue())

    def look(self, digest: str) -> AlbumPicture:
        """Size and notes of a picture. Raises `UnknownPictures`."""
        self.check([digest])
        self._pictures.move_to_end(digest)
        return self._pictures[digest]

    def picture(self, digest: str) -> Picture:
        """Its pixels. Raises `UnknownPictures`."""
        if self._latest is None or self._latest.digest != digest:
            self._latest = None
            self._latest = decode(self.look(digest).data)
        return self._latest

    def check(self, digests: Iterable[str]) -> None:
        """Raise `UnknownPictures` for those that are not here."""
        missing = [digest for digest in dict.fromkeys(digests) if digest not in self._pictures]
        if missing:
            raise UnknownPictures(missing)

    def forget_pixels(self) -> None:
        """Keep files alone."""
        self._latest = None

    def _keep(self, picture: Picture, data: bytes) -> None:
        self._latest = picture
        self._pictures[picture.digest] = AlbumPicture(data, picture.size, picture.notes)
        self._pictures.move_to_end(picture.digest)
        while len(self._pictures) > 1 and self._bytes() > self._most:
            self._pictures.popitem(last=False)

    def _bytes(self) -> int:
        return sum(len(picture.data) for picture in self._pictures.values())
