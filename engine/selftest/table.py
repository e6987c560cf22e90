"""The whole table, and how to choose from it."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from engine.errors import BadSetting
from engine.selftest.case import Case
from engine.selftest.cases.attending import attending
from engine.selftest.cases.editing import editing
from engine.selftest.cases.elementwise import elementwise
from engine.selftest.cases.fused import fused
from engine.selftest.cases.moves import moves
from engine.selftest.cases.planes import planes
from engine.selftest.cases.products import products
from engine.selftest.cases.recurring import recurring
from engine.selftest.cases.reducing import reducing, shaping
from engine.selftest.cases.routing import routing


def table() -> Iterator[Case]:
    """Every case, `speed` ones included."""
    yield from elementwise()
    yield from reducing()
    yield from moves()
    yield from shaping()
    yield from products()
    yield from routing()
    yield from editing()
    yield from attending()
    yield from recurring()
    yield from planes()
    yield from fused()


def chosen(pattern: str = "", quick: bool = False, speed: bool = False) -> list[Case]:
    """Cases whose name (`matmul Q4_K tiled [...] [...]`) the regular expression finds something in.

    `quick` leaves the short table; `speed` takes the large cases only. Raises `BadSetting`.
    """
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise BadSetting("--op", pattern, f"a regular expression ({error})") from None
    cases = [
        case
        for case in table()
        if case.speed == speed and (case.quick or not quick or speed) and wanted.search(case.name)
    ]
    if not cases:
        raise BadSetting("--op", pattern, "a pattern that some case has, such as '^matmul Q4_K'")
    return cases


def few_of(cases: Sequence[Case], each: int) -> list[Case]:
    """At most `each` cases of every operation, spread over all that it has."""
    counts, seen, found = Counter(case.op for case in cases), Counter[str](), []
    for case in cases:
        if seen[case.op] % -(-counts[case.op] // each) == 0:
            found.append(case)
        seen[case.op] += 1
    return found
