"""Sums of a recorded answer, and two answers beside each other, as tables."""

from collections.abc import Callable

from app.state.profile.recorded import TimeDifference, Total
from app.widgets.lists.rows import Column
from app.widgets.numbers import UNKNOWN, grouped

Row = tuple[Total, int, int]  # with the phase's tokens, and the nanoseconds of all groups


def _rate(value: float) -> str:
    """In billions per second; a dash where there is nothing to be read or computed."""
    return f"{value / 1e9:.1f}" if value else UNKNOWN


def _number(title: str, value: Callable[[Row], float], text: Callable[[float], str]) -> Column[Row]:
    return Column(title, lambda row: text(value(row)), value, right=True)


TOTALS = (
    Column[Row]("Name", lambda row: row[0].name, mono=True),
    _number("Launches", lambda row: row[0].count, lambda n: grouped(int(n))),
    _number("ms/token", lambda row: row[0].ns / max(row[1], 1) / 1e6, lambda ms: f"{ms:.4f}"),
    _number("%", lambda row: 100 * row[0].ns / max(row[2], 1), lambda part: f"{part:.1f}"),
    _number("GB/s", lambda row: row[0].bytes_per_s, _rate),
    _number("GFLOP/s", lambda row: row[0].flops_per_s, _rate),
)


def _ms(ns: float | None) -> str:
    return UNKNOWN if ns is None else f"{ns / 1e6:.4f}"


def _tone(row: TimeDifference) -> str:
    change = row.change or 0.0
    if abs(change) < 1e3:  # below a microsecond per token it is noise
        return "quiet"
    return "bad" if change > 0 else "good"


DIFFERENCES = (
    Column[TimeDifference]("Name", lambda row: row.name, mono=True),
    Column[TimeDifference](
        "before ms", lambda row: _ms(row.before), lambda row: row.before or 0, right=True
    ),
    Column[TimeDifference](
        "after ms", lambda row: _ms(row.after), lambda row: row.after or 0, right=True
    ),
    Column[TimeDifference](
        "change ms",
        lambda row: f"{(row.change or 0) / 1e6:+.4f}",
        lambda row: row.change or 0,
        right=True,
        tone=_tone,
    ),
)
