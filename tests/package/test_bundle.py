"""The archive with its own Python (resources/package/bundle.py): it starts without another."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from app.commands.doctor import QT_LIBRARIES

ROOT = Path(__file__).parents[2]
MOST = 250 * 2**20  # bytes of the archive
OF_THE_C_LIBRARY = re.compile(r"(ld-linux.*|lib(c|m|dl|pthread|rt|resolv|util))\.so\.\d+")
WINDOW = """
from PySide6.QtWidgets import QApplication
import cutaway
from app.window.program import shown_window
with shown_window(QApplication([])) as window:
    print(window.windowTitle())
"""

pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.full,
    pytest.mark.skipif(shutil.which("patchelf") is None, reason="needs patchelf"),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpacked elsewhere than where it was made."""
    folder, elsewhere = tmp_path_factory.mktemp("bundle"), tmp_path_factory.mktemp("else where")
    command = [sys.executable, ROOT / "resources" / "package" / "bundle.py", folder]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (archive,) = folder.glob("*.tar.xz")
    assert archive.stat().st_size < MOST
    subprocess.run(["tar", "-xf", archive, "-C", elsewhere], check=True)
    (unpacked,) = elsewhere.iterdir()
    return unpacked


def test_it_needs_nothing_of_a_system_but_the_c_library(made: Path) -> None:
    here = {path.name for path in made.rglob("*.so*")}
    lacking: dict[str, str] = {}
    for path in made.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.read_bytes()[:4] == b"\x7fELF":
            told = subprocess.run(["readelf", "-d", path], capture_output=True, text=True)
            names = re.findall(r"\(NEEDED\).*\[(.+)\]", told.stdout)
            assert "/" not in "".join(names)
            outside = [n for n in names if n not in here and not OF_THE_C_LIBRARY.fullmatch(n)]
            lacking |= dict.fromkeys(outside, path.name)
    assert not lacking


def test_it_brings_every_library_that_the_window_looks_for(made: Path) -> None:
    """Without one, `cutaway window` on a bare system ends with a package to install."""
    assert set(QT_LIBRARIES) <= {path.name for path in made.rglob("*.so*")}


def test_it_brings_what_its_kernels_are_linked_with(made: Path) -> None:
    (scripts,) = made.rglob("drivers/libraries")
    for script in scripts.glob("*.so"):
        for name in re.findall(r"\blib[\w.]+", script.read_text()):
            assert OF_THE_C_LIBRARY.fullmatch(name) or (scripts / name).is_file(), name


@pytest.mark.parametrize("command", [["--version"], ["devices"], ["inspect", "shapes"]], ids=str)
def test_it_starts(made: Path, tmp_path: Path, command: list[str]) -> None:
    wrong = "/nowhere"  # which other programs' settings must not lead it to
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "PYTHONPATH": wrong}
    ended = subprocess.run(
        [made / "cutaway", *command],
        cwd=tmp_path,
        env=environment | {"PYTHONHOME": wrong},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout


def test_its_window_opens(made: Path, tmp_path: Path) -> None:
    (python,) = made.glob("bin/python3*")
    environment = {"HOME": str(tmp_path), "PATH": "", "QT_QPA_PLATFORM": "offscreen"}
    ended = subprocess.run(
        [python, "-P", "-c", WINDOW],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "Cutaway" in ended.stdout
