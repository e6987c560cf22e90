"""GGUF files of a published size: a whole header, and data that is a hole.

    python -m tests.engine.models.published.header FOLDER [NAME ...]

writes those of sizes.py, to be opened with `cutaway plan`. They take no room on the disk.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path

from engine.gguf.values import ValueType
from tests.gguf_files import Blocks, Draft, Pair, padded

F32, F16 = 0, 1
BYTES = {F32: 4, F16: 2}

Shapes = Mapping[str, Sequence[int]]
Value = int | float | bool | str | list[int] | list[bool]


def pair(value: Value) -> Pair:
    if isinstance(value, list):
        kind = ValueType.BOOL if isinstance(value[0], bool) else ValueType.INT32
        return ValueType.ARRAY, (kind, value)
    for kind, type in (
        (bool, ValueType.BOOL),
        (int, ValueType.UINT32),
        (float, ValueType.FLOAT32),
    ):
        if isinstance(value, kind):
            return type, value
    return ValueType.STRING, value


def type_of(name: str, shape: Sequence[int]) -> int:
    """Matrices in halves; vectors, biases, routers and what convolves in floats."""
    kept = len(shape) == 1 or name.endswith(".bias")
    kept |= "ssm_" in name or "ffn_gate_inp" in name or "shortconv.conv" in name
    big = "ssm_in" in name or "ssm_out" in name
    return F16 if big or not kept else F32


def nbytes(shapes: Shapes) -> int:
    return sum(prod(shape) * BYTES[type_of(name, shape)] for name, shape in shapes.items())


def write(path: Path, arch: str, keys: Mapping[str, Value], shapes: Shapes, n_vocab: int) -> Path:
    """A file of that architecture, with `n_vocab` words."""
    pairs: dict[str, Pair] = {"general.architecture": pair(arch), "general.name": pair(path.stem)}
    pairs |= {f"{arch}.{key}": pair(value) for key, value in keys.items()}
    words = [f"w{i}" for i in range(n_vocab)]
    pairs["tokenizer.ggml.model"] = pair("gpt2")
    pairs["tokenizer.ggml.pre"] = pair("qwen2")
    pairs["tokenizer.ggml.tokens"] = (ValueType.ARRAY, (ValueType.STRING, words))
    pairs["tokenizer.ggml.merges"] = (ValueType.ARRAY, (ValueType.STRING, ["w 0"]))
    tensors, offsets, end = {}, {}, 0
    for name, shape in shapes.items():
        type = type_of(name, shape)
        tensors[name] = Blocks(type, shape, b"")
        offsets[name] = end
        end += padded(prod(shape) * BYTES[type], 32)
    header = Draft(pairs, tensors, offsets=offsets).header()
    path.write_bytes(header)
    os.truncate(path, padded(len(header), 32) + end)
    return path


def main() -> None:
    from tests.engine.models.published.sizes import SIZES

    folder, *names = sys.argv[1:]
    for name, size in SIZES.items():
        if not names or name in names:
            print(write(Path(folder) / f"{name}.gguf", size.arch, size.keys, size.shapes, size.v))


if __name__ == "__main__":
    main()
