"""A chat as a JSON file: what one may hold, checked whole before any of it is taken in.

The JSON is `{"format": "cutaway-chat", "version": 1, "title", "system", "sampling", "messages"}`;
a message names its parent by its place in the list, which comes before it, and `chosen` marks the
branch shown. Tokens, where kept, are columns (see `tokens.TokenData`), in base64. With pictures
it is version 2: a message names its `pictures` by hash, and `pictures` of the file has the bytes
of each, in base64. With documents, whose text is in the message, it is version 3, with calls
of tools version 4, with edits, whose directions are in `vectors` by hash, version 5.
"""

import math
import stat
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from app.documents.document import Document, Kind, plain_name
from app.language import tr
from app.state.presets import OwnSampling, own_of_whole
from app.state.talk.disk.packed_pictures import check_named
from app.state.talk.disk.vector_rows import unpack
from app.state.talk.edits import NO_EDITS, EditSet, of_changes
from app.state.talk.message import Picture, Role
from app.state.talk.tokens import TokenData, Tokens
from app.tools.calling import CallState, ToolUse, stopped
from engine.errors import BadSetting, CutawayError
from engine.protocol import AnswerForm, PictureLimits, Sampling, Stats, Tool

VERSION = 5
LARGEST = 256 << 20  # bytes of a file that is taken in
LATEST = 253402128000.0  # seconds since the epoch: the year 9999, where calendars end
LONGEST_S = 1e9  # seconds that anything in an answer may have taken
LONGEST_TEXT = 1 << 22  # characters; a million tokens or so
LONGEST_NAME = 1000  # characters of a title, a model's name, a reason
MOST_PICTURES = 1000  # of a message
MOST_DOCUMENTS = 1000  # likewise
LONGEST_DOCUMENT = 1 << 26  # characters
MOST_TAGS = 100
MOST_CALLS = 1000  # likewise
MOST_ROWS = 1 << 20  # embeddings of a picture
REPORT_EVERY = 200  # messages

Text = Annotated[str, msgspec.Meta(max_length=LONGEST_TEXT)]
Name = Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)]
Time = Annotated[float, msgspec.Meta(ge=0, le=LATEST)]


class BadChatFile(CutawayError):
    """A file that holds no chat that can be taken in."""

    def __init__(self, path: object, problem: str) -> None:
        self.path, self.problem = str(path), problem
        super().__init__(f"{path}: {problem}")


class ChatFilePicture(msgspec.Struct, omit_defaults=True):
    """A picture of a message; `rows` and `one_view` limit what models make of it."""

    hash: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    name: Name = ""
    rows: Annotated[int, msgspec.Meta(ge=1, le=MOST_ROWS)] | None = None
    one_view: bool = False


class ChatFileDocument(msgspec.Struct, omit_defaults=True):
    """A document of a message, with its text."""

    name: Name
    text: Annotated[str, msgspec.Meta(max_length=LONGEST_DOCUMENT)]
    kind: Kind = "text"
    size: Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)] = 0


class ChatFileCall(msgspec.Struct, omit_defaults=True):
    """A call of a tool with its result; it is shown, and never made again."""

    id: Name
    name: Name
    arguments: Text = "{}"
    state: CallState = "done"
    result: Text = ""
    seconds: Annotated[float, msgspec.Meta(ge=0, le=LONGEST_S)] = 0.0
    pictures: Annotated[list[Name], msgspec.Meta(max_length=MOST_PICTURES)] = []


class ChatFileMessage(msgspec.Struct, omit_defaults=True):
    """One node; `parent` is an index into the list of messages."""

    role: Role
    text: Text
    parent: int | None = None
    chosen: bool = False
    created: Time = 0.0
    model: Name = ""
    finish: Name = "stop"
    problem: Text = ""
    stats: Stats | None = None
    tokens: TokenData | None = None
    pictures: Annotated[list[ChatFilePicture], msgspec.Meta(max_length=MOST_PICTURES)] = []

    documents: Annotated[list[ChatFileDocument], msgspec.Meta(max_length=MOST_DOCUMENTS)] = []

    calls: Annotated[list[ChatFileCall], msgspec.Meta(max_length=MOST_CALLS)] = []

    tools: Annotated[list[Tool], msgspec.Meta(max_length=MOST_CALLS)] = []

    edits: EditSet = NO_EDITS

    @property
    def edited(self) -> EditSet:
        """The edits that it was written with."""
        old = self.stats is not None and self.stats.changes and not self.edits
        return of_changes(self.stats.changes) if old and self.stats is not None else self.edits

    @property
    def called(self) -> tuple[ToolUse, ...]:
        """Its calls; one that had not ended stays without a result."""
        made = [ToolUse(**msgspec.structs.asdict(call)) for call in self.calls]
        return tuple(use if use.ended else stopped(use) for use in made)

    @property
    def attached(self) -> tuple[Document, ...]:
        """Its documents."""
        return tuple(Document(plain_name(d.name), d.kind, d.text, d.size) for d in self.documents)

    @property
    def shown(self) -> tuple[Picture, ...]:
        """Its pictures, as the store names them."""
        return tuple(
            Picture(p.hash, p.name, PictureLimits(p.rows, p.one_view)) for p in self.pictures
        )


