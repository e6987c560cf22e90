"""The file of the open model: its metadata, tensors and tokenizer, and how another differs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Literal

import numpy as np
from PySide6.QtCore import QObject, Signal

from app.work import Work
from engine.gguf import open_gguf
from engine.gguf.metadata import Entry
from engine.gguf.reader import GGUFFile
from engine.gguf.tensors import TensorInfo
from engine.gguf.values import Array, ValueType
from engine.tokenizer import Tokenizer, load_tokenizer

FIRST = 8  # values shown of an array
LONGEST = 2000  # characters shown of a string


@dataclass(frozen=True)
class MetaRow:
    """A pair. `array` has all values of an array, detached from the file."""

    key: str
    type: str
    value: str
    array: Array | None = None


@dataclass(frozen=True)
class FileContent:
    """What a file says of itself; sizes in bytes. `types` maps a format to tensors and bytes."""

    path: Path
    architecture: str
    name: str
    version: int
    size: int
    parameters: int
    types: dict[str, tuple[int, int]]
    metadata: tuple[MetaRow, ...]
    tensors: tuple[TensorInfo, ...]


@dataclass(frozen=True)
class TokenRow:
    """A token of the playground; `text` shows bytes that are no text as `\\x..`."""

    token: int
    text: str
    special: bool


@dataclass(frozen=True)
class Difference:
    """A key or tensor that is only in one file, or not the same in both."""

    kind: Literal["key", "tensor"]
    name: str
    where: Literal["only A", "only B", "changed"]
    a: str
    b: str


class ModelState(QObject):
    """Reads files in the background; nothing stays mapped, since a mapped file that shrinks would
    end the process.
    """

    changed = Signal()  # content, looking or problem
    tokens_changed = Signal()
    difference_changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.path: Path | None = None
        self.content: FileContent | None = None
        self.looking = False
        self.problem = ""
        self.tokens: list[TokenRow] = []
        self.tokens_problem = ""
        self.other: FileContent | None = None
        self.differences: list[Difference] = []
        self.difference_problem = ""
        self._tokenizer: Tokenizer | None = None
        self._jobs: dict[str, Work] = {}

    def open(self, path: Path | None) -> None:
        """Read a file; nothing where it is read already."""
        if path == self.path:
            return
        self.path, self.content, self.problem, self._tokenizer = path, None, "", None
        self.tokens, self.tokens_problem = [], ""
        self.other, self.differences, self.difference_problem = None, [], ""
        self.looking = path is not None
        if path is not None:
            self._start("read", Work(read_content, path), self._read, self._read_failed)
        self.changed.emit()
        self.tokens_changed.emit()
        self.difference_changed.emit()

    def tokenize(self, text: str) -> None:
        """`tokens` of a text."""
        if self.path is not None:
            work = Work(tokenize, self._tokenizer, self.path, text)
            self._start("tokenize", work, self._tokenized, self._tokenize_failed)

    def compare(self, path: Path) -> None:
        """`differences` between the open file (A) and another (B)."""
        if self.content is not None:
            work = Work(read_and_compare, self.content, path)
            self._start("compare", work, self._compared, self._compare_failed)

    def close(self) -> None:
        """Let go of what is under way."""
        for job in self._jobs.values():
            job.cancel()

    def _start(self, name: str, work: Work, done: object, failed: object) -> None:
        if name in self._jobs:
            self._jobs[name].cancel()
        assert callable(done)
        assert callable(failed)
        self._jobs[name] = work.then(done).fail(failed).start(self)

    def _read(self, content: FileContent) -> None:
        self.content, self.looking = content, False
        self.changed.emit()

    def _read_failed(self, problem: str) -> None:
        self.problem, self.looking = problem, False
        self.changed.emit()

    def _tokenized(self, made: tuple[Tokenizer, list[TokenRow]]) -> None:
        self._tokenizer, self.tokens = made
        self.tokens_problem = ""
        self.tokens_changed.emit()

    def _tokenize_failed(self, problem: str) -> None:
        self.tokens, self.tokens_problem = [], problem
        self.tokens_changed.emit()

    def _compared(self, made: tuple[FileContent, list[Difference]]) -> None:
        self.other, self.differences = made
        self.difference_problem = ""
        self.difference_changed.emit()

    def _compare_failed(self, problem: str) -> None:
        self.other, self.differences, self.difference_problem = None, [], problem
        self.difference_changed.emit()


def read_content(path: Path) -> FileContent:
    """Everything about a file but its weights. Raises BadFile."""
    with open_gguf(path) as file:
        metadata = file.metadata
        return FileContent(
            path,
            metadata.get("general.architecture", str, ""),
            metadata.get("general.name", str, path.stem),
            file.version,
            file.size,
            sum(tensor.elements for tensor in file.tensors.values()),
            _types(file),
            tuple(_meta(key, metadata[key]) for key in metadata),
            tuple(file.tensors.values()),
        )


def tokenize(
    tokenizer: Tokenizer | None, path: Path, text: str
) -> tuple[Tokenizer, list[TokenRow]]:
    """The tokens of a text, with the tokenizer for the next time."""
    if tokenizer is None:
        with open_gguf(path) as file:
            tokenizer = load_tokenizer(file.metadata)
    rows = []
    for token in tokenizer.encode(text):
        plain = tokenizer.piece(token)
        whole = tokenizer.piece(token, special=True)
        rows.append(TokenRow(token, whole.decode("utf-8", "backslashreplace"), not plain))
    return tokenizer, rows


def read_and_compare(a: FileContent, path: Path) -> tuple[FileContent, list[Difference]]:
    """Another file's content, and where it differs from `a`."""
    b = read_content(path)
    return b, compare(a, b)


