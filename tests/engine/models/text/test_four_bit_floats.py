"""Matrices in MXFP4, as gpt-oss has them, and in NVFP4, against the same numbers in float32."""

from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind

from engine.gguf import open_gguf
from tests.engine.models.text.files import golden, write
from tests.engine.models.text.rows import ROWS
from tests.engine.models.text.test_rows import MIXED, first_driver, logits, opened
from tests.gguf_files import Blocks, drafted
from tests.truth.compare import nmse

ROW = ROWS["gpt-oss"]


@pytest.mark.device
def test_experts_in_mxfp4(tmp_path: Path) -> None:
    """`gguf` decodes one file, the host and a device the other."""
    ids, full = golden(ROW)
    with opened(write(ROW, tmp_path, rounded=Kind.MXFP4), "host", "f32") as model:
        want = logits(model, ids[0])
    assert nmse(want, full[0]) > 1e-3  # four bits are few: a file of other numbers
    path = write(ROW, tmp_path, Kind.MXFP4)
    for device, kv, most in (("host", "f32", 1e-10), (first_driver(), "f16", 1e-4)):
        with opened(path, device, kv) as model:
            assert nmse(logits(model, ids[0], MIXED), want) < most, device


@pytest.mark.device
@pytest.mark.parametrize("name", ["qwen35", "qwen35moe", "seed_oss", "nemotron_h"])
def test_matrices_with_scales(name: str, tmp_path: Path) -> None:
    """As converters of NVFP4 write them: products are multiplied by `scale`, of a matrix or of each
    expert, before a bias is added, and what enters has an `input_scale`, which is not needed.
    """
    ids, want = golden(ROWS[name])
    with open_gguf(write(ROWS[name], tmp_path)) as file:
        draft = drafted(file)
    draws, scaled = np.random.default_rng(3), 0
    for tensor, blocks in list(draft.tensors.items()):
        stem, is_weight = tensor.removesuffix(".weight"), tensor.endswith(".weight")
        is_matrix = is_weight and len(blocks.dims) > 1 and tensor.startswith(("blk.", "output."))
        if not is_matrix or any(part in tensor for part in ("conv1d", "gate_inp", "_norm")):
            continue
        n = blocks.dims[2] if "_exps" in tensor else 1
        scales = 2.0 ** draws.integers(-3, 3, n).astype(np.float32)
        values = np.frombuffer(blocks.data, "<f4").reshape(n, -1) / scales[:, None]
        draft.tensors[tensor] = Blocks(0, blocks.dims, values.tobytes())
        draft.tensors[f"{stem}.scale"] = Blocks(0, (n,), scales.tobytes())
        draft.tensors[f"{stem}.input_scale"] = Blocks(0, (n,), draws.random(n, "f4").tobytes())
        scaled += 1
    assert scaled > 10
    path = draft.write(tmp_path / "scaled.gguf")
    for device, kv, most in (("host", "f32", 1e-10), (first_driver(), "f16", 1e-4)):
        with opened(path, device, kv) as model:
            assert nmse(logits(model, ids[0], MIXED), want[0]) < most, device
