"""Rows of text as lines with aligned columns."""

from collections.abc import Collection, Iterable, Iterator, Sequence


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
