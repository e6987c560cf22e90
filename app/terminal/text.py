"""What people see beside an answer: notes on stderr, and text that cannot steer their terminal."""

import os
import sys


def interactive() -> bool:
    """Whether somebody can be asked: both what we read and where we ask are a terminal."""
    return bool(sys.stdin and sys.stdin.isatty() and sys.stderr.isatty())


def confirm(question: str) -> bool:
    """Asks at the terminal; anything but a yes is a no."""
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def aside(text: str) -> None:
    """Prints a dim line on stderr, where that is a terminal; nothing elsewhere."""
    if sys.stderr.isatty():
        plain = os.environ.get("NO_COLOR")
        print(text if plain else f"\x1b[2m{text}\x1b[0m", file=sys.stderr, flush=True)


def note(text: str) -> None:
    """Prints a line on stderr that programs and people alike should get."""
    print(f"cutaway: {text}", file=sys.stderr, flush=True)


def tame(text: str) -> str:
    """`text` with its control characters spelled out, except ends of lines and tabs."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else _spelled(c) for c in text)


def _spelled(c: str) -> str:
    # Spaces, joiners and direction marks are not "printable" in Python's sense, and harmless.
    return c if ord(c) > 0x9F else repr(c)[1:-1]
