"""Pictures in a chat's file: in base64 under their hashes, or as files beside a Markdown text."""

import re
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from app.files import write_atomically
from app.language import tr
from app.state.talk.disk.picture_files import PictureFiles, hash_of
from app.state.talk.disk.picture_rows import PictureRows
from app.state.talk.message import Message, Picture
from engine.settings import MOST_PICTURE_BYTES

STRIDE = 3 << 18  # bytes encoded at once, so that the window's thread gets its turn
LONGEST_STEM = 60  # characters of a file's name


class BadPicture(ValueError):
    """Raised if a chat's file contradicts one of its pictures."""


def packed(files: PictureFiles, pictures: Sequence[Picture]) -> Iterator[bytes]:
    """The members of a JSON object, without its braces. Raises PictureError."""
    named = {picture.hash: picture for picture in pictures}
    for at, picture in enumerate(named.values()):
        data = files.read(picture.hash, picture.name)
        yield f'{"," if at else ""}\n  "{picture.hash}": "'.encode()
        for first in range(0, len(data), STRIDE):
            yield b64encode(data[first : first + STRIDE])
        yield b'"'


def unpack(
    rows: PictureRows, packed: Mapping[str, msgspec.Raw], stopped: Callable[[], bool]
) -> None:
    """Keep all of a file's pictures; those that no message comes to use go with the store.

    Raises BadPicture, and PictureError where one cannot be written.
    """
    for hash, raw in packed.items():
        if stopped():
            return
        data = _decoded(bytes(raw))
        if hash_of(data) != hash:
            raise BadPicture(tr("picture {hash} is damaged", hash=hash[:12]))
        rows.keep(data, tr("picture {hash}", hash=hash[:12]))


def check_named(pictures: Sequence[Picture], packed: Mapping[str, object]) -> None:
    """Raises BadPicture where a message names a picture that the file does not hold."""
    for picture in pictures:
        if picture.hash not in packed:
            raise BadPicture(tr("its picture {hash} is not in the file", hash=picture.hash[:12]))


def write_beside(
    files: PictureFiles, messages: Sequence[Message], path: Path
) -> dict[Picture, str]:
    """Write the pictures of messages into a folder beside a Markdown file; how the text links to
    them. Raises PictureError and OSError.
    """
    folder = path.with_name(f"{path.stem}-pictures")
    links: dict[Picture, str] = {}
    for message in messages:
        for picture in message.pictures:
            if picture not in links:
                name = f"{len(links) + 1}-{_plain(picture.name)}"
                write_atomically(folder / name, files.read(picture.hash, picture.name))
                links[picture] = f"{folder.name}/{name}"
    return links


def _decoded(text: bytes) -> bytes:
    """Decode a JSON string. Raises BadPicture."""
    if text[:1] != b'"' or text[-1:] != b'"':
        raise BadPicture(tr("a picture is not text"))
    if len(text) // 4 * 3 > MOST_PICTURE_BYTES + 3:
        raise BadPicture(
            tr(
                "a picture has more than {most_picture_bytes} MiB",
                most_picture_bytes=MOST_PICTURE_BYTES >> 20,
            )
        )
    body, stride = memoryview(text)[1:-1], STRIDE // 3 * 4
    try:
        pieces = [
            b64decode(body[first : first + stride], validate=True)
            for first in range(0, len(body), stride)
        ]
    except NotBase64 as error:
        raise BadPicture(tr("a picture is not base64: {error}", error=error)) from error
    return b"".join(pieces)


def _plain(name: str) -> str:
    """A file's name of what a stranger called a picture."""
    stem, _, ending = name.rpartition(".")
    ending = ending if stem and re.fullmatch(r"[A-Za-z0-9]{1,5}", ending) else ""
    stem = re.sub(r"[^\w-]+", "_", stem if ending else name)[:LONGEST_STEM].strip("_")
    return f"{stem or 'picture'}{'.' if ending else ''}{ending}"
