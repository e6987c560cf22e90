"""A model is opened and closed."""

from typing import ClassVar, Literal

import msgspec

from engine.protocol.message import Reply, Request
from engine.settings import EngineOptions
from engine.system import Usage


class Vision(msgspec.Struct, frozen=True):
    """The vision part of a model: the projector's kind, the file it came from and its bytes there.

    `path` is the model's own where one file holds both.
    """

    kind: str
    path: str
    size: int


class LoraAdapter(msgspec.Struct, frozen=True):
    """An adapter of the open model: its name, file and scale, how many matrices it changes, and its
    bytes in the file. Its number is its place among them.
    """

    name: str
    path: str
    scale: float
    matrices: int
    size: int


class LoadCost(msgspec.Struct, frozen=True):
    """The cost of a load. `seconds` are by the clock, of parts that follow each other: "opening"
    (the header, the vocabulary, devices), "planning" (placement, memory, plans with their
    programs), "touching" (waiting for pages), "reading" (files, and copying their bytes), "packing"
    (starting kernels that pack), "waiting" (until they are done) and "first token". `used` is what
    the process took meanwhile; None where the system does not count it.
    """

    seconds: dict[str, float]
    used: Usage | None = None


Gives = Literal["text", "embeddings", "scores"]


class Loaded(Reply, frozen=True):
    """A model is open. `chat` says how messages become text: file, chatml, none, or
    alone where an encoder reads one message.

    `vision` is None where it reads text only. `details` are for the log: why layers lie where they
    do, and the memory records. `prepared` bytes of weights were not packed, but mapped as an
    earlier load had packed them. `general` are the file's `general.*` values. `fills` is true if it
    fills in the middle of a text. `cost` is None where nothing was loaded for this reply.
    `adapters` join the model's matrices. `gives` is what can be asked: answers, embeddings, and
    scores of how well texts fit a query.
    """

    path: str
    name: str
    architecture: str
    device: str
    device_name: str
    n_ctx: int
    n_ctx_train: int
    n_vocab: int
    chat: str
    notes: list[str] = []
    details: list[str] = []
    vision: Vision | None = None
    prepared: int = 0
    general: dict[str, str | int | float | bool] = {}
    fills: bool = False
    cost: LoadCost | None = None
    adapters: list[LoraAdapter] = []
    gives: tuple[Gives, ...] = ("text",)


class Load(Request[Loaded], frozen=True):
    """Open a model; the one before is closed first. One that gives embeddings or scores alone is
    refused unless it `embeds`: nothing else could be asked of it.
    """

    path: str
    options: EngineOptions
    embeds: bool = False


class AdapterTable(Reply, frozen=True):
    """The adapters of the open model as they are now, by number."""

    adapters: list[LoraAdapter]


class ListAdapters(Request[AdapterTable], frozen=True):
    """List the open model's adapters."""

    between: ClassVar[bool] = True


class ScaleAdapters(Request[AdapterTable], frozen=True):
    """Scale the open model's adapters, all of them in order; 0 turns one off. What sequences have
    read with other scales is not continued.
    """

    scales: list[float]


class Unloaded(Reply, frozen=True):
    """No model is open any more."""


class Unload(Request[Unloaded], frozen=True):
    """Close the model."""


class PrefixesSaved(Reply, frozen=True):
    """The prefixes of sequences are on the disk, or why not: `problem`."""

    problem: str = ""


class SavePrefixes(Request[PrefixesSaved], frozen=True):
    """Write for a moment at most what sequences have read, of what may be kept. Without being asked
    the engine does it while it has nothing to do.
    """

    between: ClassVar[bool] = True


class ChatForgotten(Reply, frozen=True):
    """Nothing is kept of the chat any more."""


class ForgetChat(Request[ChatForgotten], frozen=True):
    """Delete what is kept of a chat, which was deleted; `chat` is as in `Generate`."""

    between: ClassVar[bool] = True

    chat: str


class Prepared(Reply, frozen=True):
    """The open model's weights lie in a file as devices want them, or why not: `problem`; `damage`
    where those that it computes with were read from a file that proved damaged.
    """

    problem: str = ""
    damage: str = ""


class Prepare(Request[Prepared], frozen=True):
    """Write that file now. Without being asked the engine does it while it has nothing to do."""
