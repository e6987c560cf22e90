"""The room of the tests: many at once, or one alone, who is not overtaken."""

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.line.alone import INSIDE
from tests.program import ROOT

ENTERS = """
import sys, time
from pathlib import Path
from tests.line.alone import room
alone, name, folder = sys.argv[1] == "alone", sys.argv[2], Path(sys.argv[3])
with room(alone):
    (folder / name).touch()
    while (folder / f"{name}-stays").exists():
        time.sleep(0.01)
"""


class Someone:
    """A process that goes in and stays until it is told to leave."""

    def __init__(self, kind: str, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        self.stays = folder / f"{name}-stays"
        self.stays.touch()
        environment = {k: v for k, v in os.environ.items() if k != INSIDE}
        environment["PYTHONPATH"] = str(folder)
        words = [sys.executable, "-c", ENTERS, kind, name, str(folder)]
        self.process = subprocess.Popen(words, cwd=folder, env=environment)

    def inside(self) -> bool:
        return (self.folder / self.name).exists()

    def comes_in(self) -> None:
        while not self.inside():
            assert self.process.poll() is None
            time.sleep(0.01)

    def leave(self) -> None:
        self.stays.unlink()
        assert self.process.wait(60) == 0


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """Another checkout, so that the room is not the one that this test is in."""
    (tmp_path / "tests" / "line").mkdir(parents=True)
    for name in ("__init__.py", "line/__init__.py", "line/alone.py", "line/smoke.py"):
        (tmp_path / "tests" / name).write_bytes((ROOT / "tests" / name).read_bytes())
    return tmp_path


def gate_is_open(house: Path) -> bool:
    with (house / "tests" / "line" / "alone.py").open() as gate:
        try:
            fcntl.flock(gate, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_many_or_one_alone(house: Path) -> None:
    first, second = (Someone("many", name, house) for name in ("first", "second"))
    first.comes_in()
    second.comes_in()
    alone = Someone("alone", "alone", house)
    while gate_is_open(house):
        time.sleep(0.01)
    late = Someone("many", "late", house)
    time.sleep(0.5)
    assert not alone.inside()
    first.leave()
    second.leave()
    alone.comes_in()
    assert not late.inside()
    alone.leave()
    late.comes_in()
    late.leave()
