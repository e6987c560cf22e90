"""The table of text architectures: what each row's tiny model reaches, and what it is to catch.

A row is `tests/goldens/text/NAME.gguf.xz` with the logits of transformers beside it, or those of
llama.cpp where no class of transformers computes the model. Its recipe is in
`tests/goldens/text/recipes`, or in `direct`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import NamedTuple


class Fault(NamedTuple):
    """`old`, which the file has once, becomes `new`: the row must fail."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Row:
    """`reaches` tells in words which branches the model takes; `launches` how many a decode step
    takes on a CPU, with weights in Q8_0 (a change is either meant or a fusion lost).

    Files of llama.cpp leave out some numbers: `params` replaces fields of the architecture's.
    """

    name: str
    architecture: str
    reaches: str
    fault: Fault
    launches: int
    params: tuple[tuple[str, object], ...] = ()


def rows() -> Iterator[Row]:
    """Those of all modules in ./table."""
    from tests.engine.models.text import table

    for module in iter_modules(table.__path__):
        yield from import_module(f"{table.__name__}.{module.name}").ROWS


ROWS = {row.name: row for row in rows()}
ROW_ARCHITECTURES = {row.architecture for row in ROWS.values()}
