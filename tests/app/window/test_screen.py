"""The first question once more, on an X server, whose focus and events are not offscreen's."""

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


def test_first_question_on_a_screen(smollm2_path: Path) -> None:
    if shutil.which("xvfb-run") is None or missing_packages():
        pytest.skip(f"needs xvfb, xauth {' '.join(missing_packages())}: apt install them")
    ended = subprocess.run(
        [*SCREEN, sys.executable, "-m", "pytest", "-q", "tests/app/window/test_first_question.py"],
        cwd=ROOT,
        env=os.environ | {"QT_QPA_PLATFORM": "xcb", "CUTAWAY_MODELS": str(smollm2_path.parent)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (ended.returncode, "2 passed" in ended.stdout) == (0, True), ended.stdout[-3000:]
