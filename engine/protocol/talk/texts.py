"""Tokens, text and vectors from each other; and the table of concurrent answers (slots)."""

from typing import ClassVar

import msgspec

from engine.protocol.message import Reply, Request, StageName


class EncodedText(Reply, frozen=True):
    """A text's tokens, and the bytes of each."""

    tokens: list[int]
    pieces: list[bytes]


class EncodeText(Request[EncodedText], frozen=True):
    """A text as tokens of the open model; `special` has BOS and EOS added where the model adds
    them, `marks` reads the texts of control tokens as these tokens.
    """

    beside: ClassVar[bool] = True

    text: str
    special: bool = False
    marks: bool = True


class DecodedText(Reply, frozen=True):
    """The text of tokens."""

    text: str


class DecodeTokens(Request[DecodedText], frozen=True):
    """Tokens of the open model as text, with the texts of control tokens. Raises `BadSetting` for
    one that it does not have.
    """

    beside: ClassVar[bool] = True

    tokens: list[int]


class Embedded(Reply, frozen=True):
    """`vectors` f32 [texts, width] as little-endian bytes; how many tokens each text has."""

    width: int
    vectors: bytes
    n_tokens: list[int]


class Embed(Request[Embedded], frozen=True):
    """The embedding of each text, pooled as the model's file says and of length 1 if `normalized`.

    `width` keeps only the first numbers of each, for models that were trained to be cut so.
    """

    stage: ClassVar[StageName] = "embed"
    in_parts: ClassVar[bool] = True

    texts: list[str]
    width: int | None = None
    normalized: bool = True


class Ranked(Reply, frozen=True):
    """How well each text fits, more is better, and its tokens, those of the query included."""

    scores: list[float]
    n_tokens: list[int]

    def best(self, most: int | None = None) -> list[int]:
        """Indices of the texts, the best first; at most so many."""
        return sorted(range(len(self.scores)), key=lambda i: -self.scores[i])[:most]


class Rank(Request[Ranked], frozen=True):
    """How well each text fits the query, by the head of a reranker's file: probabilities or any
    numbers, as it was trained.
    """

    stage: ClassVar[StageName] = "rank"
    in_parts: ClassVar[bool] = True

    query: str
    texts: list[str]


class SlotRow(msgspec.Struct, frozen=True):
    """One of the sequences that can be answered at once. `request` is 0 where it waits for one;
    `n_tokens` are in the cache, `n_prompt` of the prompt, of which `n_read` are computed.
    """

    number: int
    request: int
    n_tokens: int
    n_prompt: int = 0
    n_read: int = 0
    n_generated: int = 0


class SlotTable(Reply, frozen=True):
    """The slots, how many requests wait for one, and the cells that hold every token. Where there
    are several slots it goes to everybody with id 0 as they change, at most ten times a second.
    """

    slots: list[SlotRow]
    n_waiting: int
    n_cells: int
    n_free: int


class ListSlots(Request[SlotTable], frozen=True):
    """Who is answered now."""

    between: ClassVar[bool] = True
