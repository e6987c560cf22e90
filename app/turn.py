"""The time that a turn of the window's event loop has for work that can wait.

Laying out long texts, dressing widgets out of sight and making rows of a list go on in slices, one
in each turn. They share the turn: what finds no time left goes on in the next one, after the keys
and the painting that wait. Freeing tens of thousands of objects takes as long as making them, and
goes on likewise.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

from PySide6.QtCore import QAbstractEventDispatcher, QCoreApplication, QObject, QTimer
from shiboken6 import isValid

BUDGET = 0.008  # seconds of a turn, from the first question
AT_ONCE = 20  # objects that are freed between two looks at the time

_dispatcher: QAbstractEventDispatcher | None = None  # whose turns are watched
_waiting: deque[tuple[QObject, Callable[[], None]]] = deque()
_goes_on = False  # `_go_on` is called soon
_ends: float | None = None  # when the time of this turn is over; None before the first question
_number = 0  # turns so far


def left() -> float:
    """Return the seconds that this turn has left, 0 where there are none."""
    global _ends
    _watch()
    now = perf_counter()
    if _ends is None:
        _ends = now + BUDGET
    return max(0.0, _ends - now)


def number() -> int:
    """Return how many turns have begun: another number in each turn."""
    _watch()
    return _number


def later(owner: QObject, work: Callable[[], None]) -> None:
    """Call this in a turn that has time left, after all that wait longer, if `owner` exists."""
    global _goes_on
    _waiting.append((owner, work))
    if not _goes_on:
        _goes_on = True
        QTimer.singleShot(0, _go_on)


def free(objects: list[Any]) -> None:
    """Empty a list that nothing needs any more, its last object first."""
    owner = QCoreApplication.instance()
    if owner is None:
        objects.clear()  # nobody waits
    else:
        later(owner, partial(_free, owner, objects))


def _free(owner: QObject, objects: list[Any]) -> None:
    while objects and left():
        del objects[-AT_ONCE:]
    if objects:
        later(owner, partial(_free, owner, objects))


def _go_on() -> None:
    global _goes_on
    try:
        for _ in range(len(_waiting)):
            if not left():
                break
            owner, work = _waiting.popleft()
            if isValid(owner):
                work()
    finally:
        _goes_on = bool(_waiting)
        if _goes_on:
            QTimer.singleShot(0, _go_on)


def _watch() -> None:
    global _dispatcher
    dispatcher = QAbstractEventDispatcher.instance()
    if dispatcher is None:
        _begin()  # nobody waits
    elif dispatcher is not _dispatcher:
        dispatcher.awake.connect(_begin)
        _dispatcher = dispatcher
        _begin()


def _begin() -> None:
    global _ends, _number
    _ends = None
    _number += 1
