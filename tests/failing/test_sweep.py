"""Every failure of every operation that writes: a sample in the normal run, all under `full`."""

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.failing.operations import OPERATIONS
from tests.failing.preload import MEMORY, compiled, compiler
from tests.program import ROOT

QUICK = {  # how many are drawn; 0: all of them
    "settings-theme": 0,
    "kernel": 12,
    "tune": 12,
    "output": 12,
    "move": 12,
    "fetch": 12,
    "fetch-ranges": 10,
    "chat-new": 12,
    "chat-edit": 12,
    "chat-import": 10,
}
RANDOM = 300  # failures of an operation, each maybe with a kill later

pytestmark = pytest.mark.skipif(
    compiler() is None or sys.platform != "linux", reason="needs Linux and a C compiler (cc)"
)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("calls"))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    in_memory = MEMORY if os.access(MEMORY, os.W_OK) else tmp_path
    with tempfile.TemporaryDirectory(dir=in_memory, prefix="cutaway-") as made:
        yield Path(made)


def swept(library: Path, operation: str, folder: Path, *options: str) -> dict[str, Any]:
    """What a sweep printed."""
    of_folder = {name: str(folder / "home" / name) for name in ("HOME", "CUTAWAY_CACHE")}
    environment = {**os.environ, **of_folder, "LD_PRELOAD": str(library)}
    environment |= {"OPENBLAS_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "0"}
    words = [sys.executable, "-m", "tests.failing.sweep", operation, str(folder / "f"), *options]
    (folder / "f").mkdir()
    ended = subprocess.run(
        words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    result: dict[str, Any] = json.loads(ended.stdout)
    print(f"{operation}: {result['calls']} calls, {result['injected']} failures")
    return result


@pytest.mark.parametrize("operation", QUICK)
def test_drawn(library: Path, folder: Path, operation: str) -> None:
    result = swept(library, operation, folder, "--few", str(QUICK[operation]))
    assert result["wrong"] == []
    assert result["injected"] >= 10


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_call(library: Path, folder: Path, operation: str) -> None:
    result = swept(library, operation, folder)
    assert result["wrong"] == []
    assert result["injected"] == 10 * result["calls"] + 3


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_at_random(library: Path, folder: Path, operation: str) -> None:
    seed = os.environ.get("CUTAWAY_SEED") or str(random.randrange(1 << 32))
    print(f"CUTAWAY_SEED={seed}")
    result = swept(library, operation, folder, "--random", str(RANDOM), "--seed", seed)
    assert result["wrong"] == []
