"""A step on a device against the host, and the steps of two texts against each other."""

from typing import ClassVar, Literal

import msgspec

from engine.protocol.inside.edit import Edit
from engine.protocol.message import Reply, Request, StageName
from engine.protocol.talk.chat import ChatMessage, Tools

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
    """Compare the open model with the host on the beginning of a text or a chat. One context, that
    of the only slot if there is one, forgets what it held: the next answer reads its prompt anew.
    """

    stage: ClassVar[StageName] = "score"
    in_parts: ClassVar[bool] = True

    messages: list[ChatMessage] = []
    prompt: str | None = None


class ComparedText(msgspec.Struct, frozen=True):
    """A text, or a chat, whose last tokens are compared, as the model with these edits reads it.
    `prefix` is an answer's text so far, `prefix_tokens` its ids where they are known.
    """

    messages: list[ChatMessage] = []
    prompt: str | None = None
    edits: list[Edit] = []
    prefix: str = ""
    prefix_tokens: list[int] = []
    tools: Tools = Tools()


class TokenPair(msgspec.Struct, frozen=True):
    """A token of one text and the token of another that it is compared with: their places from 0
    on, and what they say.
    """

    place: int
    other_place: int
    text: str
    other_text: str


class PairedResult(msgspec.Struct, frozen=True):
    """A result as two texts have it, row by row of tokens that are pairs.

    `error` is the NMSE, sum((b - a)^2) / sum(a^2) over all rows, and `cosine` that of all rows as
    one vector; `errors` f32 [n] and `cosines` f32 [n] are of each row. `first_pair` is the pair of
    the first of these n rows; the others follow. None and empty where its rows have other lengths.
    """

    name: str
    occurrence: int
    layer: int | None
    device: str
    first_pair: int
    error: float | None
    cosine: float | None
    errors: bytes
    cosines: bytes


class TextsCompared(Reply, frozen=True):
    """All results that both texts' last steps left, in the graph's order. `first` is the first of
    which a row is other by more than rounding makes it, None where none is.
    """

    rows: list[PairedResult]
    first: int | None
    pairs: list[TokenPair]


class CompareTexts(Request[TextsCompared], frozen=True):
    """Compare what the open model computes for the last tokens of one text with what it computes
    for those of another.

    Tokens are pairs from the start on as long as both texts are the same; of the rest the last is
    the pair of the last, and so on backwards. Of the result that `numbers` names by name and
    occurrence both texts' rows of pairs come before the reply as `ResultPart` of the steps 0 and 1,
    [row length, pairs]. One context forgets what it held, as for `Compare`.
    """

    stage: ClassVar[StageName] = "score"
    in_parts: ClassVar[bool] = True

    text: ComparedText
    other: ComparedText
    numbers: tuple[str, int] | None = None
