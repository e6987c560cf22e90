"""Whether memory stays within bounds while a person watches answers for long: a real window.

    python -m tests.soak MODEL [--minutes 15] [--device intel:0]

Answers follow each other, short and long, every other one recorded, with every view of the
inspector in a window of its own: the Token view alive, layers probed, Memory and Graph drawn. The
resident memory of the window and of the engine's process is looked at all the while. After a third
of the time nothing new is to be kept: from then on its median may grow by at most GROWTH. Exit
status 1 where it grows by more, or where more is kept of recordings and probes than was promised.
"""

import argparse
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

import psutil
import pytest
from PySide6.QtCore import QEventLoop, QTimer
from PySide6.QtWidgets import QApplication

from app.library import resolve
from app.state.presets import AnswerLimits
from app.state.profile.profile import MOST as RECORDED
from app.state.tensors.probes import MOST as COLUMNS
from app.state.tensors.probes import USUAL
from app.views.tensors.tensors import TensorsView
from app.window.main_window import MainWindow
from app.window.panes.pages import PAGES
from app.window.program import shown_window
from engine.protocol import (
    AnswerRecorded,
    Finished,
    ProbedTokens,
    Reply,
    Sampling,
    StepTimes,
    TokenInside,
)
from engine.runner.recording import MOST_LAUNCHES
from engine.settings import EngineOptions, cache_folder
from engine.units import MIB
from tests.conftest import move_home

GROWTH = {"window": 16 * MIB, "engine": 8 * MIB}
"""From the second third of the time to the last, medians of resident memory. SmolLM2 on two cores
of a cloud machine, 15 minutes: +1.8 and +0.5 MiB, of 383 and 391.
"""

LENGTHS = (40, 600, 150, 300)
"""Tokens of answers in turn: within a bucket of cells and over several."""

ANSWERS_OF_A_CHAT = 3
EVERY = 2.0  # seconds between two looks at memory
PATIENCE = 300.0  # seconds that an answer may take

# It does not end by itself, and is never the same twice.
ENDLESS = {"temperature": 1.0, "frequency_penalty": -4.0, "top_k": 100}


TOLD: tuple[type[Reply], ...] = (TokenInside, ProbedTokens, AnswerRecorded, StepTimes)
"""What everything that is shown needs."""


class Sample(NamedTuple):
    """Resident bytes, at seconds since the first answer."""

    at: float
    window: int
    engine: int
    answers: int


class Soak:
    """`samples` are taken while `run` lasts; `problems` are what was kept beyond its bound."""

    def __init__(self, window: MainWindow, seconds: float, at_least: int) -> None:
        """It lasts so long, and for so many answers at least."""
        self._window, self._bench = window, window.bench
        self._seconds, self._at_least = seconds, at_least
        self._began = perf_counter()
        self._answers = 0
        self.samples: list[Sample] = []
        self.problems: list[str] = []
        self.heard = Counter[str]()
        self.n_tokens = 0
        self._timer = QTimer(interval=round(1000 * min(EVERY, seconds / 30)))
        self._timer.timeout.connect(self._look)
        self._bench.client.on(Finished, self._finished)
        for kind in TOLD:
            self._bench.client.on(kind, self._hear)

    def show_everything(self) -> None:
        """Each view in its own window, told of every token."""
        for page in PAGES:
            self._window.panes.show_tab(page.id)
            self._window.inspector.put_in_window(page.id, self._window)
        self._window.inspector.view(TensorsView).show_probes()
        self._bench.probes.pin(USUAL)
        self._bench.preferences.update(token_live=True)

    def run(self) -> None:
        """Answer after answer, until the time is over."""
        self._began = perf_counter()
        self._timer.start()
        while not self._is_over():
            self._answer()
        self._timer.stop()
        self._look()
        silent = [kind.__name__ for kind in TOLD if not self.heard[kind.__name__]]
        if silent:
            self.problems.append(f"nothing was told as {', '.join(silent)}")

    def _is_over(self) -> bool:
        late = perf_counter() - self._began >= self._seconds
        return late and self._answers >= self._at_least

    def _answer(self) -> None:
        chat = self._bench.chat
        if self._answers % ANSWERS_OF_A_CHAT == 0:
            chat.open(None)
        chat.details.set_sampling(Sampling(seed=self._answers, **ENDLESS))  # type: ignore[arg-type]
        chat.details.set_limits(AnswerLimits(LENGTHS[self._answers % len(LENGTHS)]))
        self._bench.profile.record(self._answers % 2 == 0)  # it tells no times of single steps
        assert chat.send(f"Tell me a story about the number {self._answers}.")
        wait(lambda: not chat.busy or self._is_over())
        if chat.busy:
            chat.stop()
            wait(lambda: not chat.busy)
        self._answers += 1
        self._check()

    def _check(self) -> None:
        """Nothing is kept beyond what is promised."""
        profile, probes = self._bench.profile, self._bench.probes
        launches = max((len(answer.kinds) for answer in profile.answers), default=0)
        for what, n, most in (
            ("recorded answers", len(profile.answers), RECORDED),
            ("launches of an answer", launches, MOST_LAUNCHES),
            ("columns of probes", len(probes.columns), COLUMNS),
        ):
            if n > most:
                self.problems.append(f"{what}: {n} of at most {most}")

    def _hear(self, told: Reply) -> None:
        self.heard[type(told).__name__] += 1

    def _finished(self, told: Finished) -> None:
        self.n_tokens += told.stats.n_generated

    def _look(self) -> None:
        engine = psutil.Process(self._bench.engine.local.pid)
        self.samples.append(
            Sample(
                perf_counter() - self._began,
                psutil.Process().memory_info().rss,
                engine.memory_info().rss,
                self._answers,
            )
        )


