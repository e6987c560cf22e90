"""From threads to the window's thread: everything, in order, gathered by frame."""

import threading
import time
from collections import defaultdict

from PySide6.QtCore import QThread
from pytestqt.qtbot import QtBot

from app.inbox import FRAME_MS, Inbox


def test_everything_in_order_from_many_threads(qtbot: QtBot) -> None:
    arrived: list[tuple[int, int]] = []
    calls = 0
    here = QThread.currentThread()

    def take(items: list[tuple[int, int]]) -> None:
        nonlocal calls
        calls += 1
        assert QThread.currentThread() is here
        arrived.extend(items)

    inbox = Inbox(take)

    def send(sender: int) -> None:
        for n in range(5000):
            inbox.put((sender, n))

    threads = [threading.Thread(target=send, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    qtbot.waitUntil(lambda: len(arrived) == 20_000)
    for thread in threads:
        thread.join()
    by_sender = defaultdict(list)
    for sender, n in arrived:
        by_sender[sender].append(n)
    assert all(numbers == list(range(5000)) for numbers in by_sender.values())
    assert calls < 5000  # gathered
    inbox.close()


def test_once_a_frame(qtbot: QtBot) -> None:
    calls: list[list[int]] = []
    inbox = Inbox(calls.append)
    done, began = threading.Event(), time.monotonic()

    def send() -> None:
        for n in range(100):
            inbox.put(n)
            done.wait(0.002)

    thread = threading.Thread(target=send)
    thread.start()
    qtbot.waitUntil(lambda: sum(map(len, calls)) == 100)
    thread.join()
    frames = (time.monotonic() - began) * 1000 / FRAME_MS  # some 0.2 s, where nothing is late
    assert len(calls) <= 2 + frames
    inbox.close()


def test_nothing_after_close(qtbot: QtBot) -> None:
    calls: list[list[int]] = []
    inbox = Inbox(calls.append)
    inbox.put(1)
    inbox.close()
    inbox.put(2)
    qtbot.wait(50)
    assert calls == []
