"""Gemma 4 files that lie about how many layers borrow keys and values."""

from pathlib import Path

import pytest

from engine.errors import BadFile
from engine.gguf import open_gguf
from engine.models.build import build_model
from tests.engine.models.text.files import write
from tests.engine.models.text.rows import ROWS


@pytest.mark.parametrize("count", [5, 6, 7, 12])
def test_somebody_must_lend(count: int, tmp_path: Path) -> None:
    """Of six layers: one or none is left, or fewer than none."""
    path = write(ROWS["gemma4"], tmp_path)
    data, key = bytearray(path.read_bytes()), b"gemma4.attention.shared_kv_layers"
    at = data.index(key) + len(key) + 4  # behind the value's type
    data[at : at + 4] = count.to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(BadFile, match=f"shared_kv_layers is {count}"), open_gguf(path) as file:
        build_model(file, 64, 16)
