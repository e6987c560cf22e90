"""A step on a device against the host: each result computed anew from what the device computed."""

from typing import ClassVar, Literal

import msgspec

from engine.protocol.chat import ChatMessage
from engine.protocol.message import Reply, Request, StageName

Phase = Literal["prefill", "decode"]


class ComparedResult(msgspec.Struct, frozen=True):
    """A result that launches of `device` make from results before it, and the host from the same.

    `error` is the NMSE, sum((x - host)^2) / sum(host^2); of a sum only what is new in it counts,
    not a result from before. `most` is what rounding allows. `problem` says what is wrong, "" if
    nothing. `ops` are the graph's operations in between, `launches` those of the device.
    """

    phase: Phase
    name: str
    occurrence: int
    layer: int | None
    device: str
    ops: list[str]
    launches: list[str]
    error: float
    most: float
    problem: str


class Compared(Reply, frozen=True):
    """All results of a step of `n_tokens` tokens and of one token behind it, in the graph's order;
    `first` is the first that deviates, None where none does.
    """

    rows: list[ComparedResult]
    first: int | None
    n_tokens: int


class Compare(Request[Compared], frozen=True):
    """Compare the open model with the host on the beginning of a text or a chat. The context
    forgets what it held: the next answer reads its prompt anew.
    """

    stage: ClassVar[StageName] = "score"

    messages: list[ChatMessage] = []
    prompt: str | None = None
