"""Waiting until a window has come to rest, however slow the machine is."""

import threading
from time import monotonic, sleep

from PySide6.QtCore import (
    QAbstractEventDispatcher,
    QCoreApplication,
    QEvent,
    QEventLoop,
    QObject,
    QTimer,
)

QUIET = 0.02  # seconds without an event; what threads send comes within a frame
PATIENCE = 60.0  # seconds; only ends what moves for ever
SOON_MS = 250  # timers up to this one gather what is typed or told, and then show it


def come_to_rest(*owners: QObject) -> None:
    """Run the event loop until nothing is left to be laid out, drawn, glided or brought by a job.

    A layout that grows asks its parent for room in a later turn of the loop, so after a fixed time
    a slow machine stands somewhere on the way. Short timers below `owners` run out at once.
    """
    deadline = monotonic() + PATIENCE
    quiet = monotonic()
    hurried: set[QTimer] = set()  # some start themselves again
    while monotonic() - quiet < QUIET:
        assert monotonic() < deadline, "it never comes to rest: is a bar of unknown length shown?"
        if _turn() or _hurry(owners, hurried) or _jobs():
            quiet = monotonic()
        else:
            sleep(0.002)


def _turn() -> bool:
    """One turn of the loop; whether there was anything to do."""
    handled = QAbstractEventDispatcher.instance().processEvents(
        QEventLoop.ProcessEventsFlag.AllEvents
    )
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    return handled


def _hurry(owners: tuple[QObject, ...], hurried: set[QTimer]) -> bool:
    waiting = [
        timer
        for owner in owners
        for timer in owner.findChildren(QTimer)
        if timer.isSingleShot() and timer.isActive() and timer.interval() <= SOON_MS
    ]
    waiting = [timer for timer in waiting if timer not in hurried]
    hurried.update(waiting)
    for timer in waiting:
        timer.stop()
        timer.timeout.emit()
    return bool(waiting)


def _jobs() -> bool:
    return any(thread.name == "job" for thread in threading.enumerate())
