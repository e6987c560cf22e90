"""The first question, the memory and the demo's pictures once more, on an X server: its focus,
clipboard and events are others.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from app.commands.doctor import missing_packages
from tests.program import ROOT

pytestmark = [pytest.mark.model_file, pytest.mark.device]

SCREEN = ["xvfb-run", "-a", "-s", "-screen 0 1600x1000x24"]


@pytest.mark.parametrize(("name", "tests"), [("first_question", 2), ("memory", 2), ("demo", 1)])
def test_on_a_screen(smollm2_path: Path, name: str, tests: int) -> None:
    if shutil.which("xvfb-run") is None or missing_packages():
        pytest.skip(f"needs xvfb, xauth {' '.join(missing_packages())}: apt install them")
    ended = subprocess.run(
        [*SCREEN, sys.executable, "-m", "pytest", "-q", f"tests/app/end_to_end/test_{name}.py"],
        cwd=ROOT,
        env=os.environ | {"QT_QPA_PLATFORM": "xcb", "CUTAWAY_MODELS": str(smollm2_path.parent)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (ended.returncode, f"{tests} passed" in ended.stdout) == (0, True), ended.stdout[-3000:]
