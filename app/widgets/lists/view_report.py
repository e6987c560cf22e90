"""A view's contents without its picture: sentences, tables, and data."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from app.widgets.lists.rows import Column

R = TypeVar("R")
Texts = Sequence[Sequence[str]]


@dataclass(frozen=True)
class ReportTable:
    """`rows` gives the texts under the titles of `columns`, from any thread."""

    title: str
    columns: Sequence[str]
    rows: Callable[[], Texts]


@dataclass(frozen=True)
class ViewReport:
    """`words` are paragraphs; `data` gives what JSON holds beside them, from any thread."""

    words: Sequence[str] = ()
    tables: Sequence[ReportTable] = ()
    data: Callable[[], Any] = dict


def table_of(title: str, columns: Sequence[Column[R]], rows: Sequence[R]) -> ReportTable:
    """Rows as a table shows them."""
    return ReportTable(
        title,
        [column.title for column in columns],
        lambda: [[column.text(row) for column in columns] for row in rows],
    )


def texts_of(title: str, rows: Texts) -> ReportTable:
    """Texts at hand, of which the first row has the titles."""
    return ReportTable(title, rows[0], lambda: rows[1:])
