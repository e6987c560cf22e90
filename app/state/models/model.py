"""The file of the open model: its metadata, tensors and tokenizer, and how another differs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from PySide6.QtCore import QObject, Signal

from app.client import EngineClient, Latest
from app.language import tr
from app.remote.connection import address_of
from engine.protocol import (
    ArrayValues,
    Failed,
    FileContent,
    MetaRow,
    ReadArray,
    ReadFile,
    TensorRow,
    Tokenize,
    Tokenized,
    TokenRow,
)


@dataclass(frozen=True)
class Difference:
    """A key or tensor that is only in one file, or not the same in both."""

    kind: Literal["key", "tensor"]
    name: str
    where: Literal["only A", "only B", "changed"]
    a: str
    b: str


class ModelState(QObject):
    """The contents of a model's file, if it can be read from here.

    `array` holds the values of the array `array_key`, once they are there.
    """

    changed = Signal()  # content, looking or problem
    array_changed = Signal()
    tokens_changed = Signal()
    difference_changed = Signal()

    def __init__(self, client: EngineClient, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._client = client
        self.path: Path | None = None
        self.content: FileContent | None = None
        self.looking = False
        self.problem = ""
        self.array: Sequence[str] = ()
        self.array_key = ""
        self.tokens: Sequence[TokenRow] = ()
        self.tokens_problem = ""
        self.other: FileContent | None = None
        self.differences: list[Difference] = []
        self.difference_problem = ""
        self._content, self._array = Latest(client), Latest(client)
        self._tokens, self._other = Latest(client), Latest(client)

    def open(self, path: Path | None) -> None:
        """Read a file; nothing where it is read already."""
        if path == self.path:
            return
        self.close()
        self.path, self.content, self.problem = path, None, ""
        self.array, self.array_key = (), ""
        self.tokens, self.tokens_problem = (), ""
        self.other, self.differences, self.difference_problem = None, [], ""
        address = address_of(path) if path is not None else None
        if address is not None:
            where = address.connection
            self.problem = tr(
                "The model is on the server {where}: its file cannot be read from here.",
                where=where,
            )
        self.looking = path is not None and address is None and self._client.abilities.file
        if self.looking:
            self._content.send(ReadFile(0, str(path)), self._read, self._read_failed)
        self.changed.emit()
        self.tokens_changed.emit()
        self.difference_changed.emit()

    def read_array(self, key: str) -> None:
        """`array` of a key of the open file."""
        self.array, self.array_key = (), key
        request = ReadArray(0, str(self.path), key)
        self._array.send(request, self._array_read, self._array_failed)

    def tokenize(self, text: str) -> None:
        """`tokens` of a text."""
        if self.path is not None and self._client.abilities.tokenize:
            request = Tokenize(0, str(self.path), text)
            self._tokens.send(request, self._tokenized, self._tokenize_failed)

    def compare(self, path: Path) -> None:
        """`differences` between the open file (A) and another (B)."""
        if self.content is not None:
            self._other.send(ReadFile(0, str(path)), self._compared, self._compare_failed)

    def close(self) -> None:
        """Let go of what is under way."""
        for latest in (self._content, self._array, self._tokens, self._other):
            latest.forget()

    def _read(self, content: FileContent) -> None:
        self.content, self.looking = content, False
        self.changed.emit()

    def _read_failed(self, failed: Failed) -> None:
        self.problem, self.looking = failed.message, False
        self.changed.emit()

    def _array_read(self, read: ArrayValues) -> None:
        self.array = read.values
        self.array_changed.emit()

    def _array_failed(self, failed: Failed) -> None:
        self.problem = failed.message
        self.changed.emit()

    def _tokenized(self, made: Tokenized) -> None:
        self.tokens, self.tokens_problem = made.tokens, ""
        self.tokens_changed.emit()

    def _tokenize_failed(self, failed: Failed) -> None:
        self.tokens, self.tokens_problem = (), failed.message
        self.tokens_changed.emit()

    def _compared(self, other: FileContent) -> None:
        assert self.content is not None
        self.other, self.differences = other, compare(self.content, other)
        self.difference_problem = ""
        self.difference_changed.emit()

    def _compare_failed(self, failed: Failed) -> None:
        self.other, self.differences, self.difference_problem = None, [], failed.message
        self.difference_changed.emit()


def compare(a: FileContent, b: FileContent) -> list[Difference]:
    """Keys, then tensors, in the order of `a`, then what only `b` has. Weights are not read."""
    keys_a = {row.key: row for row in a.metadata}
    keys_b = {row.key: row for row in b.metadata}
    tensors_a = {t.name: tensor_text(t) for t in a.tensors}
    tensors_b = {t.name: tensor_text(t) for t in b.tensors}
    found = []
    for key in dict.fromkeys([*keys_a, *keys_b]):
        row_a, row_b = keys_a.get(key), keys_b.get(key)
        if row_a != row_b:
            found.append(_difference("key", key, _value(row_a), _value(row_b)))
    for name in dict.fromkeys([*tensors_a, *tensors_b]):
        text_a, text_b = tensors_a.get(name), tensors_b.get(name)
        if text_a != text_b:
            found.append(_difference("tensor", name, text_a, text_b))
    return found


def tensor_text(tensor: TensorRow) -> str:
    """Type and shape, ggml's order."""
    return f"{tensor.type} [{shape_text(tensor.shape)}]"


def shape_text(shape: Sequence[int]) -> str:
    return " × ".join(map(str, shape))


def _value(row: MetaRow | None) -> str | None:
    return row.value if row is not None else None


def _difference(
    kind: Literal["key", "tensor"], name: str, a: str | None, b: str | None
) -> Difference:
    where: Literal["only A", "only B", "changed"] = "changed"
    if a is None or b is None:
        where = "only B" if a is None else "only A"
    return Difference(kind, name, where, a or "", b or "")
