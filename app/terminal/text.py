"""All that commands write: text that cannot steer a terminal, notes on stderr, JSON for programs.

`tamed_output` puts a `Tamed` stream in the place of stdout and stderr, so that plain `print` is
safe whatever it is given: a model's metadata, a template's error, a file's name. Only what is
certainly ours (`control`), or goes to a file or a program (`raw`), passes around it.
"""

import json
import math
import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from engine.errors import BadSetting

LONGEST = 2000  # characters of a line; longer ones lose their middle
MOST_TEXT = 64 << 20  # bytes of text that a command takes in
CONTROLS = re.compile(r"[\x7f-\x9f]")  # control characters that JSON does not escape by itself


class OutputError(OSError):
    """The terminal, pipe or file behind stdout or stderr takes no more."""


class Tamed:
    """A text stream whose lines are tamed and cut on their way to `beneath`.

    Raises OutputError where they cannot be written, BrokenPipeError where nobody reads them.
    """

    def __init__(self, beneath: TextIO) -> None:
        self.beneath = beneath

    def write(self, text: str) -> int:
        """Write text like a stream."""
        with _named():
            self.beneath.write(shown(text))
        return len(text)

    def flush(self) -> None:
        """Write what is buffered."""
        with _named():
            self.beneath.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.beneath, name)


@contextmanager
def _named() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(error.errno, error.strerror) from None


@contextmanager
def tamed_output() -> Iterator[None]:
    """While entered, stdout and stderr are `Tamed`."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (s and (s if isinstance(s, Tamed) else Tamed(s)) for s in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def shown(text: str) -> str:
    """`text` as a terminal may get it: tamed, and each line at most LONGEST characters."""
    tamed = tame(text)
    if len(tamed) <= LONGEST:
        return tamed
    return "\n".join(map(shortened, tamed.split("\n")))


def shortened(line: str) -> str:
    """A line of at most LONGEST characters, its end kept: there stands what to do next."""
    if len(line) <= LONGEST:
        return line
    left_out = f" [… {len(line) - LONGEST:,} characters …] "
    end = LONGEST // 4
    return line[: LONGEST - end - len(left_out)] + left_out + line[-end:]


def tame(text: str) -> str:
    """`text` with its control characters spelled out, except ends of lines and tabs."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else _spelled(c) for c in text)


def plain(text: str) -> str:
    """`text` on one line, without what would steer a terminal; for the cell of a table."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _spelled(c: str) -> str:
    # Spaces, joiners and direction marks are not "printable" in Python's sense, and harmless.
    return c if ord(c) > 0x9F else repr(c)[1:-1]


def whole(text: str, end: str = "\n") -> None:
    """Prints tamed text whose lines may be as long as they are: an answer, a tensor's numbers."""
    _print(tame(text) + end)


def raw(text: str, end: str = "\n") -> None:
    """Prints text as it is; for an answer that goes to a file or a program."""
    _print(text + end)


def print_json(value: object, indent: int | None = None) -> None:
    """Prints a value of dicts, lists, strings and numbers as JSON in ASCII without any control
    character; numbers that JSON does not know are null.
    """
    text = json.dumps(_finite(value), indent=indent, allow_nan=False)
    _print(CONTROLS.sub(lambda c: f"\\u{ord(c[0]):04x}", text) + "\n")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _print(text: str) -> None:
    stream = _beneath(sys.stdout)
    with _named():
        stream.write(text)
        stream.flush()


def _beneath(stream: Any) -> Any:
    return stream.beneath if isinstance(stream, Tamed) else stream


def control(text: str) -> None:
    """Writes text on stderr with sequences of our own that steer the terminal."""
    stream = _beneath(sys.stderr)
    with _named():
        stream.write(text)
        stream.flush()


def bounded(file: BinaryIO, name: str) -> bytes:
    """All of a file that may be a device without end. Raises BadSetting for more than MOST_TEXT."""
    content = file.read(MOST_TEXT + 1)
    if len(content) > MOST_TEXT:
        raise BadSetting(name, getattr(file, "name", ""), f"at most {MOST_TEXT >> 20} MiB of text")
    return content


def input_lines() -> list[str]:
    """The non-empty lines of standard input. Raises BadSetting."""
    try:
        lines = bounded(sys.stdin.buffer, "the standard input").decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        expected = f"UTF-8 text; byte {error.start} is not"
        raise BadSetting("standard input", "bytes", expected) from None
    texts = [line for line in lines if line.strip()]
    if not texts:
        raise BadSetting("standard input", "", "one text per line, or --text")
    return texts


def read_text(name: str, path: Path) -> str:
    """All of a UTF-8 file that an option or argument names. Raises BadSetting."""
    try:
        with path.expanduser().open("rb") as file:
            content = bounded(file, name)
        return content.decode("utf-8-sig")
    except OSError as error:
        expected = f"a file that can be read ({error.strerror})"
        raise BadSetting(name, str(path), expected) from None
    except UnicodeDecodeError as error:
        raise BadSetting(name, str(path), f"UTF-8 text; byte {error.start} is not") from None


def interactive() -> bool:
    """Return whether the user can be prompted: both stdin and stderr are a terminal."""
    return bool(sys.stdin and sys.stdin.isatty() and sys.stderr.isatty())


def confirm(question: str) -> bool:
    """Asks at the terminal; anything but a yes is a no."""
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def aside(text: str) -> None:
    """Prints a dim line on stderr, where that is a terminal; nothing elsewhere."""
    if sys.stderr.isatty():
        no_colour = os.environ.get("NO_COLOR")
        control(f"{shown(text)}\n" if no_colour else f"\x1b[2m{shown(text)}\x1b[0m\n")


def note(text: str) -> None:
    """Prints a line on stderr that programs and people alike should get."""
    print(f"cutaway: {' '.join(text.split())}", file=sys.stderr, flush=True)


def table(rows: Iterable[Sequence[str]], left: Collection[int] = (0,)) -> Iterator[str]:
    """A line for each row; the columns in `left` are aligned to the left, as words are, all others
    to the right, as numbers are.
    """
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  " + "  ".join(cells).rstrip()
