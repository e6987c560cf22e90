"""Markdown whose text is nobody's markup."""

from collections.abc import Iterator, Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """Lines of a table; cells are made plain."""
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield f"| {' | '.join(plain(str(cell)) for cell in row)} |"


def plain(text: str) -> str:
    """A text of a driver, a file, a model or a person, on one line: nothing of it is markup."""
    shown = "".join(c if c.isprintable() else " " for c in text)
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>#|!~&" else c for c in shown)
