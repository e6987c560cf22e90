"""Modules import, and a little of everything runs, where what Linux alone has is taken away."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LITTLE = (
    "tests/engine/test_system.py",
    "tests/engine/tokenizer/test_chat.py::test_memory_is_bounded",
    "tests/engine/test_worker.py::test_cancel_while_answering",
    "tests/engine/test_worker_prefixes.py::test_what_is_private_is_not_written",
    "tests/app/report/test_gather.py::test_a_device_that_is_not_there",
    "tests/app/tools/test_host.py::test_a_server_that_hangs_is_given_up",
)
"""Locks, limits, the worker by an address, a kept file renamed, a report without /proc, a server
ended."""
SAME = "tests/engine/test_system.py::test_the_types_hold_on_other_systems"
"""Mypy's answer, which does not depend on where it runs."""


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


def test_a_little_runs_as_if_on_windows() -> None:
    """All of it: `pytest -p tests.line.as_windows tests/engine tests/app`."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.line.as_windows"]
        + ["-p", "no:cacheprovider", "--deselect", SAME, *LITTLE],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-5000:]
    found = re.search(r"(\d+) passed, (\d+) skipped", ended.stdout)
    assert found is not None, ended.stdout[-500:]
    assert int(found[1]) > int(found[2])
    assert "only Linux: " in ended.stdout


def test_what_is_redirected_is_utf8_as_if_on_windows(tmp_path: Path) -> None:
    """In place of the user's code page, which has no such letters."""
    name = "\u65e5\u672c\u8a9e.gguf"
    code = (
        "import tests.line.as_windows, sys; from app.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, "inspect", str(tmp_path / name)],
        cwd=ROOT,
        env=os.environ | {"PYTHONIOENCODING": "cp1252"},
        capture_output=True,
        check=False,
    )
    assert ended.returncode == 1
    assert name in ended.stderr.decode("utf-8")
