"""Jina's encoder of code, whose gate and up are of one matrix in files of today: up comes first."""

from pathlib import Path

import gguf
import numpy as np

from tests.engine.models.text.encoders import ENCODERS
from tests.engine.models.text.files import golden, write
from tests.engine.models.text.test_encoders import hidden
from tests.engine.models.text.test_rows import opened
from tests.truth.compare import nmse

ROW = next(row for row in ENCODERS if row.name == "jina-bert-v2-code")


def joined(path: Path) -> Path:
    """The same file with one matrix for up and gate."""
    reader, made = gguf.GGUFReader(path), path.with_name("joined.gguf")
    writer = gguf.GGUFWriter(made, ROW.architecture)
    for field in reader.fields.values():
        if not field.name.startswith("GGUF.") and field.name != "general.architecture":
            element = field.types[-1] if len(field.types) > 1 else None
            writer.add_key_value(field.name, field.contents(), field.types[0], element)
    tensors = {tensor.name: np.array(tensor.data) for tensor in reader.tensors}
    for name, values in tensors.items():
        if "ffn_up" in name:
            gate = tensors[name.replace("ffn_up", "ffn_gate")]
            writer.add_tensor(name, np.concatenate([values, gate]))
        elif "ffn_gate" not in name:
            writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return made


def test_up_comes_first(tmp_path: Path) -> None:
    ids, want = golden(ROW)
    with opened(joined(write(ROW, tmp_path)), "host", "f32") as model:
        assert nmse(hidden(model, ids[0]), want[0]) < 1e-10
