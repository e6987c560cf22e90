"""Every module imports in a process from which what Linux alone has is taken away."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_module_imports() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "tests.line.elsewhere"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert int(ended.stdout.split()[0]) > 800
