"""The window with answers that ended before they were done."""

import msgspec
from PySide6.QtWidgets import QApplication

from app.window.main_window import MainWindow
from engine.protocol import Finished, Stats
from tests.app.window.scenes.trial_scenes import client


def ended(window: MainWindow) -> None:
    """One that repeated itself, after the oldest tokens were dropped, and the probabilities."""
    window.bench.open_model("/models/SmolLM2-135M-Instruct.Q4_1.gguf")
    client(window).load_done()
    stats = Stats(1200, 30, 2, 0.001, 0.4, 0.213, 0.1, 7, 2048)
    for reason, dropped in (("length", 0), ("loop", 1300)):
        assert window.bench.chat.send("Write a poem about rain.")
        client(window).write("The ", "rain ", "and ", "the ", "rain", chance=0.3)
        told = msgspec.structs.replace(stats, n_shifts=dropped // 600, n_forgotten=dropped)
        client(window).say(Finished(client(window).last.id, reason, told))
        QApplication.processEvents()
    window.commands.run("chat.probabilities")
    QApplication.processEvents()


SCENES = (ended,)
