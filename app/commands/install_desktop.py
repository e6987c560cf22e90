"""`cutaway install-desktop`: an entry in the desktop's menu, and `.gguf` opened by a double click.

Formats: the Desktop Entry, Shared MIME-info and Icon Theme specifications of freedesktop.org, and
AppStream's metainfo. All files are the user's own, below XDG_DATA_HOME.
"""

import argparse
import os
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from xml.sax.saxutils import escape

from app.files import write_atomically
from app.version import version
from engine.errors import CutawayError

NAME = "install-desktop"
HELP = "add Cutaway to the desktop's menu and open .gguf files with it"

TYPE = "application/x-gguf"
ENTRY = """[Desktop Entry]
Type=Application
Name=Cutaway
GenericName=Workbench for local models
Comment=Chat with a GGUF model and see inside while it runs
Exec={command} window %f
Icon=cutaway
Terminal=false
Categories=Development;Science;
Keywords=LLM;GGUF;chat;model;AI;
MimeType={type};
StartupWMClass=cutaway
"""
MIME = """<?xml version="1.0" encoding="UTF-8"?>
<mime-info xmlns="http://www.freedesktop.org/standards/shared-mime-info">
  <mime-type type="{type}">
    <comment>GGUF model</comment>
    <icon name="cutaway"/>
    <magic priority="60"><match type="string" offset="0" value="GGUF"/></magic>
    <glob pattern="*.gguf"/>
  </mime-type>
</mime-info>
"""
METAINFO = """<?xml version="1.0" encoding="UTF-8"?>
<component type="desktop-application">
  <id>io.github.cutaway</id>
  <name>Cutaway</name>
  <summary>Chat with local models and see inside while they run</summary>
  <metadata_license>MIT</metadata_license>
  <project_license>MIT</project_license>
  <description>
    <p>Open a GGUF file, chat with it, drag images in, and see the memory of every device, where
    each layer lives, the numbers in any tensor, and how a word came to be.</p>
  </description>
  <launchable type="desktop-id">cutaway.desktop</launchable>
  <provides><mediatype>{type}</mediatype><binary>cutaway</binary></provides>
  <content_rating type="oars-1.1"/>
  <releases><release version="{version}" date="2026-11-24"/></releases>
</component>
"""
# Programs that renew a desktop's caches; a desktop without them needs none.
RENEW = {
    "update-desktop-database": "applications",
    "update-mime-database": "mime",
    "gtk-update-icon-cache": "icons/hicolor",
}
SPECIAL = set(" \t\n\"'\\><~|&;$*?#()`")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("--remove", action="store_true", help="take it out again")


def run(args: argparse.Namespace) -> int:
    """Writes or removes the files. Raises CutawayError where there is no such desktop."""
    if sys.platform != "linux":
        raise CutawayError("install-desktop is for Linux desktops; this system has its own way")
    folder = _data_home()
    for name, content in _contents().items():
        path = folder / name
        try:
            if args.remove:
                path.unlink(missing_ok=True)
            else:
                write_atomically(path, content)
                path.chmod(0o644)
        except OSError as error:
            raise CutawayError(f"{path}: {error.strerror}") from None
        print(f"{'removed' if args.remove else 'wrote'} {path}")
    for program, place in RENEW.items():
        found = shutil.which(program)
        if found and (folder / place).is_dir():
            subprocess.run([found, folder / place], capture_output=True, check=False, timeout=60)
    return 0


def _contents() -> dict[str, bytes]:
    """The files, by their names below XDG_DATA_HOME."""
    icon = (files("resources") / "desktop" / "cutaway.svg").read_bytes()
    texts = {
        "applications/cutaway.desktop": ENTRY.format(command=_command(), type=TYPE),
        "mime/packages/cutaway.xml": MIME.format(type=TYPE),
        "metainfo/io.github.cutaway.metainfo.xml": METAINFO.format(
            type=TYPE, version=escape(version())
        ),
    }
    contents = {name: text.encode() for name, text in texts.items()}
    contents["icons/hicolor/scalable/apps/cutaway.svg"] = icon
    contents["icons/hicolor/scalable/mimetypes/application-x-gguf.svg"] = icon
    return contents


def _command() -> str:
    """This Python with this program, or the launcher of a bundle (resources/package/bundle.py), by
    the quoting rules of desktop entries.
    """
    launcher = os.environ.get("CUTAWAY_LAUNCHER")
    words = (launcher,) if launcher else (sys.executable, "-m", "cutaway")
    return " ".join(map(quoted, words))


def quoted(word: str) -> str:
    word = word.replace("%", "%%")
    if not SPECIAL & set(word):
        return word
    inside = "".join(f"\\{letter}" if letter in '"`$\\' else letter for letter in word)
    return '"' + inside.replace("\\", "\\\\") + '"'


def _data_home() -> Path:
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
