"""Models of random weights: whole files with finite weights of the right size."""

from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest

from app.report.first_run import TEXT
from app.report.sizes import SHAPES, write
from engine.gguf.reader import open_gguf
from engine.tokenizer.tokenizer import load_tokenizer

SMALL = {"embedding": 256, "feed_forward": 512, "layers": 1, "heads": 4, "kv_heads": 2}


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_weights_by_another_reader(shape, tmp_path: Path) -> None:
    small = replace(shape, vocabulary=320, **SMALL)
    write(path := tmp_path / "a.gguf", small)
    tensors = gguf.GGUFReader(path).tensors
    assert {t.name for t in tensors} == {name for name, _, _ in small.matrices()}
    assert sum(t.n_bytes for t in tensors) == small.nbytes
    for tensor in tensors:
        values = gguf.dequantize(tensor.data, tensor.tensor_type)
        if values.ndim > 1:
            gain = 0.6 / np.sqrt(values.shape[-1])
            assert 0.9 * gain < values.std() < 1.1 * gain, tensor.name
            assert abs(values.mean()) < gain / 10, tensor.name


def test_published_shapes() -> None:
    """Sizes as they are named, and small enough for anybody's disk."""
    for shape, millions in zip(SHAPES, (135, 550, 1000), strict=True):
        n = sum(np.prod(size) for _, size, _ in shape.matrices()) / 1e6
        assert 0.9 * millions < n < 1.12 * millions
        assert shape.nbytes < 700 << 20


def test_the_engine_opens_it(tmp_path: Path) -> None:
    write(path := tmp_path / "a.gguf", replace(SHAPES[1], vocabulary=320, **SMALL))
    with open_gguf(path) as file:
        assert file.metadata.get("general.architecture", str) == "llama"
        assert len(file.tensors) == 11
        tokenizer = load_tokenizer(file.metadata)
        assert tokenizer.decode(tokenizer.encode(TEXT)) == TEXT
