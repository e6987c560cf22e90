"""Typed access to key-value pairs, every value type included."""

import math
from math import inf, nan

import numpy as np
import pytest

from engine.errors import BadFile
from engine.gguf import Array, open_gguf
from engine.gguf.values import ValueType as V
from tests.gguf_files import Draft

SCALARS = {
    "u8": (V.UINT8, 200),
    "i8": (V.INT8, -100),
    "u16": (V.UINT16, 60000),
    "i16": (V.INT16, -30000),
    "u32": (V.UINT32, 4_000_000_000),
    "i32": (V.INT32, -2_000_000_000),
    "f32": (V.FLOAT32, 0.5),
    "bool": (V.BOOL, True),
    "string": (V.STRING, "héllo"),
    "u64": (V.UINT64, 2**64 - 1),
    "i64": (V.INT64, -(2**63)),
    "f64": (V.FLOAT64, math.pi),
}
PAIRS = {
    "general.architecture": (V.STRING, "toy"),
    **{f"toy.{name}": pair for name, pair in SCALARS.items()},
    **{f"toy.{n}s": (V.ARRAY, (t, [v] * 3)) for n, (t, v) in SCALARS.items()},
    "toy.words": (V.ARRAY, (V.STRING, ["a", "", "日本", b"\xff\xfe", "last"])),
    "toy.empty": (V.ARRAY, (V.STRING, [])),
    "toy.nested": (V.ARRAY, (V.ARRAY, [(V.INT32, [1, 2]), (V.STRING, ["x"]), (V.UINT8, [])])),
    "toy.heads": (V.ARRAY, (V.UINT32, [8, 4, 2])),
    "toy.odd": (V.STRING, b"ab\xffcd"),
    "other.key": (V.UINT32, 7),
    "tokenizer.ggml.add_bos_token": (V.BOOL, False),
}


