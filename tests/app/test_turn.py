from PySide6.QtCore import QCoreApplication, QTimer

from app import turn


def test_one_turn_is_shared_by_all_that_goes_on_in_slices(qapp: object) -> None:
    """Pieces of work that are due at once take the time of one, and each has its turn."""
    done: list[list[int]] = []
    with_time = [0, 0, 0]
    timers = [QTimer(singleShot=True) for _ in with_time]

    def work(number: int) -> None:
        if not turn.left():
            timers[number].start(0)
            return
        while turn.left():
            pass
        with_time[number] += 1
        done[-1].append(number)
        timers[number].start(1)

    for number, timer in enumerate(timers):
        timer.timeout.connect(lambda number=number: work(number))
        timer.start(0)
    while sum(with_time) < 12:
        done.append([])
        QCoreApplication.processEvents()
    assert all(len(numbers) <= 1 for numbers in done)
    assert min(with_time) >= 3
