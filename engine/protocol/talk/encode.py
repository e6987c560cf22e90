"""Texts as tokens of the open model, and back."""

from typing import ClassVar

from engine.protocol.message import Reply, Request


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
