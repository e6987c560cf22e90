"""The table of block formats against the constants of the `gguf` package."""

import struct

import pytest
from gguf.constants import GGML_QUANT_SIZES

from engine.errors import ShapeError
from engine.gguf import formats
from engine.gguf.formats import FORMATS, by_name
from tests.gguf_files import WIDE_FIELDS


@pytest.mark.parametrize("kind", GGML_QUANT_SIZES, ids=lambda kind: kind.name)
def test_sizes_are_those_of_the_package(kind):
    fmt = FORMATS[kind]
    assert fmt.name == kind.name
    assert fmt.block == GGML_QUANT_SIZES[kind][0]
    # ggml's own structure has two halves where the package still counts two floats
    expected = 36 if kind.name == "Q8_1" else GGML_QUANT_SIZES[kind][1]
    assert fmt.bytes == expected == struct.calcsize("=" + fmt.fields)


def test_every_format_has_a_constant_of_its_name():
    assert all(getattr(formats, fmt.name) is fmt for fmt in FORMATS.values())
    assert set(WIDE_FIELDS) == {fmt.name for fmt in FORMATS.values()}


def test_names_are_found_in_either_case():
    assert by_name("q4_k") is by_name("Q4_K") is formats.Q4_K
    with pytest.raises(KeyError):
        by_name("q4_9")


def test_rows_are_whole_blocks():
    assert formats.Q4_K.row_bytes(512) == 288
    assert formats.F32.row_bytes(3) == 12
    with pytest.raises(ShapeError, match=r"Q4_K: a row of 300 is not a multiple of 256"):
        formats.Q4_K.row_bytes(300)
