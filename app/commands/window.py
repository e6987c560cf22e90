"""`cutaway window`: opens the window; so does `cutaway` alone."""

import argparse
import os
import sys
from pathlib import Path

from app.language import NAMES, Language, of_system, use
from engine.errors import CutawayError

NAME = "window"
HELP = "open the window (default command)"


class NoWindow(CutawayError):
    """A machine without a screen, or without what Qt needs."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("model", metavar="MODEL", nargs="?", help="path, stored name or org/repo")
    parser.add_argument(
        "--language", choices=NAMES, help="of the window, instead of the preferences'"
    )


def run(args: argparse.Namespace) -> int:
    """Status of the window's program. Raises ModelNotFound, and NoWindow with the next step."""
    model = None
    if args.model is not None:
        from app.library import resolve

        model = resolve(args.model)
    return open_window(model, args.language)


def open_window(model: Path | None = None, language: Language | None = None) -> int:
    """Checks what Qt itself would abort on, then opens the window in `language`, by default that of
    the preferences or of the system.
    """
    _check_screen()
    try:
        from app.state.preferences import chosen_language

        use(language or chosen_language() or of_system())
        from app.window.program import open_window as show
    except ImportError as error:
        raise NoWindow(_why(error)) from None
    return show(model)


def _check_screen() -> None:
    """Without a screen, or a library of the xcb plug-in, Qt ends the process instead of raising."""
    if sys.platform != "linux" or os.environ.get("QT_QPA_PLATFORM"):
        return
    if not os.environ.get("DISPLAY") and not os.environ.get("WAYLAND_DISPLAY"):
        raise NoWindow(
            "no screen: neither DISPLAY nor WAYLAND_DISPLAY is set; "
            "`cutaway run` chats in the terminal"
        )
    packages = _missing()
    if packages:
        raise NoWindow(f"the window needs system libraries; next: {_install(packages)}")


def _why(error: ImportError) -> str:
    packages = _missing()
    if packages:
        return f"the window needs system libraries ({error}); next: {_install(packages)}"
    return f"Qt cannot be loaded ({error}); next: pip install 'PySide6-Essentials'"


def _missing() -> list[str]:
    from app.commands.doctor import missing_packages

    return missing_packages()


def _install(packages: list[str]) -> str:
    return f"apt-get install -y --no-install-recommends {' '.join(packages)}"
