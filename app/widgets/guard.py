"""Exceptions in what Qt calls: caught before they come back to it, logged, and the window goes on.

An exception that leaves a Python override of a Qt function is raised anywhere later, leaves a
painter open on its widget, or ends the program with a segmentation fault.
"""

import logging
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from functools import cache, wraps
from time import monotonic
from types import FunctionType, TracebackType
from typing import Any

from PySide6.QtCore import QMimeData, QObject, QRectF, QSize, QSizeF, Qt

SOURCE = "unexpected"  # of what is logged here
log = logging.getLogger(SOURCE)
AGAIN_S = 60.0  # what fails at each painting is logged once in this time

# What Qt is given instead; functions whose names end with "Event" give nothing.
INSTEAD: dict[str, Callable[[], object]] = {
    **dict.fromkeys(("event", "eventFilter", "focusNextPrevChild"), lambda: False),
    "filterAcceptsRow": lambda: True,
    **dict.fromkeys(("hasHeightForWidth", "canInsertFromMimeData", "setData"), lambda: False),
    "dropMimeData": lambda: False,
    **dict.fromkeys(("mimeData", "createMimeDataFromSelection"), QMimeData),
    "mimeTypes": list,
    "supportedDropActions": lambda: Qt.DropAction.IgnoreAction,
    **dict.fromkeys(("sizeHint", "minimumSizeHint"), lambda: QSize(0, 0)),
    **dict.fromkeys(("rowCount", "columnCount", "heightForWidth"), lambda: 0),
    **dict.fromkeys(("data", "headerData"), lambda: None),
    **dict.fromkeys(("paint", "paintSection", "drawObject"), lambda: None),
    **dict.fromkeys(("scrollContentsBy", "sort", "insertFromMimeData"), lambda: None),
    "intrinsicSize": lambda: QSizeF(1, 1),
    "boundingRect": lambda: QRectF(),
    "flags": lambda: Qt.ItemFlag.NoItemFlags,
}
seen: dict[object, float] = {}  # when a place failed last


def report(error: BaseException, what: str) -> None:
    """Log an exception that nobody caught, and let go of all that its frames hold."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    place = (type(error), *((frame.filename, frame.lineno) for frame in last))
    now = monotonic()
    if now - seen.get(place, -AGAIN_S) >= AGAIN_S:
        seen[place] = now
        log.error("%s failed: %s: %s", what, type(error).__name__, error, exc_info=error)
    if error.__traceback__ is not None:
        traceback.clear_frames(error.__traceback__)  # an open painter, above all


def guard_overrides() -> None:
    """Guard what the classes of the app override of Qt's; harmless when done again.

    To be called before their objects are made: PySide keeps what it has found for an object.
    """
    for cls in _subclasses(QObject):
        if cls.__module__.startswith("app."):
            guard(cls)


def guard(cls: type) -> None:
    """Guard what one class overrides."""
    for name in overrides(cls):
        function = vars(cls)[name]
        if not hasattr(function, "guarded"):
            setattr(cls, name, _guarded(cls, name, function))


def overrides(cls: type) -> list[str]:
    """The functions of Qt that a class overrides itself."""
    known = _names(tuple(base for base in cls.__mro__[1:] if base.__module__.startswith("PySide6")))
    return [
        name
        for name, value in vars(cls).items()
        if name in known and isinstance(value, FunctionType) and not name.startswith("__")
    ]


@cache
def _names(bases: tuple[type, ...]) -> frozenset[str]:
    """Return all names that classes of Qt have; few combinations of them have hundreds of heirs."""
    return frozenset().union(*map(vars, bases))


def instead(name: str) -> object:
    """Return the value for Qt after an override failed. Raises KeyError for a function nobody
    foresaw.
    """
    return None if name.endswith("Event") else INSTEAD[name]()


def install_hooks() -> None:
    """Log what fails in slots, timers and threads, too, instead of writing it to a terminal."""
    sys.excepthook = _hook
    sys.unraisablehook = lambda args: _hook(
        args.exc_type, args.exc_value or args.exc_type(), args.exc_traceback
    )
    threading.excepthook = _thread_hook


def _guarded(cls: type, name: str, function: FunctionType) -> Callable[..., Any]:
    what = f"{cls.__name__}.{name}"

    @wraps(function)
    def guarded(self: Any, *args: Any, **named: Any) -> Any:
        try:
            return function(self, *args, **named)
        except Exception as error:  # noqa: BLE001 - Qt has nobody who could catch it
            report(error, what)
            return instead(name)

    guarded.guarded = True  # type: ignore[attr-defined]
    return guarded


def _subclasses(cls: type) -> Iterator[type]:
    below: list[type] = type.__subclasses__(cls)
    for sub in below:
        yield sub
        yield from _subclasses(sub)


def _hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if isinstance(error, KeyboardInterrupt | SystemExit):
        sys.__excepthook__(kind, error, trace)
    else:
        report(error.with_traceback(trace), "The window")


def _thread_hook(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is not None:
        _hook(args.exc_type, args.exc_value, args.exc_traceback)
