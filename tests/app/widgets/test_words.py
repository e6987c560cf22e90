"""Numbers as text, and finding a title by some of its letters."""

import math

import pytest

from app.widgets.numbers import UNKNOWN, duration, grouped, mib, small, whole_duration
from app.window.palette import score

MIB = 1 << 20


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, UNKNOWN),
        (0, "0.0"),
        (MIB // 2, "0.5"),
        (int(99.94 * MIB), "99.9"),
        (int(99.96 * MIB), "100"),
        (24105 * MIB, "24\u2009105"),
    ],
)
def test_sizes(size: int | None, text: str) -> None:
    assert mib(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, UNKNOWN),
        (0.0004, "0 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1.0 s"),
        (99.9, "99.9 s"),
        (150, "2 min 30 s"),
        (179.8, "3 min 0 s"),
    ],
)
def test_times(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "1 s"),
        (14.0, "14 s"),
        (59.6, "1 min 0 s"),
        (3599, "59 min 59 s"),
        (3600, "1 h 0 min"),
        (90_000, "25 h 0 min"),
    ],
)
def test_whole_times(seconds: float, text: str) -> None:
    assert whole_duration(seconds) == text


def test_counts() -> None:
    assert grouped(1234567) == "1\u2009234\u2009567"
    assert grouped(None) == UNKNOWN


def best(query: str, titles: list[str]) -> list[str]:
    found = [(score(query, title), title) for title in titles]
    return [title for points, title in sorted(
        ((p, t) for p, t in found if p is not None), key=lambda pair: -pair[0]
    )]  # fmt: skip


def test_letters_in_order_find_a_title() -> None:
    titles = ["New chat", "Next pane", "Unload the model", "Choose a model…", "Every command…"]
    assert best("nc", titles)[0] == "New chat"
    assert best("unload", titles) == ["Unload the model"]
    assert best("model", titles)[0] in ("Unload the model", "Choose a model…")
    assert best("zzz", titles) == []
    assert len(best("", titles)) == len(titles)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((0.0, "0"), (0.3, "0.3"), (0.0001, "0.0001"), (0.000123, "0.00012"), (1.0, "1")),
        *((1e-5, "1e-05"), (1.26e-9, "1.3e-09"), (math.inf, "inf")),
    ],
)
def test_an_error_has_a_power_of_ten_only_where_it_is_small(value: float, text: str) -> None:
    assert small(value) == text
    assert math.isclose(float(small(value, 9)), value, rel_tol=1e-8)
