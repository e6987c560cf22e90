"""A home that the program has filled itself, with a file of each kind, which is put back after each
cell; and the process that opens its doors.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from app.checks.kept import Kind
from tests.damage.damages import DAMAGES, failing
from tests.failing.preload import MEMORY, compiled, compiler
from tests.goldens.tiny import write_wide
from tests.program import ROOT

FOLDERS = {"DATA": "data", "CACHE": "cache", "CONFIG": "config", "STATE": "state"}


class Seen(NamedTuple):
    """What a door showed: its answer, and everything that was said on the side."""

    status: int
    out: str
    err: str
    told: str
    late: bool

    @property
    def answer(self) -> tuple[str, ...]:
        """What must be the same with and without a file."""
        return (self.told,) if self.told else (self.out, str(self.status))

    @property
    def said(self) -> str:
        """Every word."""
        return f"{self.out}\n{self.err}\n{self.told}"


class Home:
    """The model's own file stays as it is, so that what is prepared of it still fits."""

    def __init__(self, top: Path) -> None:
        self.top, self.home = top, top / "home"
        self._pristine = top / "pristine"
        for name in ("home", "run", "told"):
            (top / name).mkdir()
        (top / "run").chmod(0o700)
        models = self.home / "data" / "cutaway" / "models"
        models.mkdir(parents=True)
        self.model, self.other = models / "tiny.gguf", models / "other.gguf"
        shutil.copy(write_wide(self.model), self.other)  # alike: kernels that are built serve both
        (models / "half.gguf.part").write_bytes(b"the first half" * 1000)
        environment = {
            k: v for k, v in os.environ.items() if not k.startswith(("CUTAWAY", "PYTEST"))
        }
        environment |= self.variables | {
            "XDG_RUNTIME_DIR": str(top / "run"),
            "PYTHONFAULTHANDLER": "0",
        }
        if compiler():
            environment["LD_PRELOAD"] = str(compiled(top))
        self._doors = subprocess.Popen(
            [sys.executable, "-m", "tests.damage.doors", str(top / "told")],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @property
    def variables(self) -> dict[str, str]:
        """The environment that makes it the home."""
        named = {f"XDG_{name}_HOME": str(self.home / place) for name, place in FOLDERS.items()}
        return named | {"HOME": str(self.home), "HF_HOME": str(self.home / "hf")}

    def fill(self) -> None:
        """Have the program leave all that it keeps."""
        for door in ("fill", "measure", "run", "models", "window"):
            seen = self.open(door)
            assert seen.status == 0, (door, seen)
        self.keep()

    def keep(self) -> None:
        """What is there now is what is put back."""
        shutil.copytree(self.home, self._pristine, symlinks=True)

    def put_back(self) -> None:
        """Everything, but for the model, as it was."""
        for path in self.home.rglob("*"):
            if (path.is_symlink() or not path.is_dir()) and path != self.model:
                path.unlink()
        for path in sorted(self.home.rglob("*"), reverse=True):
            if path.is_dir() and path != self.model.parent and not any(path.iterdir()):
                path.rmdir()
        for path in self._pristine.rglob("*"):
            to = self.home / path.relative_to(self._pristine)
            if path.is_dir():
                to.mkdir(exist_ok=True)
            elif to != self.model:
                shutil.copy2(path, to)

    def has(self, kind: Kind) -> bool:
        """True if there is a file of that kind."""
        return any(kind.folder().glob(kind.pattern))

    def file(self, kind: Kind) -> Path:
        """The file of that kind."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.variables.items():
                patch.setenv(name, value)
            if kind.name == "model files":
                return self.other
            return max(kind.folder().glob(kind.pattern), key=lambda path: path.stat().st_size)

    def damage(self, kind: Kind, damage: str) -> Path:
        """Damage that file."""
        self._damaged = self.file(kind)
        DAMAGES[damage](self._damaged)
        return self._damaged

    def open(self, door: str, kind: Kind | None = None, damage: str = "") -> Seen:
        """Open a door."""
        model = self.other if kind and kind.name == "model files" else self.model
        fail = failing(damage, self._damaged, self.home) if kind else {}
        asked = {"door": door, "model": str(model), "fail": fail}
        assert self._doors.stdin is not None
        assert self._doors.stdout is not None
        self._doors.stdin.write(json.dumps(asked) + "\n")
        self._doors.stdin.flush()
        line = self._doors.stdout.readline()
        assert line, "the doors' process ended"
        told: dict[str, Any] = json.loads(line)
        return Seen(told["status"], told["out"], told["err"], told["told"], told["late"])

    def close(self) -> None:
        """Ends the process of the doors."""
        assert self._doors.stdin is not None
        self._doors.stdin.close()
        self._doors.wait()


@contextmanager
def filled_home() -> Iterator[Home]:
    """A home that is filled."""
    in_memory = MEMORY if os.access(MEMORY, os.W_OK) else None
    top = Path(tempfile.mkdtemp(prefix="cutaway-damage-", dir=in_memory))
    home = Home(top)
    try:
        home.fill()
        yield home
    finally:
        home.close()
        shutil.rmtree(top, ignore_errors=True)
