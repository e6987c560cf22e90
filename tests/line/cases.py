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
from collections.abc import Collection, Sequence
from zlib import crc32

import pytest

from tests.line.elsewhere import MARK

OTHER_DRIVERS = 20


def mark_full(metafunc: pytest.Metafunc) -> None:
    """Mark the cases of one test `full`, before items are made of them.

    Items of thousands that are deselected take time: where only others run, one is left, for pytest
    to count.
    """
    cases, test = metafunc._calls, metafunc.definition
    if len(cases) < 2:
        return
    if test.get_closest_marker("full") is None:
        marks = [*test.iter_markers()]
        often = [case for case in cases if not _has(case.marks, "full")]
        found = full_of(test.nodeid, [(case.id, [*case.marks, *marks]) for case in often])
        for case in often:
            if case.id in found:
                case.marks.append(pytest.mark.full.mark)
        kept = [case for case in cases if not _has(case.marks, "full")]
    else:
        kept = []
    if _only_others(metafunc.config):
        cases[:] = kept or cases[:1]


def full_of(test: str, cases: Sequence[tuple[str, Collection[pytest.Mark]]]) -> set[str]:
    """The ids of those that are `full`, of all cases of a test with their marks."""
    full = {case for case, marks in cases if _is_full(f"{test}[{case}]", case, marks)}
    left = [case for case, _ in cases if case not in full]
    marks = {mark.name: mark for _, marks in cases for mark in marks}
    if "sampled" in marks:
        (every,) = marks["sampled"].args
        left = sorted(left, key=lambda case: _drawn(f"{test}[{case}]"))[: -(-len(left) // every)]
    elif "each_value" in marks:
        left = _each_value(left)
    return {case for case, _ in cases if case not in left}


def skip_of_linux(items: list[pytest.Item]) -> None:
    """Skip the tests marked `only_linux` where a run is not of Linux, or as if it were not."""
    if sys.platform == "linux" and MARK not in os.environ:
        return
    for item in items:
        if mark := item.get_closest_marker("only_linux"):
            item.add_marker(pytest.mark.skip(reason=f"only Linux: {mark.args[0]}"))


def _only_others(config: pytest.Config) -> bool:
    """True if no case that is `full` can be chosen, and none is named."""
    chosen = config.getoption("markexpr").split(" and ")
    simple = all(re.fullmatch(r"(not )?\w+", part.strip()) for part in chosen)
    return simple and "not full" in chosen and not any("[" in arg for arg in config.args)


def _each_value(cases: list[str]) -> list[str]:
    """Take the case with most values that none has yet, until each value is in one."""
    kept: list[str] = []
    left = set().union(*map(_values, cases))
    while left:
        kept.append(max(cases, key=lambda case: len(left & _values(case))))
        left -= _values(kept[-1])
    return kept


def _values(case: str) -> set[tuple[int, str]]:
    """The values of a case, by their places in its id."""
    return set(enumerate(case.split("-")))


def _is_full(name: str, case: str, marks: Collection[pytest.Mark]) -> bool:
    patterns = [mark.args[0] for mark in marks if mark.name == "full_cases"]
    if any(re.search(pattern, f"[{case}]") for pattern in patterns):
        return True
    return _has(marks, "other_driver") and bool(_drawn(name) % OTHER_DRIVERS)


def _has(marks: Collection[pytest.Mark], name: str) -> bool:
    return any(mark.name == name for mark in marks)


def _drawn(name: str) -> int:
    """A number by its id, whose parts pytest orders by the arguments that it was called with."""
    return crc32(repr(sorted(re.split(r"[\[\]-]", name))).encode())
