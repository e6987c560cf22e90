"""Results of a model's steps, as numbers."""

from typing import ClassVar

import msgspec

from engine.protocol.inside.edit import Edit
from engine.protocol.message import Reply, Request, StageName
from engine.protocol.talk.chat import ChatMessage


class ResultInfo(msgspec.Struct, frozen=True):
    """A result of one step: `dims` are ggml's, of what is real; `op` computed it on `device`.

    It is the how manyeth of its `name`, from 0; `fmt` is what the model computes it in.
    """

    name: str
    occurrence: int
    step: int
    op: str
    fmt: str
    dims: list[int]
    device: str
    layer: int | None


class ResultPart(Reply, frozen=True):
    """Elements of a result from number `start` on: f32, those of dimension 0 side by side."""

    info: ResultInfo
    start: int
    data: bytes


class DumpedStep(msgspec.Struct, frozen=True):
    """A step read these `tokens` (-1: a row of a picture), the first of them at place `first`."""

    first: int
    tokens: list[int]
    text: str


class ResultsDumped(Reply, frozen=True):
    """All that was computed: a prompt in one step or several, and each token of the answer."""

    steps: list[DumpedStep]


class DumpResults(Request[ResultsDumped], frozen=True):
    """Compute a prompt, or its ids `prompt_tokens`, in an empty context, and so many greedy
    `tokens` behind it; the results that the regular expressions `probes` name come as
    `ResultPart`, step by step. With `edits` the edited results have further ones of their own,
    `l_out_edited-3`.

    The context of the conversation is forgotten.
    """

    between: ClassVar[bool] = True

    stage: ClassVar[StageName] = "prefill"

    probes: list[str]
    messages: list[ChatMessage] = []
    prompt: str | None = None
    tokens: int = 0
    edits: list[Edit] = []
    prompt_tokens: list[int] | None = None


class CacheCells(msgspec.Struct, frozen=True):
    """The cells of one cache: `window` or `chunk` is how far its `layers` see, None for all.

    For each cell i32 [C]: `bits` of the sequences in it, 0 where it is free and more than one where
    it is shared, and its `positions`, -1 where it is free.

    Slots of recurrent states are reported alike: the position is that of the last token that the
    state has read, and `kept` i32 [C] is 1 where it is a checkpoint; empty for cells.
    """

    window: int | None
    chunk: int | None
    layers: list[int]
    bits: bytes
    positions: bytes
    kept: bytes = b""


class CellsRead(Reply, frozen=True):
    """The caches of the open model."""

    caches: list[CacheCells]


class ReadCells(Request[CellsRead], frozen=True):
    """Which cells of the caches are in use, by whom."""

    between: ClassVar[bool] = True
