"""Answers requests about models' files, from this machine's disk.

Nothing stays mapped, since a mapped file that shrinks would end the process.
"""

from collections.abc import Callable, Iterator
from hashlib import blake2b
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from engine.errors import BadSetting, CutawayError
from engine.gguf import open_gguf
from engine.gguf.metadata import MetadataEntry
from engine.gguf.reader import GGUFFile
from engine.gguf.tensors import TensorInfo
from engine.gguf.values import Array, ValueType
from engine.protocol import (
    ArrayValues,
    CountTokens,
    Failed,
    FileContent,
    MetaRow,
    ReadArray,
    ReadFile,
    Reply,
    Request,
    TensorRow,
    TokenCount,
    Tokenize,
    Tokenized,
    TokenRow,
)
from engine.tokenizer import Tokenizer, load_tokenizer

FIRST = 8  # values shown of an array
LONGEST = 2000  # characters shown of a string


class LocalFiles:
    """Reads on request, in whatever thread; the tokenizer used last is kept."""

    def __init__(self) -> None:
        self._tokenizer: tuple[tuple[str, int, int], Tokenizer] | None = None
        self._answers: dict[type[Request[Any]], Callable[[Any], Reply]] = {
            ReadFile: _read_file,
            ReadArray: _read_array,
            Tokenize: self._tokenize,
            CountTokens: self._count,
        }

    @property
    def answers(self) -> frozenset[type[Request[Any]]]:
        """The classes of requests that it answers."""
        return frozenset(self._answers)

    def answer(self, request: Request[Any]) -> Reply:
        """Return the reply to a request; `Failed` for a file that cannot be read."""
        try:
            return self._answers[type(request)](request)
        except CutawayError as error:
            return Failed(request.id, error.kind, str(error))
        except Exception as error:  # noqa: BLE001  a bug: reported, and the window lives on
            return Failed(request.id, "Unexpected", f"unexpected {type(error).__name__}: {error}")

    def _tokenize(self, request: Tokenize) -> Tokenized:
        tokenizer = self._tokenizer_of(request.path)
        rows = []
        for token in tokenizer.encode(request.text):
            plain = tokenizer.piece(token)
            whole = tokenizer.piece(token, special=True)
            rows.append(TokenRow(token, whole.decode("utf-8", "backslashreplace"), not plain))
        return Tokenized(request.id, tuple(rows))

    def _count(self, request: CountTokens) -> TokenCount:
        ids = self._tokenizer_of(request.path).encode(request.text, add_special=False)
        return TokenCount(request.id, len(ids))

    def _tokenizer_of(self, path: str) -> Tokenizer:
        with open_gguf(path) as file:
            state = Path(path).stat()
            key = path, state.st_mtime_ns, state.st_size
            kept = self._tokenizer
            if kept is not None and kept[0] == key:
                return kept[1]
            tokenizer = load_tokenizer(file.metadata)
        self._tokenizer = key, tokenizer
        return tokenizer


def _read_file(request: ReadFile) -> FileContent:
    with open_gguf(request.path) as file:
        metadata = file.metadata
        return FileContent(
            request.id,
            request.path,
            metadata.get("general.architecture", str, ""),
            metadata.get("general.name", str, Path(request.path).stem),
            file.version,
            file.size,
            sum(tensor.elements for tensor in file.tensors.values()),
            _types(file),
            tuple(_meta(key, metadata[key]) for key in metadata),
            tuple(_tensor(tensor) for tensor in file.tensors.values()),
        )


def _read_array(request: ReadArray) -> ArrayValues:
    with open_gguf(request.path) as file:
        if request.key not in file.metadata:
            raise BadSetting("key", request.key, f"a key of {request.path}")
        array = file.metadata[request.key].raw
        if not isinstance(array, Array):
            raise BadSetting("key", request.key, "the key of an array")
        if array.type == ValueType.STRING:
            return ArrayValues(request.id, tuple(array.strings()))
        return ArrayValues(request.id, tuple(_text(value, array.type) for value in array))


def _types(file: GGUFFile) -> dict[str, tuple[int, int]]:
    types: dict[str, tuple[int, int]] = {}
    for tensor in file.tensors.values():
        count, size = types.get(tensor.fmt.name, (0, 0))
        types[tensor.fmt.name] = (count + 1, size + tensor.nbytes)
    return dict(sorted(types.items(), key=lambda item: -item[1][1]))


def _tensor(tensor: TensorInfo) -> TensorRow:
    shape = tensor.shape[: tensor.n_dims]
    place = tensor.file, tensor.offset
    return TensorRow(tensor.name, tensor.fmt.name, shape, tensor.elements, tensor.nbytes, *place)


def _meta(key: str, entry: MetadataEntry) -> MetaRow:
    array = entry.raw
    if not isinstance(array, Array):
        return MetaRow(key, str(entry.type), _text(entry.value, entry.type)[:LONGEST])
    first = ", ".join(_text(value, array.type)[:80] for value in array[:FIRST])
    more = " …" if len(array) > FIRST else ""
    digest = blake2b(digest_size=16)
    for data in _bytes(array):
        digest.update(data)
    kind = f"{array.type} × {len(array)}"
    return MetaRow(key, kind, first + more, len(array), digest.hexdigest())


def _bytes(array: Array) -> Iterator[memoryview]:
    yield memoryview(array.data)
    for item in array.items:
        yield from _bytes(item)


def _text(value: object, type: ValueType) -> str:
    """A value as people write it; float32 as the shortest number that means the same."""
    if isinstance(value, Array):
        return f"{value.type} × {len(value)}"
    if isinstance(value, float) and isfinite(value):
        return str(np.float32(value)) if type == ValueType.FLOAT32 else str(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
