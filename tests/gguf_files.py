"""GGUF files for tests: small ones from scratch, odd ones, and real ones written again.

This is a writer of its own, so that tests can break any field; it shares no code with the reader.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from engine.gguf.reader import GGUFFile, open_gguf
from engine.gguf.values import Array, ValueType

# The numbers wider than a byte in a block: (first byte, byte after the last, width).
WIDE_FIELDS: dict[str, list[tuple[int, int, int]]] = {
    "F32": [(0, 4, 4)],
    "F16": [(0, 2, 2)],
    "BF16": [(0, 2, 2)],
    "F64": [(0, 8, 8)],
    "I8": [],
    "I16": [(0, 2, 2)],
    "I32": [(0, 4, 4)],
    "I64": [(0, 8, 8)],
    "Q4_0": [(0, 2, 2)],
    "Q4_1": [(0, 4, 2)],
    "Q5_0": [(0, 2, 2), (2, 6, 4)],
    "Q5_1": [(0, 4, 2), (4, 8, 4)],
    "Q8_0": [(0, 2, 2)],
    "Q8_1": [(0, 4, 2)],
    "Q1_0": [(0, 2, 2)],
    "Q2_0": [(0, 2, 2)],
    "Q2_K": [(80, 84, 2)],
    "Q3_K": [(108, 110, 2)],
    "Q4_K": [(0, 4, 2)],
    "Q5_K": [(0, 4, 2)],
    "Q6_K": [(208, 210, 2)],
    "Q8_K": [(0, 4, 4), (260, 292, 2)],
    "IQ1_S": [(0, 2, 2), (34, 50, 2)],
    "IQ1_M": [(48, 56, 2)],
    "IQ2_XXS": [(0, 2, 2), (2, 66, 4)],
    "IQ2_XS": [(0, 2, 2), (2, 66, 2)],
    "IQ2_S": [(0, 2, 2)],
    "IQ3_XXS": [(0, 2, 2), (66, 98, 4)],
    "IQ3_S": [(0, 2, 2)],
    "IQ4_NL": [(0, 2, 2)],
    "IQ4_XS": [(0, 4, 2)],
    "TQ1_0": [(52, 54, 2)],
    "TQ2_0": [(64, 66, 2)],
    "MXFP4": [],
    "NVFP4": [],
}

Pair = tuple[ValueType, Any]  # for arrays the value is (element type, list of values)
CODES = ["B", "b", "H", "h", "I", "i", "f", "?", "s", "a", "Q", "q", "d"]


@dataclass(frozen=True)
class Blocks:
    """A tensor to write: ggml type, dimensions (dim 0 fastest) and little-endian data."""

    type_id: int
    dims: Sequence[int]
    data: bytes
    wide: Sequence[tuple[int, int, int]] = ()
    block_bytes: int = 1


@dataclass
class Draft:
    """A file to write. The `claimed` counts and `offsets` default to the truth."""

    pairs: dict[str, Pair] = field(default_factory=dict)
    tensors: dict[str, Blocks] = field(default_factory=dict)
    order: str = "<"
    version: int = 3
    alignment: int = 32
    claimed_pairs: int | None = None
    claimed_tensors: int | None = None
    offsets: dict[str, int] = field(default_factory=dict)

    def header(self) -> bytes:
        """Everything up to the padding before the data."""
        n_pairs = len(self.pairs) if self.claimed_pairs is None else self.claimed_pairs
        n_tensors = len(self.tensors) if self.claimed_tensors is None else self.claimed_tensors
        out = [b"GGUF", struct.pack(self.order + "IQQ", self.version, n_tensors, n_pairs)]
        for key, (type, value) in self.pairs.items():
            out += [string(key, self.order), struct.pack(self.order + "I", type)]
            out.append(encode(type, value, self.order))
        offset = 0
        for name, blocks in self.tensors.items():
            at = self.offsets.get(name, offset)
            n, kind = len(blocks.dims), blocks.type_id
            rest = struct.pack(f"{self.order}I{n}QIQ", n, *blocks.dims, kind, at)
            out += [string(name, self.order), rest]
            offset += padded(len(blocks.data), self.alignment)
        return b"".join(out)

    def encoded(self) -> Iterable[bytes]:
        """The file, piece by piece."""
        header = self.header()
        yield header + bytes(padded(len(header), self.alignment) - len(header))
        for blocks in self.tensors.values():
            yield swapped(blocks) if self.order == ">" else blocks.data
            yield bytes(padded(len(blocks.data), self.alignment) - len(blocks.data))

    def write(self, path: Path) -> Path:
        """Writes the file and returns `path`."""
        with path.open("wb") as file:
            file.writelines(self.encoded())
        return path


def padded(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


def string(text: str | bytes, order: str) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack(order + "Q", len(raw)) + raw


def encode(type: ValueType, value: Any, order: str) -> bytes:
    """One value as a file has it."""
    if type == ValueType.STRING:
        return string(value, order)
    if type == ValueType.ARRAY:
        element, items = value
        head = struct.pack(order + "IQ", element, len(items))
        if element in (ValueType.STRING, ValueType.ARRAY):
            return head + b"".join(encode(element, item, order) for item in items)
        return head + struct.pack(f"{order}{len(items)}{CODES[element]}", *items)
    return struct.pack(order + CODES[type], value)


def swapped(blocks: Blocks) -> bytes:
    """The data with each wide number of each block reversed, byte by byte."""
    data, out, size = blocks.data, bytearray(blocks.data), blocks.block_bytes
    for first, last, width in blocks.wide:
        for at in range(first, last, width):
            for i in range(width):
                out[at + i :: size] = data[at + width - 1 - i :: size]
    return bytes(out)


def drafted(file: GGUFFile) -> Draft:
    """An open file as a draft."""
    pairs = {key: _pair(file.metadata[key].type, file.metadata[key].raw) for key in file.metadata}
    tensors = {
        name: Blocks(
            t.fmt.id,
            t.shape[: t.n_dims],
            file.data(name).tobytes(),
            WIDE_FIELDS[t.fmt.name],
            t.fmt.bytes,
        )
        for name, t in file.tensors.items()
    }
    return Draft(pairs, tensors, alignment=file.alignment)


def _pair(type: ValueType, raw: Any) -> Pair:
    if isinstance(raw, Array):
        if raw.type == ValueType.STRING:
            data, bounds = raw.joined()
            return type, (raw.type, [data[a:b] for a, b in pairwise(bounds.tolist())])
        if raw.type == ValueType.ARRAY:
            return type, (raw.type, [_pair(type, item)[1] for item in raw])
        return type, (raw.type, raw.numpy().tolist())
    return type, bytes(raw) if type == ValueType.STRING else raw


def rewrite(
    src: Path,
    dst: Path,
    byteorder: Literal["little", "big"] = "little",
    version: int = 3,
    splits: int = 1,
) -> list[Path]:
    """The model at `src` written again at `dst`; returns the paths, in order.

    With `splits` the parts are named after `dst`, whose own name is then not used.
    """
    with open_gguf(src) as file:
        draft = drafted(file)
    draft.order, draft.version = ">" if byteorder == "big" else "<", version
    return split(draft, dst, splits) if splits > 1 else [draft.write(dst)]


def split(draft: Draft, dst: Path, count: int) -> list[Path]:
    """Writes `draft` in `count` parts as gguf-split does: all metadata in the first."""
    names = list(draft.tensors)
    paths = []
    for i in range(count):
        mine = names[i * len(names) // count : (i + 1) * len(names) // count]
        part = Draft(
            pairs=(draft.pairs if i == 0 else {}) | split_keys(i, count, len(names)),
            tensors={name: draft.tensors[name] for name in mine},
            order=draft.order,
            version=draft.version,
            alignment=draft.alignment if i == 0 else 32,
        )
        paths.append(part.write(dst.with_name(f"{dst.stem}-{i + 1:05}-of-{count:05}.gguf")))
    return paths


def split_keys(number: int, count: int, tensors: int) -> Mapping[str, Pair]:
    return {
        "split.no": (ValueType.UINT16, number),
        "split.count": (ValueType.UINT16, count),
        "split.tensors.count": (ValueType.INT32, tensors),
    }


def in_memory(path: Path, process: int | str = "self") -> int:
    """Bytes of a mapped file that are in a process's memory, by Linux's word."""
    found, inside = 0, False
    for line in Path(f"/proc/{process}/smaps").read_text("utf-8").splitlines():
        if "-" in line.split(" ")[0]:
            inside = line.endswith(str(path))
        elif inside and line.startswith("Rss:"):
            found += int(line.split()[1]) << 10
    return found