def compare(a: FileContent, b: FileContent) -> list[Difference]:
    """Keys, then tensors, in the order of `a`, then what only `b` has. Weights are not read."""
    keys_a = {row.key: row for row in a.metadata}
    keys_b = {row.key: row for row in b.metadata}
    tensors_a = {t.name: tensor_text(t) for t in a.tensors}
    tensors_b = {t.name: tensor_text(t) for t in b.tensors}
    found = []
    for key in dict.fromkeys([*keys_a, *keys_b]):
        row_a, row_b = keys_a.get(key), keys_b.get(key)
        if row_a is None or row_b is None or not _same(row_a, row_b):
            texts = [row.value if row is not None else "" for row in (row_a, row_b)]
            found.append(_difference("key", key, row_a is None, row_b is None, *texts))
    for name in dict.fromkeys([*tensors_a, *tensors_b]):
        text_a, text_b = tensors_a.get(name, ""), tensors_b.get(name, "")
        if text_a != text_b:
            found.append(_difference("tensor", name, not text_a, not text_b, text_a, text_b))
    return found


def tensor_text(tensor: TensorInfo) -> str:
    """Type and shape, ggml's order."""
    return f"{tensor.fmt.name} [{shape_text(tensor.shape[: tensor.n_dims])}]"


def shape_text(shape: Sequence[int]) -> str:
    return " × ".join(map(str, shape))


def _difference(
    kind: Literal["key", "tensor"], name: str, not_a: bool, not_b: bool, a: str, b: str
) -> Difference:
    where: Literal["only A", "only B", "changed"] = "changed"
    if not_a or not_b:
        where = "only B" if not_a else "only A"
    return Difference(kind, name, where, a, b)


def _same(a: MetaRow, b: MetaRow) -> bool:
    if (a.type, a.value) != (b.type, b.value):
        return False
    return a.array is None or b.array is None or a.array.data == b.array.data


def _types(file: GGUFFile) -> dict[str, tuple[int, int]]:
    types: dict[str, tuple[int, int]] = {}
    for tensor in file.tensors.values():
        count, size = types.get(tensor.fmt.name, (0, 0))
        types[tensor.fmt.name] = (count + 1, size + tensor.nbytes)
    return dict(sorted(types.items(), key=lambda item: -item[1][1]))


def _meta(key: str, entry: Entry) -> MetaRow:
    if not isinstance(entry.raw, Array):
        return MetaRow(key, str(entry.type), value_text(entry.value, entry.type)[:LONGEST])
    array = _detached(entry.raw)
    first = ", ".join(value_text(value, array.type)[:80] for value in array[:FIRST])
    more = " …" if len(array) > FIRST else ""
    return MetaRow(key, f"{array.type} × {len(array)}", first + more, array)


def _detached(array: Array) -> Array:
    items = tuple(_detached(item) for item in array.items)
    return replace(array, data=memoryview(bytes(array.data)), items=items)


def value_text(value: object, type: ValueType) -> str:
    """A value as people write it; float32 as the shortest number that means the same."""
    if isinstance(value, Array):
        return f"{value.type} × {len(value)}"
    if isinstance(value, float) and isfinite(value):
        return str(np.float32(value)) if type == ValueType.FLOAT32 else str(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
