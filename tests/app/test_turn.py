from PySide6.QtCore import QCoreApplication, QObject
from shiboken6 import delete

from app import turn


def test_one_turn_is_shared_by_all_that_goes_on_in_slices(qapp: object) -> None:
    """Pieces of work that are due at once take the time of one, each in its turn."""
    done: list[list[int]] = []
    owners = [QObject() for _ in range(3)]

    def work(number: int) -> None:
        while turn.left():
            pass
        done[-1].append(number)
        turn.later(owners[number], lambda: work(number))

    for number, owner in enumerate(owners):
        turn.later(owner, lambda number=number: work(number))
    while sum(map(len, done)) < 12:
        done.append([])
        QCoreApplication.processEvents()
    assert [number for numbers in done for number in numbers] == [0, 1, 2] * 4
    assert all(len(numbers) <= 1 for numbers in done)
    for owner in owners:
        delete(owner)


def test_what_is_gone_has_no_turn(qapp: object) -> None:
    """What waits for a turn is not called when its owner no longer exists."""
    called: list[str] = []
    gone, stays = QObject(), QObject()
    turn.later(gone, lambda: called.append("gone"))
    turn.later(stays, lambda: called.append("stays"))
    delete(gone)
    while not called:
        QCoreApplication.processEvents()
    assert called == ["stays"]


def test_many_objects_are_freed_in_turns(qapp: object) -> None:
    """Freeing goes on where it was, and frees all."""

    class Slow:
        def __del__(self) -> None:
            while turn.left():
                pass
            freed[-1] += 1

    freed = [0]
    turn.free([Slow() for _ in range(3 * turn.AT_ONCE)])
    while sum(freed) < 3 * turn.AT_ONCE:
        freed.append(0)
        QCoreApplication.processEvents()
    assert max(freed) == turn.AT_ONCE
