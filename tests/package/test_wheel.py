"""The wheel, installed into an environment of its own, far from the repository."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from engine.settings import cache_folder

ROOT = Path(__file__).parents[2]
KERNELS = {"CUTAWAY_CACHE": str(cache_folder())}  # as of all tests: only a first run builds them
WINDOW = """
from PySide6.QtWidgets import QApplication
import cutaway
from app.window.program import shown_window
app = QApplication([])
with shown_window(app) as window:
    app.processEvents()
    print(window.windowTitle(), window.__class__.__module__, __import__("app").__file__)
"""


def build(folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment with the wheel, and the dependencies of this one."""
    place = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    paths = {"base": str(place), "platbase": str(place)}
    packages = Path(sysconfig.get_path("purelib", "venv", vars=paths))
    # Files of this kind in that folder are not read, so that the checkout is not found through it.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    command = [sys.executable, "-m", "pip", "--python", str(place / "bin" / "python")]
    command += ["install", "-q", "--no-deps", "--no-index", "--ignore-installed", str(wheel)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return place / "bin"


def run(command: list[str], home: Path) -> str:
    outside = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    env = outside | {"HOME": str(home), "QT_QPA_PLATFORM": "offscreen"} | KERNELS
    ended = subprocess.run(
        command, cwd=home, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_one_name_at_the_top(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names} == {"cutaway", f"{wheel.name[:13]}.dist-info"}
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    parts = ("app/", "engine/", "kernels_cl/", "resources/")
    wanted = {name for name in tracked.stdout.splitlines() if name.startswith(parts)}
    apart = ("resources/screenshots/", "resources/package/")
    wanted = {name for name in wanted if not name.startswith(apart)}
    if wanted:
        inside = {name.removeprefix("cutaway/parts/") for name in names if "/parts/" in name}
        assert inside >= wanted


def test_it_is_made_equal_again(wheel: Path, tmp_path: Path) -> None:
    assert build(tmp_path).read_bytes() == wheel.read_bytes()


@pytest.mark.device
def test_it_answers(installed: Path, own_home: Path) -> None:
    sample = next((installed.parent / "lib").glob("**/cutaway/parts/resources/demo/sample.png"))
    words = ["run", "shapes", "--image", str(sample), "-p", "Describe the picture."]
    said = run([str(installed / "cutaway"), *words, "--temp", "0"], own_home)
    assert any(shape in said for shape in ("circle", "square", "triangle", "star")), said


def test_its_window_opens(installed: Path, own_home: Path) -> None:
    said = run([str(installed / "python"), "-c", WINDOW], own_home)
    assert "Cutaway app.window.main_window" in said
    assert "/cutaway/parts/app/" in said


def test_its_pdf_reader_is_found(installed: Path, own_home: Path) -> None:
    pdf = ROOT / "tests" / "goldens" / "documents" / "pages.pdf"
    code = (
        f"import cutaway\nfrom pathlib import Path\nfrom app.documents.pdf import read_pdf\n"
        f"print(read_pdf(Path({str(pdf)!r}), 'a').text)"
    )
    assert "Marta Olsen" in run([str(installed / "python"), "-c", code], own_home)
