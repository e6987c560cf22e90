"""The model that comes with the program: it sees drawn shapes, and there is nothing to fetch."""

from importlib.resources import files
from pathlib import Path

from app.language import mark

NAME = "shapes"
KNOWS = mark(
    "This small model knows drawn shapes only: circles, squares, triangles, stars, rings and"
    " crosses, up to four in a picture."
)
QUESTIONS = ("How many shapes are there?", "Where is the circle?", "What colour is the square?")
"""About the sample; it answered each rightly with 150 of 150 seeds at the default sampling."""

_FOLDER = Path(str(files("resources") / "demo"))


def model() -> Path:
    """The text model's file."""
    return _FOLDER / "cutaway-shapes-q8_0.gguf"


def projector() -> Path:
    """The file of the tower that sees, beside it."""
    return _FOLDER / "mmproj-cutaway-shapes-f16.gguf"


def sample() -> Path:
    """A picture of three shapes, drawn as those that it learned from."""
    return _FOLDER / "sample.png"


def is_there() -> bool:
    """Return whether this installation has both files."""
    return model().is_file() and projector().is_file()
