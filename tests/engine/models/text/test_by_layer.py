"""Arrays with a value for each layer, as converters write them."""

from pathlib import Path

import gguf
import pytest

from engine.errors import BadFile
from engine.gguf import open_gguf
from engine.models.build import build_model
from engine.models.windowed import WindowedParams
from tests.engine.models.text.files import write
from tests.engine.models.text.rows import ROWS

LAYERS = 4


def predicting(folder: Path, pattern: list[bool] | list[int], blocks: int) -> Path:
    """K-EXAONE's file with one block more that predicts, whose tensors it lacks."""
    path = write(ROWS["exaone-moe"], folder)
    reader, made = gguf.GGUFReader(path), folder / "made.gguf"
    writer = gguf.GGUFWriter(made, "exaone-moe")
    other = ("GGUF.", "general.architecture", "exaone-moe.block_", "exaone-moe.nextn_")
    for field in reader.fields.values():
        if not field.name.startswith(other) and "pattern" not in field.name:
            element = field.types[-1] if len(field.types) > 1 else None
            writer.add_key_value(field.name, field.contents(), field.types[0], element)
    writer.add_block_count(blocks)
    writer.add_nextn_predict_layers(blocks - LAYERS)
    writer.add_array("exaone-moe.attention.sliding_window_pattern", pattern)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return made


@pytest.mark.parametrize(
    "pattern",
    [[True, False, True, True], [1, 0, 1, 1], [True, False, True, True, True]],
    ids=["truth", "numbers", "all blocks"],
)
def test_a_pattern_may_leave_out_what_predicts(
    pattern: list[bool] | list[int], tmp_path: Path
) -> None:
    with open_gguf(predicting(tmp_path, pattern, LAYERS + 1)) as file:
        params = build_model(file, 64, 16).model.params
        assert isinstance(params, WindowedParams)
        assert [params.is_windowed(i) for i in range(5)] == [True, False, True, True, True]


@pytest.mark.parametrize("pattern", [[True] * 3, [2, 0, 1, 1]], ids=["too few", "a two"])
def test_another_pattern_is_refused(pattern: list[bool] | list[int], tmp_path: Path) -> None:
    refused = pytest.raises(BadFile, match="sliding_window_pattern")
    with open_gguf(predicting(tmp_path, pattern, LAYERS + 1)) as file, refused:
        build_model(file, 64, 16)
