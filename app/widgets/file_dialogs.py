"""Dialogs for files. They start in the folder that was used last, at first in the home folder."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtWidgets import QFileDialog, QWidget


class _Last:
    """The folder that was used last, and what keeps it for the next run."""

    folder = ""
    keep: Callable[[str], object] = staticmethod(lambda folder: None)


def start_in(folder: str, keep: Callable[[str], object]) -> None:
    """Begin with a folder; `keep` is called with each other one that is used."""
    _Last.folder, _Last.keep = folder, staticmethod(keep)


def open_file(parent: QWidget, title: str, kinds: str = "", at: str = "") -> str:
    """The file that a person chooses, empty for none; `at` is where to start, if not as usual."""
    path, _ = QFileDialog.getOpenFileName(parent, title, at or _place(), kinds)
    return _used(path, Path(path).parent)


def open_files(parent: QWidget, title: str, kinds: str = "", at: str = "") -> list[str]:
    """The files that a person chooses."""
    paths, _ = QFileDialog.getOpenFileNames(parent, title, at or _place(), kinds)
    for path in paths[:1]:
        _used(path, Path(path).parent)
    return list(paths)


def save_file(parent: QWidget, title: str, name: str, kinds: str = "") -> tuple[str, str]:
    """The file to write, empty for none, and the kind that was chosen; `name` is offered."""
    path, kind = QFileDialog.getSaveFileName(parent, title, str(Path(_place(), name)), kinds)
    return _used(path, Path(path).parent), kind


def choose_folder(parent: QWidget, title: str, at: str = "") -> str:
    """The folder that a person chooses, empty for none."""
    folder = QFileDialog.getExistingDirectory(parent, title, at or _place())
    return _used(folder, Path(folder))


def _place() -> str:
    last = Path(_Last.folder)
    return str(last if _Last.folder and last.is_dir() else Path.home())


def _used(path: str, folder: Path) -> str:
    if path and str(folder) != _Last.folder:
        _Last.folder = str(folder)
        _Last.keep(_Last.folder)
    return path