@pytest.fixture(scope="module", params=["<", ">"], ids=["little", "big"])
def meta(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("meta") / "m.gguf"
    with open_gguf(Draft(PAIRS, order=request.param).write(path)) as file:
        yield file.metadata


@pytest.mark.parametrize("name", SCALARS)
def test_scalars(meta, name):
    kind, value = SCALARS[name]
    assert meta.get(name, type(value)) == value
    assert meta.get(f"toy.{name}", type(value)) == value
    assert meta[f"toy.{name}"].type == kind


@pytest.mark.parametrize("name", SCALARS)
def test_arrays(meta, name):
    kind, value = SCALARS[name]
    array = meta.get(name + "s", Array)
    assert (array.type, len(array), list(array)) == (kind, 3, [value] * 3)


def test_array_access(meta):
    words = meta.get("words", Array)
    assert words.strings() == ["a", "", "日本", "\ufffd\ufffd", "last"]
    data, bounds = words.joined()
    assert data == "a日本".encode() + b"\xff\xfelast"
    assert bounds.tolist() == [0, 1, 1, 7, 9, 13]
    assert words[2] == "日本"
    assert words[-1] == "last"
    assert words[1:4:2] == ["", "\ufffd\ufffd"]
    assert words[::-1] == words.strings()[::-1]
    assert meta.get("empty", Array).strings() == []
    with pytest.raises(IndexError):
        words[5]
    heads = meta.get("heads", Array)
    assert heads[1:] == [4, 2]
    assert heads[3:] == []
    assert heads.ints().dtype == np.uint32
    assert heads.ints().dtype.isnative
    assert meta.get("bools", Array).numpy().dtype == np.bool_


def test_arrays_of_arrays(meta):
    nested = meta.get("nested", Array)
    assert [(a.type, list(a)) for a in nested] == [(V.INT32, [1, 2]), (V.STRING, ["x"]), (0, [])]


def test_names(meta):
    assert meta.architecture == "toy"
    assert "u8" in meta
    assert "toy.u8" in meta
    assert "u9" not in meta
    assert meta.get("other.key", int) == 7
    assert meta.get("tokenizer.ggml.add_bos_token", bool, True) is False
    assert set(meta) == set(PAIRS)
    assert len(meta) == len(PAIRS)


def test_defaults_are_for_missing_keys(meta):
    assert meta.get("missing", int, None) is None
    assert meta.get("missing", float, 1e4) == 1e4
    with pytest.raises(BadFile, match=r"metadata has no 'toy\.missing'; expected an integer"):
        meta.get("missing", int)


def test_an_integer_is_a_number(meta):
    assert meta.get("u8", float) == 200.0
    assert isinstance(meta.get("u8", float), float)


def test_a_number_without_a_fraction_is_an_integer(tmp_path):
    pairs = {f"toy.{value}": (V.FLOAT32, value) for value in (10.0, -1.0, 0.5, inf, nan)}
    pairs["general.architecture"] = (V.STRING, "toy")
    with open_gguf(Draft(pairs).write(tmp_path / "made.gguf")) as file:
        found = [file.metadata.get(key, int) for key in ("10.0", "-1.0")]
        assert found == [10, -1]
        assert all(isinstance(one, int) for one in found)
        for key in ("0.5", "inf", "nan"):
            with pytest.raises(BadFile, match="is float32; expected an integer"):
                file.metadata.get(key, int)


@pytest.mark.parametrize(
    ("name", "type", "message"),
    [
        ("f32", int, "'toy.f32' is float32; expected an integer"),
        ("bool", int, "'toy.bool' is bool; expected an integer"),
        ("u8", bool, "'toy.u8' is uint8; expected bool"),
        ("string", float, "'toy.string' is string; expected a number"),
        ("heads", int, "'toy.heads' is array; expected an integer"),
        ("u8", Array, "'toy.u8' is uint8; expected array"),
        ("u8", str, "'toy.u8' is uint8; expected string"),
    ],
)
def test_a_wrong_type_is_an_error_even_with_a_default(meta, name, type, message):
    for default in ({}, {"default": None}):
        with pytest.raises(BadFile, match=message):
            meta.get(name, type, **default)


def test_arrays_of_another_type(meta):
    for read in (Array.strings, Array.joined):
        with pytest.raises(BadFile, match="'toy.heads' is an array of uint32.*of strings"):
            read(meta.get("heads", Array))
    with pytest.raises(BadFile, match="'toy.words' is an array of string.*of numbers"):
        meta.get("words", Array).numpy()
    with pytest.raises(BadFile, match="'toy.f32s' is an array of float32.*of integers"):
        meta.get("f32s", Array).ints()


def test_one_value_a_layer(meta):
    assert meta.each("heads", int, 3) == [8, 4, 2]
    assert meta.each("heads", float, 3) == [8.0, 4.0, 2.0]
    assert meta.each("u8", int, 2) == [200, 200]
    assert meta.each("missing", int, 2, 5) == [5, 5]
    with pytest.raises(BadFile, match="'toy.heads' is array of uint32; expected bool"):
        meta.each("heads", bool, 3)
    with pytest.raises(BadFile, match="is array of 3; expected 4 values, one per layer"):
        meta.each("heads", int, 4)
    with pytest.raises(BadFile, match="'toy.words' is array of string; expected an integer"):
        meta.each("words", int, 5)
    with pytest.raises(BadFile, match="has no 'toy.missing'"):
        meta.each("missing", int, 2)


def test_bytes_that_are_not_text_are_replaced(meta):
    assert meta.get("odd", str) == "ab\ufffdcd"


@pytest.mark.parametrize("name", ["", "a b", "a.b", "../x", "x" * 65, "x\n"])
def test_architecture_is_a_word(tmp_path, name):
    path = Draft({"general.architecture": (V.STRING, name)}).write(tmp_path / "a.gguf")
    with open_gguf(path) as file, pytest.raises(BadFile, match="expected one word") as caught:
        _ = file.metadata.architecture
    assert "\n" not in str(caught.value)
