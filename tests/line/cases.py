"""Which cases of a table run each time, and which with `pytest -m full` alone: markers at the test.

@pytest.mark.full_cases("pocl|gemma3")  those whose id has that, as the others prove the same
@pytest.mark.sampled(3)                 of a test's cases all but a third, chosen by their ids
@pytest.mark.other_driver               (of kernels) all but every twentieth of another driver
"""

import re
from collections import defaultdict
from zlib import crc32

import pytest

OTHER_DRIVERS = 20


def mark_full(items: list[pytest.Item]) -> None:
    """Mark them `full`, before markers are looked at."""
    tables: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("full") is None:
            if _is_full(item):
                item.add_marker(pytest.mark.full)
            elif item.get_closest_marker("sampled") is not None:
                tables[item.nodeid.removesuffix(_case(item))].append(item)
    for cases in tables.values():
        (every,) = next(cases[0].iter_markers("sampled")).args
        cases.sort(key=_drawn)
        for item in cases[-(-len(cases) // every) :]:
            item.add_marker(pytest.mark.full)


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
