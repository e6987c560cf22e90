"""A model file's content, and texts as its tokens: no model need be open."""

import msgspec

from engine.protocol.message import Reply, Request


class MetaRow(msgspec.Struct, frozen=True):
    """A pair as text. Of an array `value` shows the first values, `count` how many there are, and
    `digest` distinguishes two arrays; `count` None is no array.
    """

    key: str
    type: str
    value: str
    count: int | None = None
    digest: str = ""


class TensorRow(msgspec.Struct, frozen=True):
    """A tensor. `shape` is in ggml's order; `offset` counts bytes in part `file` of the model."""

    name: str
    type: str
    shape: tuple[int, ...]
    elements: int
    size: int
    file: int
    offset: int


class FileContent(Reply, frozen=True):
    """All but the weights; sizes in bytes. `types` maps a format to tensors and bytes."""

    path: str
    architecture: str
    name: str
    version: int
    size: int
    parameters: int
    types: dict[str, tuple[int, int]]
    metadata: tuple[MetaRow, ...]
    tensors: tuple[TensorRow, ...]


class ReadFile(Request[FileContent], frozen=True):
    """Read a model's metadata and the list of its tensors."""

    path: str


class ArrayValues(Reply, frozen=True):
    """Every value of an array, as text."""

    values: tuple[str, ...]


class ReadArray(Request[ArrayValues], frozen=True):
    """Read an array of a model's metadata."""

    path: str
    key: str


class TokenRow(msgspec.Struct, frozen=True):
    """A token of a text; `text` shows bytes that are no text as `\\x..`."""

    token: int
    text: str
    special: bool


class Tokenized(Reply, frozen=True):
    """A text as tokens."""

    tokens: tuple[TokenRow, ...]


class Tokenize(Request[Tokenized], frozen=True):
    """Make a text tokens as the model's tokenizer does, with BOS and EOS where it adds them."""

    path: str
    text: str


class TokenCount(Reply, frozen=True):
    """How many tokens a text has."""

    count: int


class CountTokens(Request[TokenCount], frozen=True):
    """Count the tokens of a text, without BOS and EOS."""

    path: str
    text: str
