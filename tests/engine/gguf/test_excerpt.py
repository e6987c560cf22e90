"""Excerpts: the header of a file that is elsewhere, which never gives zeros for data."""

from pathlib import Path

import numpy as np
import pytest

from engine.errors import BadFile
from engine.gguf import open_gguf
from engine.gguf.excerpt import MARK, excerpt_of, pack
from engine.gguf.header import read_header
from tests.goldens.tiny import write_tiny


def header_end(path: Path) -> int:
    with open_gguf(path) as file:
        return min(tensor.offset for tensor in file.tensors.values())


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return write_tiny(tmp_path / "whole.gguf", "llama")


def excerpt(path: Path, whole: Path, *more: tuple[int, int]) -> Path:
    content = whole.read_bytes()
    parts = [(0, content[: header_end(whole)]), *((a, content[a:b]) for a, b in more)]
    path.write_bytes(pack(len(content), parts))
    return path


def test_everything_but_data_is_as_in_the_file(whole: Path, tmp_path: Path) -> None:
    with open_gguf(whole) as file, open_gguf(excerpt(tmp_path / "x.gguf", whole)) as part:
        assert part.tensors == file.tensors
        assert list(part.metadata) == list(file.metadata)
        assert (part.size, part.alignment) == (file.size, file.alignment)


def test_data_that_is_not_there_is_an_error(whole: Path, tmp_path: Path) -> None:
    with open_gguf(excerpt(tmp_path / "x.gguf", whole)) as part:
        name = next(iter(part.tensors))
        for read in (part.data, part.array, lambda n: part.rows(n, [0])):
            with pytest.raises(BadFile, match=r"x\.gguf: holds the header without .*download"):
                read(name)
        part.drop_pages()
        part.drop_pages([name])
        part.read_ahead(name, 0, 1 << 30)


def test_data_of_a_part_is_the_files(whole: Path, tmp_path: Path) -> None:
    with open_gguf(whole) as file:
        info = file.tensors["rope_freqs.weight"]
        values = file.array("rope_freqs.weight")
    span = info.offset, info.offset + info.nbytes
    with open_gguf(excerpt(tmp_path / "x.gguf", whole, span)) as part:
        np.testing.assert_array_equal(part.array("rope_freqs.weight"), values)
    short = info.offset, info.offset + info.nbytes - 1
    with open_gguf(excerpt(tmp_path / "y.gguf", whole, short)) as part, pytest.raises(BadFile):
        part.data("rope_freqs.weight")


def test_a_table_that_does_not_hold_makes_no_excerpt(whole: Path, tmp_path: Path) -> None:
    end = header_end(whole)
    right = bytearray(excerpt(tmp_path / "x.gguf", whole).read_bytes())
    assert excerpt_of(memoryview(right)) == (whole.stat().st_size, ((0, end, 0),))
    for cut in (1, 16, 33, len(right) - 40):
        assert excerpt_of(memoryview(right[:-cut])) is None
    for at in range(len(right) - len(MARK) - 32, len(right)):
        wrong = bytearray(right)
        wrong[at] ^= 0xFF
        found = excerpt_of(memoryview(wrong))
        assert found is None or found.size != whole.stat().st_size
        if found is not None:
            assert all(start + length <= found.size for start, length, _ in found.parts)


def test_more_bytes_are_wanted_only_of_a_header_that_ends(whole: Path) -> None:
    content, end = whole.read_bytes(), header_end(whole)
    for size in (3, 20, 200, end // 2, end - 40):
        with pytest.raises(BadFile) as caught:
            read_header("x", memoryview(content[:size]), size=len(content))
        assert caught.value.cut_off, size
    for wrong in (b"<html>" * 9, content[:8] + bytes(8) + b"\xff" * 8 + content[24:end]):
        with pytest.raises(BadFile) as caught:
            read_header("x", memoryview(wrong), size=len(content))
        assert not caught.value.cut_off
    assert read_header("x", memoryview(content[:end]), size=len(content)).tensors
