"""llama.cpp and we in turn, each in its own process; while one is timed, the other is stopped."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Self

import psutil

import app
from app.terminal.text import note
from engine.errors import MissingPackage, PeerFailed
from engine.protocol import BenchTest, ParallelTest

NAME_OF_PEER = "llama.cpp"
GRACE = 5.0
LOOK = 0.5
MUCH = 10.0


class PeerProcess:
    """A running `app.bench.peer`. `about` is what it says of itself; with a context of `n_ctx`
    tokens to be made at once also how long opening took, and what it took.

    Raises MissingPackage, PeerFailed.
    """

    def __init__(self, path: Path, n_ctx: int | None = None) -> None:
        self._shown: dict[str, str] = {}
        root = str(Path(app.__file__).parent.parent)
        found = os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH", "")) if p)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "app.bench.peer", str(path), *([str(n_ctx)] if n_ctx else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"PYTHONPATH": found},
            process_group=0,  # Ctrl+C ends us, and we end it
        )
        try:
            self.about = self._read()
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def show(self, picture: Path, mmproj: str) -> None:
        """Set the picture for tests with `n_rows`, and the vision file for it."""
        self._shown = {"picture": str(picture), "mmproj": mmproj}

    def run(self, test: BenchTest, threads: int, flash_attention: bool, warm_up: bool) -> int:
        """Nanoseconds of one repetition. Raises PeerFailed."""
        reply = self._post(
            **(self._shown if test.n_rows else {}),
            n_prompt=test.n_prompt,
            n_gen=test.n_gen,
            n_depth=test.n_depth,
            threads=threads,
            flash_attention=flash_attention,
            warm_up=warm_up,
        )
        return int(reply["ns"])

    def run_together(
        self, test: ParallelTest, threads: int, flash_attention: bool, warm_up: bool
    ) -> tuple[int, int]:
        """Nanoseconds of reading and of writing. Raises PeerFailed."""
        reply = self._post(
            n_prompt=test.n_prompt,
            n_gen=test.n_gen,
            n_depth=0,
            n_sequences=test.n_sequences,
            is_shared=test.is_shared,
            threads=threads,
            flash_attention=flash_attention,
            warm_up=warm_up,
        )
        return int(reply["read_ns"]), int(reply["write_ns"])

    def _post(self, **request: object) -> dict[str, Any]:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # reading shows why
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        return self._read()

    def close(self) -> None:
        """Ends the process. Harmless when done twice."""
        self._process.kill()
        self._process.wait(GRACE)
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait(GRACE)
            raise PeerFailed(NAME_OF_PEER, f"its process ended with exit code {code}")
        answer: dict[str, Any] = json.loads(line)
        if "missing" in answer:
            raise MissingPackage("llama-cpp-python", "llama-cpp", answer["missing"])
        if "error" in answer:
            raise PeerFailed(NAME_OF_PEER, answer["error"])
        return answer


@dataclass
class Comparison:
    """Nanoseconds of every repetition in turn, with the peer's flash attention on or off."""

    test: BenchTest
    ours: dict[bool, list[int]] = field(default_factory=lambda: {True: [], False: []})
    theirs: dict[bool, list[int]] = field(default_factory=lambda: {True: [], False: []})

    @property
    def flash_attention(self) -> bool:
        """True if flash attention makes the peer faster; the faster setting is reported."""
        on, off = (median(self._rates(self.theirs[flash])) for flash in (True, False))
        return on >= off

    @property
    def samples_ns(self) -> list[int]:
        """Ours that took turns with what is counted."""
        return self.ours[self.flash_attention]

    def as_json(self) -> dict[str, object]:
        """Medians in tokens per second, their ratio (above 1 we are faster), that of each pair of
        turns, and all runs.
        """
        runs = {
            on: (self._rates(self.ours[on]), self._rates(self.theirs[on])) for on in (True, False)
        }
        ours, theirs = runs[self.flash_attention]
        return {
            "ours": median(ours),
            "theirs": median(theirs),
            "ratio": median(ours) / median(theirs),
            "ratios": [a / b for a, b in zip(ours, theirs, strict=True)],
            "theirs_flash_attn": self.flash_attention,
            "runs": {
                f"theirs_flash_attn_{'on' if on else 'off'}": {"ours": own, "theirs": peers}
                for on, (own, peers) in runs.items()
            },
        }

    def _rates(self, samples_ns: list[int]) -> list[float]:
        return [self.test.n_timed * 1e9 / ns for ns in samples_ns]


def busy() -> float:
    """Percent of the processors that others use now, while both of us rest."""
    percent = psutil.cpu_percent(interval=LOOK)
    if percent > MUCH:
        note(
            f"other programs use {percent:.0f} % of the processors: speeds of engines whose "
            "threads wait for each other are unreliable then"
        )
    return percent


def compare(
    test: BenchTest,
    repetitions: int,
    ours: Callable[[bool], int],
    worker_pid: int,
    peer: PeerProcess,
    threads: int,
) -> Comparison:
    """A B A B ... with flash attention on at the peer, then off; `ours` gets a warm-up call."""
    result = Comparison(test)
    for flash_attention in (True, False):
        for i in range(repetitions):
            with stopped(peer.pid):
                taken = ours(flash_attention and i == 0)
            result.ours[flash_attention].append(taken)
            with stopped(worker_pid):
                taken = peer.run(test, threads, flash_attention, warm_up=i == 0)
            result.theirs[flash_attention].append(taken)
    return result


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Its threads may spin while they wait; a stopped process takes no time at all."""
    try:
        process = psutil.Process(pid)
        process.suspend()
    except psutil.NoSuchProcess:  # whoever waits for it says so
        yield
        return
    try:
        yield
    finally:
        with suppress(psutil.NoSuchProcess):
            process.resume()
