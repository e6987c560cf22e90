"""Pictures for an engine: read from files, sent once, and again where it was restarted."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from app.remote.connection import address_of
from app.terminal.engine import CommandEngine
from app.terminal.text import aside
from engine.errors import BadPicture, CannotSee
from engine.protocol import (
    ChatMessage,
    Loaded,
    PictureInfo,
    PicturePart,
    PutPicture,
    TextPart,
)
from engine.settings import MOST_PICTURE_BYTES
from engine.system import has_come, open_to_read
from engine.units import MIB

WAITS = 10.0  # seconds for the writer of a pipe


class PicturesInWorker:
    """Pictures used so far, by digest."""

    def __init__(self, engine: CommandEngine) -> None:
        self._engine = engine
        self._files: dict[str, bytes] = {}

    def send(self, path: str | Path) -> PictureInfo:
        """Read a file and hand it to the engine; a pipe that nobody writes to is empty. Raises
        BadPicture, RemoteError, WorkerDied.
        """
        try:
            with os.fdopen(open_to_read(path), "rb", buffering=0) as file:
                data = _content(file)
        except OSError as error:
            raise BadPicture(str(path), error.strerror or str(error)) from None
        if not data:
            raise BadPicture(str(path), "it is empty")
        if len(data) > MOST_PICTURE_BYTES:
            raise BadPicture(str(path), f"it is larger than {MOST_PICTURE_BYTES // MIB} MiB")
        return self.send_data(data)

    def send_data(self, data: bytes) -> PictureInfo:
        """Hand the bytes of a file to the engine. Raises as `send`."""
        info = self._put(data)
        self._files[info.digest] = data
        return info

    def send_again(self, digests: tuple[str, ...]) -> None:
        """Hand over what the engine has forgotten."""
        for digest in digests:
            if digest in self._files:
                self._put(self._files[digest])

    def _put(self, data: bytes) -> PictureInfo:
        info: PictureInfo = self._engine.get(PutPicture(self._engine.new_id(), data))
        return info


def _content(file: IO[bytes]) -> bytes:
    """At most a byte more than a picture may have. Raises OSError, also for a pipe whose writer
    sends nothing for WAITS seconds.
    """
    data = bytearray()
    while len(data) <= MOST_PICTURE_BYTES:
        if not has_come(file, WAITS):
            raise OSError(None, f"nothing came from its writer for {WAITS:g} s")
        part = file.read(MOST_PICTURE_BYTES + 1 - len(data))
        if not part:
            break
        data += part
    return bytes(data)


def question(text: str, pictures: list[PictureInfo]) -> ChatMessage:
    """A message of the user, its pictures before its text."""
    if not pictures:
        return ChatMessage("user", text)
    return ChatMessage("user", [*(PicturePart(p.digest) for p in pictures), TextPart(text)])


def question_about(
    engine: CommandEngine, loaded: Loaded, text: str, files: Sequence[str], chat: bool
) -> tuple[list[ChatMessage], str | None]:
    """The messages and the prompt of a request: one message where `chat` or pictures are wanted,
    which are sent and listed, else the text as it stands.

    Raises CannotSee, BadPicture, RemoteError, WorkerDied.
    """
    if files:
        check_sees(loaded)
    sender = PicturesInWorker(engine)
    shown = [sender.send(file) for file in files]
    for info in shown:
        aside(f"picture {described(info)}")
    return ([question(text, shown)], None) if chat or shown else ([], text)


def check_sees(loaded: Loaded) -> None:
    """Raise CannotSee for a model that reads text only."""
    if loaded.vision is None:
        address = address_of(loaded.path)
        raise CannotSee(address.connection if address is not None else "")


def described(info: PictureInfo) -> str:
    """A picture in a line: its size and what it takes."""
    parts = [f"{info.width}x{info.height}"]
    if info.plan is not None:
        views = len(info.plan.views)
        parts += [f"{info.plan.n_tokens} tokens", f"{views} view{'s' if views > 1 else ''}"]
        parts += info.plan.notes
    return " · ".join([*parts, *info.notes])
