"""Contents of a file as plain data, for `cutaway inspect --json`."""

from collections import defaultdict
from math import isfinite
from typing import Any

import numpy as np

from engine.gguf.metadata import MetadataEntry
from engine.gguf.reader import GGUFFile
from engine.gguf.tensors import TensorInfo
from engine.gguf.values import Array, ValueType

FIRST = 8  # values shown of an array
LONGEST = 1 << 20  # bytes shown of a string


def summarize(file: GGUFFile) -> dict[str, Any]:
    """A dict that `json` can write.

    Sizes and offsets are in bytes, shapes in ggml's order. An array of the metadata is its element
    type, count and first values. Floats that JSON does not know are strings.
    """
    tensors = list(file.tensors.values())
    return {
        "path": str(file.paths[0]),
        "files": [str(path) for path in file.paths],
        "version": file.version,
        "byteorder": file.byteorder,
        "alignment": file.alignment,
        "size": file.size,
        "architecture": file.metadata.get("general.architecture", str, None),
        "parameters": sum(tensor.elements for tensor in tensors),
        "types": _types(tensors),
        "metadata": {key: _entry(file.metadata[key]) for key in file.metadata},
        "tensors": [_tensor(tensor) for tensor in tensors],
    }


def _types(tensors: list[TensorInfo]) -> dict[str, dict[str, int]]:
    types: dict[str, dict[str, int]] = defaultdict(lambda: {"tensors": 0, "bytes": 0})
    for tensor in tensors:
        types[tensor.fmt.name]["tensors"] += 1
        types[tensor.fmt.name]["bytes"] += tensor.nbytes
    return dict(sorted(types.items(), key=lambda item: -item[1]["bytes"]))


def _tensor(tensor: TensorInfo) -> dict[str, Any]:
    return {
        "name": tensor.name,
        "type": tensor.fmt.name,
        "shape": list(tensor.shape[: tensor.n_dims]),
        "bytes": tensor.nbytes,
        "file": tensor.file,
        "offset": tensor.offset,
    }


def _entry(entry: MetadataEntry) -> Any:
    if isinstance(entry.raw, memoryview):
        return str(entry.raw[:LONGEST], "utf-8", "replace")
    return _value(entry.raw, entry.type)


def _value(value: Any, type: ValueType) -> Any:
    if isinstance(value, Array):
        first = [_value(item, value.type) for item in value[:FIRST]]
        return {"type": str(value.type), "count": len(value), "first": first}
    if not isinstance(value, float):
        return value
    if not isfinite(value):
        return str(value)
    # The shortest number that means the same: 1e-06 for what is 9.999999974752427e-07 as a double.
    return float(str(np.float32(value))) if type == ValueType.FLOAT32 else value