class ChatFile(msgspec.Struct):
    """The whole file; its messages are decoded one by one. `sampling` is whole, for versions that
    do not know `own`.
    """

    format: Literal["cutaway-chat"]
    version: int
    title: Name = ""
    system: Text = ""
    sampling: Sampling = Sampling()
    own: OwnSampling | None = None
    folder: Name = ""
    tags: Annotated[list[Name], msgspec.Meta(max_length=MOST_TAGS)] = []
    form: AnswerForm | None = None
    messages: list[msgspec.Raw] = []
    pictures: dict[str, msgspec.Raw] = {}
    edits: EditSet = NO_EDITS
    vectors: dict[str, bytes] = {}

    @property
    def chosen(self) -> OwnSampling:
        """The numbers that the person set."""
        if self.own is not None:
            return self.own
        return OwnSampling(**own_of_whole(msgspec.structs.asdict(self.sampling)))


UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError, BadSetting)


def never() -> bool:
    """Nobody stops it."""
    return False


def silent(done: int, total: int) -> None:
    """No progress is reported."""


def read_chat_file(
    path: Path,
    report: Callable[[int, int], None] = silent,
    stopped: Callable[[], bool] = never,
) -> tuple[ChatFile, list[ChatFileMessage]]:
    """The file and its messages, where all of it is in range; fewer messages once `stopped`.

    Raises BadChatFile.
    """
    try:
        content = file_content(path)
        file = msgspec.json.decode(content, type=ChatFile)
        file.sampling.check()
        file.chosen.check()
        _check_vectors(file, file.edits)
    except RecursionError:
        raise BadChatFile(path, tr("is not a Cutaway chat (it is nested too deeply)")) from None
    except (msgspec.MsgspecError, UnicodeDecodeError, CutawayError) as error:
        if isinstance(error, BadChatFile):
            raise
        raise BadChatFile(path, tr("is not a Cutaway chat ({error})", error=error)) from error
    if file.version > VERSION:
        problem = tr(
            "is of version {version}, this Cutaway reads up to {version2}; update it",
            version=file.version,
            version2=VERSION,
        )
        raise BadChatFile(path, problem)
    decoder = msgspec.json.Decoder(ChatFileMessage)
    messages: list[ChatFileMessage] = []
    for place, raw in enumerate(file.messages):
        if place % REPORT_EVERY == 0:
            report(place, len(file.messages))
            if stopped():
                break
        try:
            message = decoder.decode(raw)
            _check(message, place)
            check_named(message.shown, file.pictures)
            _check_vectors(file, message.edits)
        except UNREADABLE as error:
            problem = tr(
                "is not a Cutaway chat (message {place}: {error})", place=place, error=error
            )
            raise BadChatFile(path, problem) from error
        messages.append(message)
    return file, messages


def file_content(path: Path) -> bytes:
    """The bytes of a file that may hold chats. Raises BadChatFile."""
    try:
        about = path.stat()
        if stat.S_ISDIR(about.st_mode):
            raise BadChatFile(path, tr("is a directory"))
        if not stat.S_ISREG(about.st_mode):  # a pipe or a device may never end
            raise BadChatFile(path, tr("is not a regular file"))
        if about.st_size > LARGEST:
            raise BadChatFile(path, tr("is larger than {largest} MiB", largest=LARGEST >> 20))
        return path.read_bytes().removeprefix(BOM_UTF8)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        problem = error.strerror if isinstance(error, OSError) else str(error)
        raise BadChatFile(path, problem or tr("cannot be read")) from error


def _check(message: ChatFileMessage, place: int) -> None:
    """Raises ValueError for what the types do not say."""
    if message.parent is not None and not 0 <= message.parent < place:
        raise ValueError(tr("it names parent {parent}", parent=message.parent))
    if message.stats is not None:
        _check_stats(message.stats)
    if message.tokens is not None:
        Tokens.of(message.tokens).check(len(message.text))


def _check_vectors(file: ChatFile, edits: EditSet) -> None:
    """Raise `BadSetting` for edits that no model could do, or without their directions."""
    edits.check()
    for name in edits.directions:
        data = file.vectors.get(name)
        if data is None or sha256(data).hexdigest() != name:
            raise BadSetting("vectors", f"{name[:8]}…", tr("the directions that an edit names"))
        unpack(data)


def _check_stats(stats: Stats) -> None:
    for name, value in _numbers(stats):
        most = (1 << 64) - 1 if name == "seed" else LONGEST_S
        if not 0 <= value <= most or not math.isfinite(value):
            raise ValueError(f"{name} is {value:.6g}")


def _numbers(value: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """All numbers in a structure, by the name of the field that they stand in."""
    if isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            yield from _numbers(getattr(value, field), field)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _numbers(item, name)
    elif isinstance(value, int | float):
        yield name, value
