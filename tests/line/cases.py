"""Which cases of a table run each time, and which with `pytest -m full` alone: markers at the test.

@pytest.mark.full_cases("pocl|gemma3")  those whose id has that, as the others prove the same
@pytest.mark.sampled(3)                 of a test's cases all but a third, chosen by their ids
@pytest.mark.each_value                 of combinations all but so few that each value is in one
@pytest.mark.other_driver               (of kernels) all but every twentieth of another driver
@pytest.mark.only_linux("reason")       skipped on other systems, and as if on Windows
"""

import os
import re
import sys
from collections import defaultdict
from zlib import crc32

import pytest

from tests.line.elsewhere import MARK

OTHER_DRIVERS = 20


def mark_full(items: list[pytest.Item]) -> None:
    """Mark them `full`, before markers are looked at."""
    tables: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("full") is None:
            if _is_full(item):
                item.add_marker(pytest.mark.full)
            elif any(item.get_closest_marker(name) for name in ("sampled", "each_value")):
                tables[item.nodeid.removesuffix(_case(item))].append(item)
    for cases in tables.values():
        kept = _sampled(cases) if cases[0].get_closest_marker("sampled") else _each_value(cases)
        for item in cases:
            if item not in kept:
                item.add_marker(pytest.mark.full)


def skip_of_linux(items: list[pytest.Item]) -> None:
    """Skip the tests marked `only_linux` where a run is not of Linux, or as if it were not."""
    if sys.platform == "linux" and MARK not in os.environ:
        return
    for item in items:
        if mark := item.get_closest_marker("only_linux"):
            item.add_marker(pytest.mark.skip(reason=f"only Linux: {mark.args[0]}"))


def _sampled(cases: list[pytest.Item]) -> list[pytest.Item]:
    (every,) = next(cases[0].iter_markers("sampled")).args
    return sorted(cases, key=_drawn)[: -(-len(cases) // every)]


def _each_value(cases: list[pytest.Item]) -> list[pytest.Item]:
    """Take the case with most values that none has yet, until each value is in one."""
    kept: list[pytest.Item] = []
    left = set().union(*map(_values, cases))
    while left:
        kept.append(max(cases, key=lambda case: len(left & _values(case))))
        left -= _values(kept[-1])
    return kept


def _values(item: pytest.Item) -> set[tuple[int, str]]:
    """The values of a case, by their places in its id."""
    return set(enumerate(_case(item)[1:-1].split("-")))


def _is_full(item: pytest.Item) -> bool:
    marks = item.iter_markers("full_cases")
    if any(re.search(mark.args[0], _case(item)) for mark in marks):
        return True
    return item.get_closest_marker("other_driver") is not None and bool(
        _drawn(item) % OTHER_DRIVERS
    )


def _case(item: pytest.Item) -> str:
    """Its id within the test, in brackets; "" where it is the only one."""
    return item.name.removeprefix(getattr(item, "originalname", item.name))


def _drawn(item: pytest.Item) -> int:
    """A number by its id, whose parts pytest orders by the arguments that it was called with."""
    return crc32(repr(sorted(re.split(r"[\[\]-]", item.nodeid))).encode())
