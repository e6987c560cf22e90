"""Safetensors, NPZ and what is refused; each damaged header gives one line."""

import io
import json
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

from engine.arrays.lens_file import open_lens
from engine.arrays.open import open_arrays
from engine.arrays.safetensors import MOST_HEADER, SafeTensors, packed
from engine.errors import BadFile

ARRAYS = {
    "J.0": np.arange(16, dtype=np.float32).reshape(4, 4),
    "J.2": np.eye(4, dtype=np.float16),
}


def written(path: Path, header: object, data: bytes = b"", length: int | None = None) -> Path:
    """By the published format, not by our own writer."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


def entry(kind: str, shape: list[int], begin: int, end: int) -> dict[str, object]:
    return {"dtype": kind, "shape": shape, "data_offsets": [begin, end]}


def test_types_are_read_by_the_format(tmp_path: Path) -> None:
    values = np.array([[1.5, -2.0, 3.25]], np.float32)
    bits = (values.view(np.uint32) >> 16).astype("<u2")
    parts = {
        "a": ("F32", values.astype("<f4").tobytes()),
        "b": ("F16", values.astype("<f2").tobytes()),
        "c": ("BF16", bits.tobytes()),
        "d": ("F64", values.astype("<f8").tobytes()),
        "e": ("I32", np.array([[1, -2, 3]], "<i4").tobytes()),
    }
    header, at = {"__metadata__": {"n": "5"}}, 0
    for name, (kind, data) in parts.items():
        header[name] = entry(kind, [1, 3], at, at + len(data))
        at += len(data)
    path = written(tmp_path / "x.safetensors", header, b"".join(d for _, d in parts.values()))
    file = SafeTensors(path)
    assert file.metadata == {"n": "5"}
    for name in "abcd":
        np.testing.assert_array_equal(file.array(name), values)
    np.testing.assert_array_equal(file.array("e"), [[1, -2, 3]])
    assert file.shapes["a"] == (1, 3)
    with pytest.raises(BadFile, match="no array 'z'"):
        file.array("z")


def test_what_is_packed_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(packed(ARRAYS, {"format": "jacobian_lens"}))
    file = SafeTensors(path)
    for name, values in ARRAYS.items():
        np.testing.assert_array_equal(file.array(name), values.astype(np.float32))
    assert open_lens(path).layers == [0, 2]


GOOD = {"a": entry("F32", [2], 0, 8), "b": entry("F32", [1], 8, 12)}


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        ({**GOOD, "b": entry("F32", [1], 4, 8)}, "begins at byte 4"),
        ({**GOOD, "b": entry("F32", [1], 12, 16)}, "begins at byte 12|after the end"),
        ({"a": entry("F32", [2], 0, 4)}, "has 4 bytes for"),
        ({"a": entry("F32", [1 << 62, 4], 0, 8)}, "has 8 bytes for"),
        ({"a": entry("F32", [-2], 0, 8)}, "has shape"),
        ({"a": entry("F32", [2], 8, 0)}, "has offsets"),
        ({"a": entry("F8", [2], 0, 2)}, "has type 'F8'"),
        ({"a": entry("F32", [2.0], 0, 8)}, "has shape"),
        ({"a": [1]}, "not described by an object"),
        ({"__metadata__": {"a": 1}, **GOOD}, "metadata"),
        ([1], "not a JSON object"),
        (b'{"a": 1, "a": 2}', "occurs twice"),
        (b"[" * 100_000, "not valid JSON"),
        (b"\xff", "not valid JSON"),
    ],
)
def test_a_wrong_header_says_what_is_wrong(tmp_path: Path, header: object, problem: str) -> None:
    path = written(tmp_path / "x.safetensors", header, b"\0" * 12)
    with pytest.raises(BadFile, match=problem) as failed:
        SafeTensors(path)
    assert "\n" not in str(failed.value)


def test_no_bytes_lie_between_two_arrays(tmp_path: Path) -> None:
    header = {**GOOD, "b": entry("F32", [1], 12, 16)}
    with pytest.raises(BadFile, match="begins at byte 12 instead of 8"):
        SafeTensors(written(tmp_path / "x.safetensors", header, b"\0" * 16))


@pytest.mark.parametrize("length", [MOST_HEADER + 1, 1 << 40, (1 << 64) - 1])
def test_a_header_that_claims_to_be_long_is_not_read(tmp_path: Path, length: int) -> None:
    with pytest.raises(BadFile, match="longer than allowed"):
        SafeTensors(written(tmp_path / "x.safetensors", GOOD, b"\0" * 12, length))


def test_200_mutated_headers_give_one_line_each(tmp_path: Path) -> None:
    """A mutated file is read, or refused as a file; never anything else."""
    whole = packed(ARRAYS, {"format": "jacobian_lens", "d_model": "4", "n_prompts": "10"})
    rng = np.random.default_rng(5)
    end = 8 + int.from_bytes(whole[:8], "little")
    path, refused = tmp_path / "x.safetensors", list[str]()
    for _ in range(200):
        data = bytearray(whole)
        for _ in range(rng.integers(1, 4)):
            at = int(rng.integers(0, end))
            match rng.integers(0, 3):
                case 0:
                    data[at] = int(rng.integers(0, 256))
                case 1:
                    del data[at : at + int(rng.integers(1, 9))]
                case 2:
                    data[at:at] = rng.bytes(int(rng.integers(1, 9)))
        path.write_bytes(bytes(data))
        try:
            lens = open_lens(path)
            lens.apply(lens.layers[0], np.zeros(lens.d, np.float32))
        except BadFile as error:
            refused.append(str(error))
    assert len(refused) > 150
    assert all("\n" not in one and len(one) < 600 for one in refused)


class Danger:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (exec, ("raise SystemExit('ran')",))


def test_a_pickle_is_refused_and_not_run(tmp_path: Path) -> None:
    path = tmp_path / "lens.pt"
    path.write_bytes(pickle.dumps(Danger()))
    with pytest.raises(BadFile, match="pickle.*weights_only=True.*save_file"):
        open_lens(path)
    objects = tmp_path / "x.npz"
    buffer = io.BytesIO()
    np.savez(buffer, a=np.array([Danger()], object))
    objects.write_bytes(buffer.getvalue())
    with pytest.raises(BadFile, match="plain arrays"):
        open_arrays(objects)
    with pytest.raises(BadFile, match="neither"):
        open_arrays(tmp_path / "x.txt")
    (tmp_path / "y.npz").write_bytes(b"PK\x03\x04 broken")
    with pytest.raises(BadFile, match="NPZ"):
        open_arrays(tmp_path / "y.npz")


def test_a_tuned_lens_is_one_layer_off(tmp_path: Path) -> None:
    """Number i reads the input of block i, which is the output of block i - 1."""
    rng = np.random.default_rng(0)
    arrays = {f"{i}.weight": rng.standard_normal((4, 4)).astype(np.float32) for i in range(3)}
    arrays |= {f"{i}.bias": rng.standard_normal(4).astype(np.float32) for i in range(3)}
    path = tmp_path / "params.safetensors"
    path.write_bytes(packed(arrays, {}))
    lens = open_lens(path)
    assert (lens.kind, lens.layers, lens.d) == ("tuned", [0, 1], 4)
    h = rng.standard_normal(4).astype(np.float32)
    wanted = h.astype(np.float64) + arrays["2.weight"].astype(np.float64) @ h + arrays["2.bias"]
    np.testing.assert_allclose(lens.apply(1, h), wanted, rtol=1e-5)
    (tmp_path / "config.json").write_text('{"lens_type": "other"}')
    with pytest.raises(BadFile, match="lens_type"):
        open_lens(path)


@pytest.mark.parametrize(
    ("arrays", "metadata", "problem"),
    [
        ({"J.0": np.zeros((4, 3), np.float32)}, {}, "not square"),
        ({"J.0": np.eye(4, dtype=np.float32), "J.1": np.eye(3, dtype=np.float32)}, {}, "one size"),
        ({"J.0": np.eye(4, dtype=np.float32)}, {"d_model": "5"}, "d_model"),
        ({"J.0": np.eye(4, dtype=np.float32), "W": np.eye(4, dtype=np.float32)}, {}, "'W'"),
        ({"W": np.eye(4, dtype=np.float32)}, {}, "neither J.0"),
        ({"1.weight": np.eye(4, dtype=np.float32)}, {}, "1.bias"),
    ],
)
def test_what_is_no_lens_says_why(
    tmp_path: Path, arrays: dict, metadata: dict, problem: str
) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(packed(arrays, metadata))
    with pytest.raises(BadFile, match=problem):
        open_lens(path)
