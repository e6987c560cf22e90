"""Split files: found from any part, checked against each other."""

import shutil

import numpy as np
import pytest

from engine.errors import BadFile
from engine.gguf import open_gguf
from engine.gguf.values import ValueType as V
from tests.gguf_files import Blocks, Draft, rewrite, split, split_keys


def draft(n=7):
    rng = np.random.default_rng(3)
    tensors = {
        f"t{i}": Blocks(0, (4, i + 1), rng.normal(size=4 * (i + 1)).astype("<f4").tobytes())
        for i in range(n)
    }
    return Draft({"general.architecture": (V.STRING, "toy"), "toy.n": (V.UINT32, 5)}, tensors)


@pytest.fixture
def parts(tmp_path):
    return split(draft(), tmp_path / "toy.gguf", 3)


def test_any_part_opens_the_whole(parts):
    expected = draft().tensors
    for path in parts:
        with open_gguf(path) as file:
            assert file.paths == tuple(parts)
            assert file.metadata.get("n", int) == 5
            assert list(file.tensors) == list(expected)
            assert [t.file for t in file.tensors.values()] == [0, 0, 1, 1, 2, 2, 2]
            assert all(file.data(n).tobytes() == t.data for n, t in expected.items())
            assert file.size == sum(p.stat().st_size for p in parts)


def test_linked_parts_are_looked_for_beside_the_link(parts, tmp_path):
    cache = tmp_path / "snapshot"
    cache.mkdir()
    for i, path in enumerate(parts):
        blob = path.rename(tmp_path / f"blob{i}")
        (cache / path.name).symlink_to(blob)
    with open_gguf(cache / parts[1].name) as file:
        assert len(file.tensors) == 7


def test_a_real_model_in_three_parts(tmp_path):
    whole = draft().write(tmp_path / "whole.gguf")
    paths = rewrite(whole, tmp_path / "again.gguf", splits=3)
    assert [p.name for p in paths] == [f"again-0000{i}-of-00003.gguf" for i in (1, 2, 3)]
    with open_gguf(whole) as one, open_gguf(paths[2]) as three:
        assert list(one.tensors) == list(three.tensors)


def test_a_missing_part(parts):
    parts[1].unlink()
    with pytest.raises(
        BadFile, match=r"1 of 3 parts are not in the same folder: toy-00002-of-00003.gguf"
    ):
        open_gguf(parts[0])


def test_a_part_that_is_a_copy_of_another(parts):
    shutil.copy(parts[0], parts[1])
    with pytest.raises(BadFile, match=r"named part 2 of 3, but its 'split.no' is 0"):
        open_gguf(parts[2])


def test_a_part_that_links_to_another(parts):
    parts[2].unlink()
    parts[2].symlink_to(parts[0])
    with pytest.raises(BadFile, match="named part 3 of 3"):
        open_gguf(parts[0])


def test_links_in_a_circle(parts):
    for part in parts[1:]:
        part.unlink()
    parts[1].symlink_to(parts[2])
    parts[2].symlink_to(parts[1])
    with pytest.raises(BadFile, match="2 of 3 parts are not in the same folder"):
        open_gguf(parts[0])


def test_a_renamed_part(parts, tmp_path):
    with pytest.raises(BadFile, match="one of 3 parts, but its name does not end in"):
        open_gguf(parts[0].rename(tmp_path / "model.gguf"))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (split_keys(1, 4, 7), "but its 'split.no' is 1 .from 0. of 4"),
        ({"split.count": (V.UINT16, 3)}, "has no 'split.no'"),
        ({"split.no": (V.STRING, "1"), "split.count": (V.UINT16, 3)}, "'split.no' is string"),
        ({}, "has no 'split.no'"),
    ],
)
def test_keys_that_do_not_fit(parts, keys, message):
    Draft(dict(keys)).write(parts[1])
    with pytest.raises(BadFile, match=message):
        open_gguf(parts[0])


def test_a_tensor_in_two_parts(parts):
    tensors = {"t0": draft().tensors["t0"], "t3": draft().tensors["t3"]}
    Draft(dict(split_keys(1, 3, 7)), tensors).write(parts[1])
    with pytest.raises(BadFile, match=r"tensor 't0' is also in toy-00001-of-00003.gguf"):
        open_gguf(parts[0])


def test_the_number_of_tensors_is_checked(parts):
    Draft(dict(split_keys(1, 3, 7)), {"t2": draft().tensors["t2"]}).write(parts[1])
    with pytest.raises(BadFile, match="the parts hold 6 tensors, but the header lists 7"):
        open_gguf(parts[0])


def test_parts_have_one_byte_order(parts):
    Draft(dict(split_keys(1, 3, 7)), order=">").write(parts[1])
    with pytest.raises(BadFile, match="byte order"):
        open_gguf(parts[0])


def test_a_broken_part_is_named(parts):
    parts[2].write_bytes(parts[2].read_bytes()[:100])
    with pytest.raises(BadFile, match=r"toy-00003-of-00003.gguf: ends inside"):
        open_gguf(parts[0])


def test_many_claimed_parts(tmp_path):
    path = tmp_path / "toy-00001-of-65535.gguf"
    Draft(dict(split_keys(0, 65535, 1))).write(path)
    with pytest.raises(
        BadFile, match="65534 of 65535 parts are not in the same folder.* and 65531 more"
    ):
        open_gguf(path)


def test_one_part_needs_no_particular_name(tmp_path):
    path = Draft(dict(split_keys(0, 1, 0))).write(tmp_path / "x.gguf")
    with open_gguf(path) as file:
        assert file.paths == (path,)
