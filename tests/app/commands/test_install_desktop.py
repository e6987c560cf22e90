"""The menu entry, the file type and the icon: valid by the desktop's own checkers, and removed."""

import configparser
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from app.cli import main
from app.commands import install_desktop

pytestmark = pytest.mark.only_linux("the desktop's folders and checkers")


@pytest.fixture
def share(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(own_home / "share"))
    assert main(["install-desktop"]) == 0
    return own_home / "share"


def entry(share: Path) -> configparser.SectionProxy:
    parser = configparser.RawConfigParser()
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(share / "applications" / "cutaway.desktop", "utf-8")
    return parser["Desktop Entry"]


def test_its_command_starts_this_program(share: Path) -> None:
    words = shlex.split(entry(share)["Exec"].replace("%f", ""))
    assert words == [sys.executable, "-m", "cutaway", "window"]
    said = subprocess.run(
        [*words[:-1], "--version"], capture_output=True, text=True, check=True, cwd=share
    )
    assert said.stdout.startswith("cutaway ")
    assert entry(share)["MimeType"] == "application/x-gguf;"


def test_a_gguf_file_has_its_type_by_name_and_by_magic(share: Path) -> None:
    made = ElementTree.parse(share / "mime" / "packages" / "cutaway.xml")
    space = "{http://www.freedesktop.org/standards/shared-mime-info}"
    match = made.find(f".//{space}match")
    glob = made.find(f".//{space}glob")
    assert match is not None
    assert glob is not None
    assert (match.get("offset"), match.get("value")) == ("0", "GGUF")
    assert glob.get("pattern") == "*.gguf"


CHECKERS = (
    ("desktop-file-validate", "applications/cutaway.desktop"),
    ("appstreamcli", "metainfo/io.github.cutaway.metainfo.xml"),
)


@pytest.mark.parametrize(("checker", "file"), CHECKERS, ids=[name for name, _ in CHECKERS])
def test_the_desktops_own_checkers_agree(share: Path, checker: str, file: str) -> None:
    found = shutil.which(checker)
    if found is None:
        pytest.skip(f"{checker} is not installed")
    options = ["validate", "--no-net"] if checker == "appstreamcli" else []
    said = subprocess.run(
        [found, *options, share / file], capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stdout + said.stderr


def test_it_is_taken_out_again(share: Path) -> None:
    written = {path for path in share.rglob("*") if path.is_file() and "cutaway" in path.name}
    assert len(written) == 4
    assert main(["install-desktop", "--remove"]) == 0
    assert not any(path.exists() for path in written)
    assert main(["install-desktop", "--remove"]) == 0


def test_a_path_with_spaces_is_quoted() -> None:
    assert install_desktop.quoted("/a/b") == "/a/b"
    assert install_desktop.quoted("/my files/50% $x") == '"/my files/50%% \\\\$x"'
