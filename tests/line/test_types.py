"""Types are right: a test, so that it runs beside others."""

import subprocess
import sys
from pathlib import Path

from filelock import FileLock

from engine.settings import cache_folder

ROOT = Path(__file__).parents[2]


def test_mypy() -> None:
    """What was found of a file holds in every checkout that has the same: one cache for all, as of
    kernels, used by one at a time.
    """
    folder = cache_folder() / "mypy"
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(folder)]
    with FileLock(f"{folder}.lock"):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
