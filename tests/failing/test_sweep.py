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


class Sweeper:
    """The process that sweeps, which has imported the program."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "log"
        home = {name: str(folder / name) for name in ("HOME", "CUTAWAY_CACHE")}
        environment = {**os.environ, **home, "LD_PRELOAD": str(compiled(folder))}
        environment |= {"OPENBLAS_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "0"}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.failing.sweep"],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def sweep(self, operation: str, folder: Path, *options: str) -> dict[str, Any]:
        """What a sweep printed."""
        (folder / "f").mkdir()
        of_folder = {name: str(folder / "home" / name) for name in ("HOME", "CUTAWAY_CACHE")}
        words = [operation, str(folder / "f"), *options]
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([words, of_folder]) + "\n")
        self._process.stdin.flush()
        result: dict[str, Any] | None = json.loads(self._process.stdout.readline() or "null")
        assert result is not None, self._log.read_text(errors="replace")[-3000:]
        print(f"{operation}: {result['calls']} calls, {result['injected']} failures")
        return result

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@pytest.fixture(scope="module")
def sweeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sweeper]:
    made = Sweeper(tmp_path_factory.mktemp("sweeper"))
    yield made
    made.close()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    in_memory = MEMORY if os.access(MEMORY, os.W_OK) else tmp_path
    with tempfile.TemporaryDirectory(dir=in_memory, prefix="cutaway-") as made:
        yield Path(made)


@pytest.mark.parametrize("operation", QUICK)
def test_drawn(sweeper: Sweeper, folder: Path, operation: str) -> None:
    result = sweeper.sweep(operation, folder, "--few", str(QUICK[operation]))
    assert result["wrong"] == []
    assert result["injected"] >= 10


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_call(sweeper: Sweeper, folder: Path, operation: str) -> None:
    result = sweeper.sweep(operation, folder)
    assert result["wrong"] == []
    assert result["injected"] == 10 * result["calls"] + 3


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_at_random(sweeper: Sweeper, folder: Path, operation: str) -> None:
    seed = os.environ.get("CUTAWAY_SEED") or str(random.randrange(1 << 32))
    print(f"CUTAWAY_SEED={seed}")
    result = sweeper.sweep(operation, folder, "--random", str(RANDOM), "--seed", seed)
    assert result["wrong"] == []
