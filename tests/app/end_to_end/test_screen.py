"""The first question, the demo's pictures, the memory, placing by hand and how a word came to be
once more, on an X server: its focus, clipboard and events are others.
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


LONGER = ("first_minute", "memory", "layers", "token", "token_pictures", "tensors", "profile")


@pytest.mark.full_cases("demo")  # first_question runs there
@pytest.mark.parametrize(
    "name",
    ["first_question", "demo", *(pytest.param(name, marks=pytest.mark.full) for name in LONGER)],
)
def test_on_a_screen(smollm2_path: Path, name: str) -> None:
    if shutil.which("xvfb-run") is None or missing_packages():
        pytest.skip(f"needs xvfb, xauth {' '.join(missing_packages())}: apt install them")
    whole = ["-m", ""] if name == "first_minute" else []  # with its long films
    test = f"tests/app/end_to_end/test_{name}.py"
    ended = subprocess.run(
        [*SCREEN, sys.executable, "-m", "pytest", "-q", *whole, test],
        cwd=ROOT,
        env=os.environ | {"QT_QPA_PLATFORM": "xcb", "CUTAWAY_MODELS": str(smollm2_path.parent)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    all_passed = ended.returncode == 0 and "skipped" not in ended.stdout
    assert all_passed, ended.stdout[-3000:]  # 5 where there was none
