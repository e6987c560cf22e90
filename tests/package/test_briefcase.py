"""The recipe for installers: what Briefcase would put together, put together here and started."""

import shutil
import sys
import sysconfig
import tomllib
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.package.test_wheel import ROOT, run

STUB = """#!/bin/sh
# As Briefcase's own: an isolated Python inside runs the app, whatever the words are.
exec {python} -I -c 'import runpy, sys
sys.executable = "{stub}"
sys.path[:0] = ["{sources}", "{packages}"]
runpy._run_module_as_main("cutaway")' "$@"
"""


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def stub(project: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of an app folder with the recipe's sources."""
    folder = tmp_path_factory.mktemp("briefcase")
    for source in project["tool"]["briefcase"]["app"]["cutaway"]["sources"]:
        ignored = shutil.ignore_patterns("__pycache__", "screenshots")
        shutil.copytree(ROOT / source, folder / "app" / Path(source).name, ignore=ignored)
    packages = folder / "packages"
    packages.mkdir()
    # Not a .pth file: the checkout is installed there, and must not be found.
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "cutaway" not in entry.name:
            (packages / entry.name).symlink_to(entry)
    program = folder / "Cutaway"
    places = {"python": sys.executable, "stub": program, "packages": packages}
    program.write_text(STUB.format(**places, sources=folder / "app"))
    program.chmod(0o755)
    return program


@pytest.mark.device
def test_its_children_start_though_no_python_is_beside_it(stub: Path, own_home: Path) -> None:
    sample = stub.parent / "app" / "resources" / "demo" / "sample.png"
    words = ["run", "shapes", "--image", str(sample), "-p", "Describe the picture."]
    said = run([str(stub), *words, "--temp", "0"], own_home)
    assert any(shape in said for shape in ("circle", "square", "triangle", "star")), said


def test_a_file_runs_as_with_python(stub: Path, own_home: Path) -> None:
    (own_home / "words.py").write_text("import sys\nprint(__name__, sys.argv[1:])")
    said = run([str(stub), "-P", str(own_home / "words.py"), "one"], own_home)
    assert said.strip() == "__main__ ['one']"


def test_the_recipe_names_the_extras(project: dict[str, Any]) -> None:
    extras = project["project"]["optional-dependencies"]
    recipe = project["tool"]["briefcase"]["app"]["cutaway"]["requires"]
    assert sorted(recipe) == sorted([*extras["serve"], *extras["mcp"]])


@pytest.mark.parametrize(("name", "size"), [("cutaway.ico", 256), ("cutaway.icns", 512)])
def test_an_icon_has_the_sizes_of_its_system(name: str, size: int) -> None:
    with Image.open(ROOT / "resources" / "package" / "icons" / name) as icon:
        assert icon.size[0] >= size
        sizes = {entry[0] for entry in icon.info["sizes"]}
        assert {32, 256} <= sizes
