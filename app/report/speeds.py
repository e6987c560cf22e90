"""How fast a device is with the three models; an engine of its own for each, which may die."""

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import cast

import msgspec

from app.report.contents import SpeedRow
from app.report.sizes import SHAPES, Shape, write
from engine.errors import BadFile, Cancelled, CutawayError, DeviceError
from engine.protocol import Bench, BenchTest, Load, Profile, R, Reply, Request
from engine.settings import EngineOptions, cache_folder
from engine.units import MIB
from engine.worker import Worker

TESTS = (BenchTest(n_prompt=512), BenchTest(n_gen=64), BenchTest(n_gen=32, n_depth=2048))
CTX = 2048 + 256
REPETITIONS = 3
PROFILED = {512: 2, 1: 8}  # tokens of a step: steps
SILENCE = 300.0  # seconds without a word after which the engine is taken for dead
TICK = 0.1
ROOM = 512 * MIB  # of disk that is left free

ReportProgress = Callable[[str, float, float], None]
"""Takes what is being done, and how much of how much."""


@dataclass(frozen=True)
class Measured:
    """Models, tests of each, how often these are repeated, and tokens of a profiled step: steps."""

    shapes: Sequence[Shape]
    tests: Sequence[BenchTest]
    repetitions: int
    profiled: Mapping[int, int]


def usual(more: Sequence[Shape] = ()) -> Measured:
    """The three models, and `more` of them."""
    return Measured((*SHAPES, *more), TESTS, REPETITIONS, PROFILED)


def measure(
    device: str,
    rows: list[SpeedRow],
    on_progress: ReportProgress,
    stop: Callable[[], bool],
    wanted: Measured | None = None,
) -> None:
    """Put a row a model into `rows`, problems included. Raises `Cancelled`."""
    wanted = wanted or usual()
    shapes = wanted.shapes
    for i, shape in enumerate(shapes):
        row = SpeedRow(shape.name)
        rows.append(row)

        def report_step(what: str, done: float, i: int = i, name: str = shape.name) -> None:
            on_progress(f"{name}, {what}", i + done, len(shapes))

        try:
            with tempfile.TemporaryDirectory(prefix="report-", dir=folder()) as made:
                report_step("writing the file", 0.0)
                path = Path(made) / f"{shape.name.replace(' ', '_')}.gguf"
                _write(path, shape)
                _measure(device, path, row, report_step, stop, wanted)
        except Cancelled:
            raise
        except CutawayError as error:
            row.problem = str(error)


def folder() -> Path:
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _write(path: Path, shape: Shape) -> None:
    """Raises BadFile where the disk has no room."""
    nbytes = shape.nbytes
    free = shutil.disk_usage(path.parent).free
    if free < nbytes + ROOM:
        needs = f"needs {(nbytes + ROOM) // MIB} MiB of disk, {free // MIB} MiB are free"
        raise BadFile(path.name, f"{needs}; set CUTAWAY_CACHE to a larger one")
    try:
        write(path, shape)
    except OSError as error:
        raise BadFile(path.name, f"cannot be written: {error.strerror or error}") from None


def _measure(
    device: str,
    path: Path,
    row: SpeedRow,
    on_progress: Callable[[str, float], None],
    stop: Callable[[], bool],
    wanted: Measured,
) -> None:
    options = EngineOptions(device=device, ctx=CTX, prepared=0)  # the file is soon gone
    with Worker() as worker:
        on_progress("loading", 0.1)
        start = monotonic()
        run(worker, Load(worker.new_id(), str(path), options), device, stop)
        row.load_s = round(monotonic() - start, 2)
        for n, test in enumerate(wanted.tests):
            on_progress(test.name, 0.2 + 0.5 * n / len(wanted.tests))
            bench = Bench(worker.new_id(), test, wanted.repetitions, True)
            samples = run(worker, bench, device, stop).samples_ns
            row.samples_ts[test.name] = [round(test.n_timed * 1e9 / ns, 2) for ns in samples]
        for n_tokens, steps in wanted.profiled.items():
            on_progress("where the time goes", 0.8)
            profile = Profile(worker.new_id(), n_tokens, [0], steps)
            for one in run(worker, profile, device, stop).profiles:
                fields = msgspec.to_builtins(one)
                row.profiles.append(
                    {"test": one.name} | {k: v for k, v in fields.items() if k not in _SINGLE}
                )


_SINGLE = ("launches", "host")  # thousands of lines


def run(worker: Worker, request: Request[R], device: str, stop: Callable[[], bool]) -> R:
    """The reply that ends a request, from a process that is killed where it hangs or is to stop.

    Raises `Cancelled`, `DeviceError`, `RemoteError`, `WorkerDied`.
    """
    last_message, last = monotonic(), cast("Reply | None", None)
    for last in worker.run(request, tick=TICK):
        if stop():
            worker.kill()
            raise Cancelled("the report")
        if last is not None:
            last_message = monotonic()
        elif monotonic() - last_message > SILENCE:
            worker.kill()
            raise DeviceError(device, f"no answer within {SILENCE:g} s")
    assert isinstance(last, request.ends)
    return cast(R, last)
