"""Opening files: agreement with the `gguf` package's reader and writer, big-endian, data access."""

import gguf
import numpy as np
import pytest

from engine.errors import BadFile, ShapeError
from engine.gguf import Array, open_gguf
from tests.bounds import at_most_lines
from tests.gguf_files import drafted, in_memory, rewrite

NUMBERS = [f"{kind}int{bits}" for kind in ("", "u") for bits in (8, 16, 32, 64)]
NUMBERS += ["float32", "float64"]
KINDS = ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0")


def assert_agrees_with_package(path):
    theirs = gguf.GGUFReader(path)
    with open_gguf(path) as ours:
        assert ours.version == 3
        assert list(ours.tensors) == [t.name for t in theirs.tensors]
        for t in theirs.tensors:
            info = ours.tensors[t.name]
            assert list(info.shape[: info.n_dims]) == t.shape.tolist()
            assert info.shape[info.n_dims :] == (1,) * (4 - info.n_dims)
            assert info.fmt.name == t.tensor_type.name
            assert (info.offset, info.nbytes) == (t.data_offset, t.n_bytes)
            assert (info.elements, info.rows) == (t.n_elements, t.n_elements // t.shape[0])
            np.testing.assert_array_equal(
                ours.data(t.name).reshape(-1), t.data.reshape(-1).view(np.uint8)
            )
        keys = [key for key in theirs.fields if not key.startswith("GGUF.")]
        assert list(ours.metadata) == keys
        for key in keys:
            value = ours.metadata[key].value
            assert (list(value) if isinstance(value, Array) else value) == theirs.fields[
                key
            ].contents()


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A file by the package's writer: every type of value and the formats it can quantise to."""
    path = tmp_path_factory.mktemp("gguf") / "written.gguf"
    writer = gguf.GGUFWriter(path, "toy")
    writer.add_custom_alignment(64)
    for kind in [
        "uint8",
        "int8",
        "uint16",
        "int16",
        "uint32",
        "int32",
        "uint64",
        "int64",
        "float32",
        "float64",
    ]:
        getattr(writer, f"add_{kind}")(f"toy.{kind}", 3)
    writer.add_bool("toy.yes", True)
    writer.add_string("toy.text", "grün")
    writer.add_array("toy.words", ["one", "", "три"])
    writer.add_array("toy.numbers", [1.5, -2.0])
    rng = np.random.default_rng(1)
    for i, name in enumerate(KINDS):
        x = rng.normal(size=(2, 3 + i, 64)).astype(np.float32)
        kind = gguf.GGMLQuantizationType[name]
        writer.add_tensor(f"t.{name}", gguf.quantize(x, kind), raw_dtype=kind)
    writer.add_tensor("vector", np.arange(5, dtype=np.float32))
    writer.add_tensor("ints", np.arange(6, dtype=np.int32).reshape(1, 1, 2, 3))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_agrees_on_a_written_file(written):
    assert_agrees_with_package(written)
    with open_gguf(written) as file:
        assert (file.alignment, file.byteorder, file.paths) == (64, "little", (written,))
        assert file.size == written.stat().st_size


@pytest.mark.full  # on a written file with all kinds of values
@pytest.mark.model_file
def test_agrees_on_smollm2(smollm2_path):
    assert_agrees_with_package(smollm2_path)


@pytest.mark.full
@pytest.mark.model_file
def test_agrees_on_gemma3(gemma3_path):
    assert_agrees_with_package(gemma3_path)


@pytest.mark.model_file
def test_a_large_vocabulary_costs_three_lines_a_word(gemma3_path):
    """To walk over; none of its words is decoded."""
    words = 262144
    with at_most_lines(words * 10 // 3), open_gguf(gemma3_path) as file:
        tokens = file.metadata.get("tokenizer.ggml.tokens", Array)
        assert len(tokens) == words
        assert tokens[2] == "<bos>"


@pytest.mark.parametrize("change", [{"byteorder": "big"}, {"version": 2}], ids=str)
def test_other_byte_orders_and_versions_are_the_same_model(written, tmp_path, change):
    (path,) = rewrite(written, tmp_path / "copy.gguf", **change)
    with open_gguf(written) as plain, open_gguf(path) as copy:
        assert copy.byteorder == change.get("byteorder", "little")
        assert copy.version == change.get("version", 3)
        assert drafted(copy).pairs == drafted(plain).pairs
        assert {n: (t.fmt, t.shape) for n, t in copy.tensors.items()} == {
            n: (t.fmt, t.shape) for n, t in plain.tensors.items()
        }
        for name in plain.tensors:
            np.testing.assert_array_equal(copy.data(name), plain.data(name))
            last = [plain.tensors[name].rows - 1, 0]
            np.testing.assert_array_equal(copy.rows(name, last), plain.rows(name, last))


def test_the_package_reads_our_big_endian_copies(written, tmp_path):
    (path,) = rewrite(written, tmp_path / "big.gguf", byteorder="big")
    theirs = {t.name: t for t in gguf.GGUFReader(path).tensors}
    with open_gguf(written) as plain:
        for name in ("t.F32", "t.F16", "vector", "ints"):
            np.testing.assert_array_equal(
                theirs[name].data.astype(np.float32), plain.array(name), strict=True
            )


def test_data_is_the_mapped_file(written):
    with open_gguf(written) as file:
        info, data = file.tensors["t.Q4_1"], file.data("t.Q4_1")
        assert data.shape == (info.rows, info.row_bytes) == (14, 40)
        assert not data.flags.writeable
        assert not data.flags.owndata
        assert data.tobytes() == written.read_bytes()[info.offset : info.offset + info.nbytes]


def test_arrays_and_rows(written):
    theirs = {t.name: t for t in gguf.GGUFReader(written).tensors}
    with open_gguf(written) as file:
        for name in KINDS:
            t = theirs[f"t.{name}"]
            expected = gguf.dequantize(t.data, t.tensor_type)
            whole = file.array(t.name)
            np.testing.assert_array_equal(whole, expected, strict=True)
            rows = file.rows(t.name, np.array([5, 0, 5]))
            np.testing.assert_array_equal(rows, expected.reshape(-1, 64)[[5, 0, 5]], strict=True)
        assert file.array("vector").shape == (5,)
        assert file.rows("vector", []).shape == (0, 5)


@pytest.mark.parametrize("row", [-1, 6, 2**40])
def test_rows_beyond_the_tensor(written, row):
    with open_gguf(written) as file, pytest.raises(ShapeError, match=f"row {row} of 6"):
        file.rows("t.F32", [0, row])


def test_unknown_tensor_and_closed_file(written):
    file = open_gguf(written)
    with pytest.raises(BadFile, match="has no tensor 'nothing'"):
        file.data("nothing")
    kept = file.data("vector")
    file.close()
    np.testing.assert_array_equal(kept.view(np.float32)[0], np.arange(5))
    with pytest.raises(BadFile, match="was closed"):
        file.data("vector")


@pytest.mark.only_linux("reads /proc")
def test_pages_of_a_tensor_are_dropped_and_come_back(tmp_path):
    path = tmp_path / "large.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    rng = np.random.default_rng(0)
    large = {name: rng.standard_normal((512, 1024)).astype(np.float32) for name in ("a", "b")}
    for name, values in large.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with open_gguf(path) as file:
        assert all(np.array_equal(file.array(name), values) for name, values in large.items())
        both = in_memory(path)
        assert both >= 4 << 20
        file.drop_pages(["a"])
        assert 2 << 20 <= in_memory(path) <= both - (2 << 20) + 8192
        assert np.array_equal(file.array("a"), large["a"])
        assert in_memory(path) == both
        file.drop_pages()
        assert in_memory(path) == 0
        assert np.array_equal(file.array("b"), large["b"])
