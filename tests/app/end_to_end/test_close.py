"""The window is closed at any moment: the program ends well, and nothing of it stays."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.program import MARK, ROOT, still_there

pytestmark = [pytest.mark.model_file, pytest.mark.device, pytest.mark.usefixtures("nothing_left")]

MOMENTS = ("answering", "loading", "answered")


@pytest.mark.parametrize("runs", [1, pytest.param(20, marks=pytest.mark.full)])
def test_open_ask_close(
    runs: int, own_home: Path, kernels: Path, smollm2_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUTAWAY_CACHE", str(kernels))
    for n in range(runs):
        moment = MOMENTS[n % len(MOMENTS)]
        command = [sys.executable, "-m", "tests.app.end_to_end.open_ask_close"]
        ended = subprocess.run(
            [*command, str(smollm2_path), moment],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        said = [line for line in ended.stderr.splitlines() if "propagateSizeHints" not in line]
        assert (ended.returncode, said) == (0, []), f"run {n + 1}, {moment}"
        assert not list(still_there(os.environ[MARK])), f"run {n + 1}, {moment}"
