"""Encoders against transformers: every row of a text, which enters whole."""

from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind

from engine.errors import BadFile, GivesNoText
from engine.gguf import open_gguf
from engine.models.base import Output
from engine.models.build import StepShape, build_model
from engine.runner import load
from engine.runner.api import Model
from engine.runner.loading import load_model
from engine.settings import EngineOptions
from tests.engine.models.text.encoders import ENCODERS
from tests.engine.models.text.files import golden, write
from tests.engine.models.text.rows import Row
from tests.engine.models.text.test_rows import first_driver, launched, opened
from tests.engine.runner.memory import drivers
from tests.program import ROOT
from tests.truth.compare import nmse

each = pytest.mark.parametrize("row", ENCODERS, ids=lambda row: row.name)


def hidden(model: Model, ids: np.ndarray, n: int = 96) -> np.ndarray:
    """[n, E] of a text's first n tokens."""
    step = model.loaded.stepper.step
    return step(ids[:n].tolist(), 0, range(n), output=Output.EMBEDDINGS).copy()


@each
def test_on_the_host(row: Row, tmp_path: Path) -> None:
    ids, want = golden(row)
    with opened(write(row, tmp_path), "host", "f32") as model:
        for one, rows in zip(ids, want, strict=True):
            assert nmse(hidden(model, one), rows) < 1e-10


@each
def test_what_pads_a_text_is_not_seen(row: Row, tmp_path: Path) -> None:
    """65 tokens are computed as 96; a text alone, as its rows say, with nothing behind."""
    ids, _ = golden(row)
    with opened(write(row, tmp_path), "host", "f32") as model:
        padded = hidden(model, ids[0], 65)
        model.loaded.stepper.step(ids[1].tolist(), 0, [0], output=Output.EMBEDDINGS)
        assert nmse(hidden(model, ids[0], 65), padded) == 0
        plan = model.loaded.built.build(StepShape(65, 65, ()))
        assert plan[1].outputs[0].shape[1] == 65


@pytest.mark.device
@each
def test_on_a_device(row: Row, tmp_path: Path) -> None:
    ids, want = golden(row)
    with opened(write(row, tmp_path, Kind.F16), first_driver()) as model:
        assert nmse(hidden(model, ids[1]), want[1]) < 1e-5


@pytest.mark.full
@pytest.mark.device
@each
def test_on_every_device(row: Row, tmp_path: Path) -> None:
    ids, want = golden(row)
    with opened(write(row, tmp_path, rounded=Kind.Q8_0), "host", "f32") as model:
        exact = hidden(model, ids[0])
    for driver in drivers():
        with opened(write(row, tmp_path, Kind.F16), driver) as model:
            assert nmse(hidden(model, ids[0]), want[0]) < 1e-5, driver
        with opened(write(row, tmp_path, Kind.Q8_0), driver) as model:
            assert nmse(hidden(model, ids[0]), exact) < 1e-4, driver


def test_they_embed_and_do_not_write(tmp_path: Path) -> None:
    path = write(ENCODERS[0], tmp_path)
    with pytest.raises(GivesNoText):
        load_model(path, EngineOptions(device="host"))
    with load(path, device="host", kv="f32") as model:
        ids = model.loaded.tokenizer.encode("abcabc", parse_special=False)
        rows = hidden(model, np.asarray(ids), len(ids))
        (found,) = model.embed(["abcabc"], normalized=False)
    np.testing.assert_allclose(found, rows.mean(0), rtol=1e-5, atol=1e-6)


@each
def test_a_token_takes_so_many_launches(row: Row, tmp_path: Path) -> None:
    told = launched(write(row, tmp_path, Kind.Q8_0))
    assert len(told) == row.launches, "\n".join(told)


@each
def test_each_has_a_fault_to_plant(row: Row) -> None:
    assert (ROOT / row.fault.file).read_text("utf-8").count(row.fault.old) == 1, row.fault


def test_two_matrices_follow_the_pooling(tmp_path: Path) -> None:
    """As EmbeddingGemma's files have them."""
    draws = np.random.default_rng(5)
    dense = [draws.normal(size=(48, 32)).astype("f4"), draws.normal(size=(32, 48)).astype("f4")]
    sizes = {"dense_2_feat_out": 48, "dense_3_feat_out": 32}
    path = tmp_path / "dense.gguf"
    reader = gguf.GGUFReader(write(ENCODERS[3], tmp_path))
    writer = gguf.GGUFWriter(path, "gemma-embedding")
    for field in reader.fields.values():
        if not field.name.startswith("GGUF.") and field.name != "general.architecture":
            element = field.types[-1] if len(field.types) > 1 else None
            writer.add_key_value(field.name, field.contents(), field.types[0], element)
    for key, size in sizes.items():
        writer.add_uint32(f"gemma-embedding.{key}", size)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, np.array(tensor.data))
    for name, values in zip(("dense_2.weight", "dense_3.weight"), dense, strict=True):
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with load(path, device="host", kv="f32") as model:
        ids = model.loaded.tokenizer.encode("abcabc", parse_special=False)
        mean = hidden(model, np.asarray(ids), len(ids)).mean(0, dtype=np.float64)
        (found,) = model.embed(["abcabc"], normalized=False)
    np.testing.assert_allclose(found, dense[1] @ (dense[0] @ mean), rtol=1e-4, atol=1e-4)


def test_a_table_of_positions_that_is_too_short_is_refused(tmp_path: Path) -> None:
    path = write(ENCODERS[0], tmp_path)
    data, key = bytearray(path.read_bytes()), b"bert.context_length"
    at = data.index(key) + len(key) + 4  # behind the value's type
    data[at : at + 4] = (513).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(BadFile, match="513 positions"), open_gguf(path) as file:
        build_model(file, None, 16)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"blk.0.attn_rel_b", b"blk.1.attn_rel_b"),
        (b"relative_buckets_count\4\0\0\0\x20", b"relative_buckets_count\4\0\0\0\x40"),
    ],
    ids=["missing", "another size"],
)
def test_a_first_layer_without_its_bias_is_refused(old: bytes, new: bytes, tmp_path: Path) -> None:
    row = next(row for row in ENCODERS if row.name == "t5encoder")
    path = write(row, tmp_path)
    data = path.read_bytes()
    assert data.count(old) == 1
    path.write_bytes(data.replace(old, new))
    with pytest.raises(BadFile, match="attn_rel_b: a bias.* in layer 0"), open_gguf(path) as file:
        build_model(file, None, 16)