def wait(until: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """In the window's own loop. Raises `TimeoutError`."""
    end, loop = perf_counter() + seconds, QEventLoop()
    while not until():
        if perf_counter() > end:
            raise TimeoutError(f"it took more than {seconds:.0f} s")
        QTimer.singleShot(20, loop.quit)
        loop.exec()


def grown(samples: Sequence[Sample]) -> dict[str, int]:
    """By how much the last third's median is above that of the second third."""
    end = samples[-1].at
    parts = [[s for s in samples if i / 3 <= s.at / end < (i + 1) / 3] for i in (1, 2)]
    return {
        name: round(median(getattr(s, name) for s in parts[1]))
        - round(median(getattr(s, name) for s in parts[0]))
        for name in GROWTH
    }


def told(samples: Sequence[Sample], lines: int = 16) -> Iterator[str]:
    """The curve, in so many lines."""
    step = max(1, len(samples) // lines)
    for one in [*samples[::step], samples[-1]]:
        yield (
            f"{one.at / 60:6.1f} min {one.answers:5} answers   window {one.window / MIB:6.0f} MiB"
            f"   engine {one.engine / MIB:6.0f} MiB"
        )


@contextmanager
def own_home() -> Iterator[None]:
    """A home of its own, but for kernels."""
    kernels = str(cache_folder())
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        move_home(Path(folder) / "home", patch)
        patch.setenv("CUTAWAY_CACHE", kernels)
        yield


def soak(
    app: QApplication, model: Path, options: EngineOptions, seconds: float, at_least: int = 2
) -> Soak:
    """A window opened, looked at for so long, and closed."""
    with own_home(), shown_window(app) as window:
        bench = window.bench
        bench.open_model(model, options)
        wait(lambda: bench.session.status == "ready")
        running = Soak(window, seconds, at_least)
        running.show_everything()
        running.run()
        return running


def main(given: Sequence[str] | None = None) -> int:
    """Prints the curve and what became of it."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("model", help="path of a GGUF file, or a stored model's name")
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--device", help="the first that layers are put on if left out")
    parser.add_argument("--ctx", type=int, default=1024, help="tokens of the context (1024)")
    args = parser.parse_args(given)
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    app = QApplication.instance() or QApplication(sys.argv[:1])
    assert isinstance(app, QApplication)
    options = EngineOptions(device=args.device, ctx=args.ctx)
    done = soak(app, resolve(args.model), options, 60 * args.minutes)
    for line in told(done.samples):
        print(line)
    print(f"{done.n_tokens} tokens of {done.samples[-1].answers} answers")
    problems = list(dict.fromkeys(done.problems))
    for name, by in grown(done.samples).items():
        print(f"{name}: {by / MIB:+.1f} MiB, at most {GROWTH[name] // MIB:+}")
        if by > GROWTH[name]:
            problems.append(f"the {name}'s memory grows")
    for problem in problems:
        print(problem)
    return bool(problems)


if __name__ == "__main__":
    raise SystemExit(main())
