"""Texts become vectors."""

from typing import ClassVar

from engine.protocol.message import Reply, Request, StageName


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
