"""The summary that `cutaway inspect --json` prints."""

import json

import numpy as np

from engine.gguf import open_gguf
from engine.gguf.summary import summarize
from engine.gguf.values import ValueType as V
from tests.gguf_files import Blocks, Draft, split

PAIRS = {
    "general.architecture": (V.STRING, "toy"),
    "toy.eps": (V.FLOAT32, 1e-6),
    "toy.odd": (V.FLOAT64, float("nan")),
    "toy.scores": (V.ARRAY, (V.FLOAT32, [0.1] * 20)),
    "toy.words": (V.ARRAY, (V.STRING, ["a", b"\xff"])),
    "toy.nested": (V.ARRAY, (V.ARRAY, [(V.INT8, [1])])),
    "toy.long": (V.STRING, "x" * (3 << 20)),
}
TENSORS = {
    "a": Blocks(0, (4, 2), bytes(32)),
    "b": Blocks(2, (64, 3), bytes(108)),
    "c": Blocks(0, (8,), bytes(32)),
}


def summary_of(path):
    with open_gguf(path) as file:
        return json.loads(json.dumps(summarize(file), allow_nan=False))


def test_summary(tmp_path):
    path = Draft(PAIRS, TENSORS).write(tmp_path / "toy.gguf")
    summary = summary_of(path)
    metadata, tensors = summary.pop("metadata"), summary.pop("tensors")
    assert summary == {
        "path": str(path),
        "files": [str(path)],
        "version": 3,
        "byteorder": "little",
        "alignment": 32,
        "size": path.stat().st_size,
        "architecture": "toy",
        "parameters": 8 + 192 + 8,
        "types": {"Q4_0": {"tensors": 1, "bytes": 108}, "F32": {"tensors": 2, "bytes": 64}},
    }
    assert metadata["toy.eps"] == 1e-6
    assert metadata["toy.odd"] == "nan"
    assert metadata["toy.scores"] == {"type": "float32", "count": 20, "first": [0.1] * 8}
    assert metadata["toy.words"] == {"type": "string", "count": 2, "first": ["a", "\ufffd"]}
    inner = {"type": "int8", "count": 1, "first": [1]}
    assert metadata["toy.nested"] == {"type": "array", "count": 1, "first": [inner]}
    assert len(metadata["toy.long"]) == 1 << 20
    start = tensors[0]["offset"]
    assert start % 32 == 0
    assert tensors == [
        {"name": "a", "type": "F32", "shape": [4, 2], "bytes": 32, "file": 0, "offset": start},
        {"name": "b", "type": "Q4_0", "shape": [64, 3], "bytes": 108, "file": 0}
        | {"offset": start + 32},
        {"name": "c", "type": "F32", "shape": [8], "bytes": 32, "file": 0, "offset": start + 160},
    ]


def test_a_split_file_names_its_parts(tmp_path):
    paths = split(Draft(PAIRS, TENSORS), tmp_path / "toy.gguf", 2)
    summary = summary_of(paths[1])
    assert summary["files"] == [str(path) for path in paths]
    assert [tensor["file"] for tensor in summary["tensors"]] == [0, 1, 1]


def test_a_file_without_architecture(tmp_path):
    summary = summary_of(Draft().write(tmp_path / "x.gguf"))
    assert (summary["architecture"], summary["parameters"]) == (None, 0)


def test_floats_are_the_shortest_that_mean_the_same(tmp_path):
    pairs = {"f": (V.FLOAT32, 10000.1), "d": (V.FLOAT64, 10000.1)}
    metadata = summary_of(Draft(pairs).write(tmp_path / "x.gguf"))["metadata"]
    assert metadata == {"f": 10000.1, "d": 10000.1}
    assert np.float32(metadata["f"]) == np.float32(10000.1)
