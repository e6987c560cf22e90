"""Numbers and times as the window writes them; unknown is a dash, never 0."""

from datetime import datetime
from math import isfinite

from app import language
from app.language import decimal, tr
from app.words import UNKNOWN
from engine.units import GB, KIB, MIB

__all__ = [
    "UNKNOWN",
    "duration",
    "file_size",
    "grouped",
    "kib",
    "local_time",
    "mib",
    "microseconds",
    "milliseconds",
    "small",
]


def mib(size: int | None) -> str:
    """Bytes as MiB, without the unit: one decimal under 100, none above, grouped by thousands."""
    if size is None or not isfinite(size):
        return UNKNOWN
    value = size / MIB
    return decimal(f"{value:.1f}") if abs(value) < 99.95 else grouped(round(value))


def file_size(size: float) -> str:
    """Bytes of a file or a download, in powers of 1000 as hubs and file managers write them."""
    if size >= GB:
        return tr("{size:.1f} GB", size=size / GB)
    if size >= 1e6:
        return tr("{size:.0f} MB", size=size / 1e6)
    return tr("{size:.0f} kB", size=size / 1e3)


def kib(size: int) -> str:
    """Bytes as KiB, without the unit: one decimal under 100, none above."""
    value = size / KIB
    return decimal(f"{value:.1f}") if value < 99.95 else grouped(round(value))


def duration(seconds: float | None) -> str:
    """A time: milliseconds under one second, then seconds, then minutes."""
    if seconds is None or not isfinite(seconds):
        return UNKNOWN
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 99.95:
        return decimal(f"{seconds:.1f} s")
    return _minutes(round(seconds))


def whole_duration(seconds: float) -> str:
    """A time that is estimated, or still runs: whole seconds, one at least, minutes, then hours."""
    whole = max(1, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return _minutes(whole)
    hours, minutes = divmod(whole // 60, 60)
    return tr("{hours} h {minutes} min", hours=hours, minutes=minutes)


def _minutes(seconds: int) -> str:
    minutes, rest = divmod(seconds, 60)
    return tr("{minutes} min {rest} s", minutes=minutes, rest=rest)


def milliseconds(ns: int) -> str:
    """Nanoseconds as milliseconds, without the unit."""
    return decimal(f"{ns / 1e6:.2f}")


def microseconds(ns: int) -> str:
    """Nanoseconds as microseconds, without the unit."""
    return f"{ns / 1e3:.0f}"


def small(value: float, digits: int = 2) -> str:
    """An error by its first digits; with a power of ten only below 0.0001."""
    return decimal(f"{value:.{digits}g}")


def grouped(number: int | None) -> str:
    """A count with thin spaces between thousands."""
    return UNKNOWN if number is None else language.grouped(number)


def local_time(seconds: float) -> datetime | None:
    """Seconds since the epoch by the clock on the wall; None for what no calendar holds."""
    try:
        return datetime.fromtimestamp(seconds)
    except (OverflowError, ValueError, OSError):
        return None
