"""Metadata of real files are read and accepted, and their tensors are as many as ours."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from engine.gguf import open_gguf
from engine.gguf.values import ValueType as V
from engine.models.build import build_model, find
from engine.models.vision.build import find as find_tower
from engine.models.vision.build import kind_of
from engine.tokenizer.patterns import pre_tokenizer
from engine.weights.params import read_params
from tests.engine.models.published.header import pair
from tests.engine.models.published.real import REAL, TENSORS, TOWERS, TOWERS_TENSORS, Value
from tests.engine.models.published.sizes import SIZES
from tests.engine.models.text.files import write
from tests.engine.models.text.rows import ROWS
from tests.gguf_files import Draft, Pair, drafted
from tests.goldens.vision.families import write_pair


def typed(value: Value) -> Pair:
    if isinstance(value, list) and isinstance(value[0], float):
        return V.ARRAY, (V.FLOAT32, value)
    return pair(value)  # type: ignore[arg-type]


def written(path: Path, arch: str, keys: Mapping[str, Value]) -> Path:
    pairs = {"general.architecture": typed(arch)}
    return Draft(pairs | {f"{arch}.{key}": typed(keys[key]) for key in keys}).write(path)


@pytest.mark.parametrize("name", REAL)
def test_a_real_file_is_accepted(name: str, tmp_path: Path) -> None:
    real = REAL[name]
    pre_tokenizer(real.pre)
    with open_gguf(written(tmp_path / "real.gguf", real.arch, real.keys)) as file:
        params = read_params(find(real.arch).Params, file)
    assert params.problem() == ""
    assert params.n_layer == real.n_layer


@pytest.mark.parametrize("name", TOWERS)
def test_a_real_projector_is_accepted(name: str, tmp_path: Path) -> None:
    with open_gguf(written(tmp_path / "real.gguf", "clip", TOWERS[name])) as file:
        family = find_tower(kind_of(file), is_single=False)
        assert read_params(family.Params, file).problem() == ""


@pytest.mark.parametrize("name", TENSORS)
def test_a_size_has_the_tensors_of_a_real_file(name: str) -> None:
    assert len(SIZES[name].shapes) == TENSORS[name]


@pytest.mark.parametrize("name", TOWERS_TENSORS)
def test_a_tower_has_the_tensors_of_a_real_projector(name: str, tmp_path: Path) -> None:
    golden, blocks, count = TOWERS_TENSORS[name]
    _, path = write_pair(tmp_path / golden, golden)
    with open_gguf(path) as file:
        in_first = sum(tensor.startswith("v.blk.0.") for tensor in file.tensors)
        others = sum(not tensor.startswith("v.blk.") for tensor in file.tensors)
    assert in_first * blocks + others == count


def test_a_block_that_predicts_may_be_lost(tmp_path: Path) -> None:
    """Fine-tunes of Qwen3.5 count it, and do not have it."""
    with open_gguf(write(ROWS["qwen35"], tmp_path)) as file:
        draft = drafted(file)
    count = draft.pairs["qwen35.block_count"][1]
    draft.pairs["qwen35.block_count"] = (V.UINT32, count + 1)
    draft.pairs["qwen35.nextn_predict_layers"] = (V.UINT32, 1)
    with open_gguf(draft.write(tmp_path / "lost.gguf")) as file:
        built = build_model(file, 64, 16, predicts=True)
    assert (built.n_layer, built.predicting) == (count, None)
