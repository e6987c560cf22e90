"""The model that comes with the program: it sees drawn shapes, and there is nothing to fetch."""

from importlib.resources import files
from pathlib import Path

NAME = "shapes"

_FOLDER = Path(str(files("resources") / "demo"))


def model() -> Path:
    """The text model's file."""
    return _FOLDER / "cutaway-shapes-q8_0.gguf"


def projector() -> Path:
    """The file of the tower that sees, beside it."""
    return _FOLDER / "mmproj-cutaway-shapes-f16.gguf"


def is_there() -> bool:
    """Whether this copy of the program has both."""
    return model().is_file() and projector().is_file()
