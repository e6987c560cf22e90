"""Big-endian, version 2 and in three parts: a file gives the very logits of the plain one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.backends.opencl.drivers.device import list_devices
from engine.runner import load
from tests.gguf_files import rewrite

pytestmark = [pytest.mark.model_file, pytest.mark.device]
TOKENS = list(range(1000, 1040))


def logits(path: Path) -> np.ndarray:
    device = next((d.name for d in list_devices() if d.default), "host")
    with load(path, device=device, ctx=256) as model:
        return np.concatenate([block for _, block in model.logits(TOKENS)])


@pytest.fixture(scope="module")
def plain(smollm2_path: Path) -> Iterator[np.ndarray]:
    return logits(smollm2_path)


@pytest.mark.parametrize("how", [{"byteorder": "big"}, {"version": 2}, {"splits": 3}], ids=str)
def test_same_logits(
    smollm2_path: Path, plain: np.ndarray, how: dict[str, Any], tmp_path: Path
) -> None:
    paths = rewrite(smollm2_path, tmp_path / "again.gguf", **how)
    assert len(paths) == how.get("splits", 1)
    np.testing.assert_array_equal(logits(paths[0]), plain)
