"""gpt-oss as it is published, its matrices in MXFP4, against the same numbers in float32."""

from pathlib import Path

import pytest
from gguf import GGMLQuantizationType as Kind

from tests.engine.models.text.files import golden, write
from tests.engine.models.text.rows import ROWS
from tests.engine.models.text.test_rows import MIXED, first_driver, logits, opened
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
