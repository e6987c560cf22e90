"""The first run on a device that nobody has had: is it right, how fast, and what its compiler made.

Steps run one after the other, each within twice its share of the minutes that are left. A step that
fails, hangs or takes its process down ends there, and the next one begins. Each record of a step is
written as soon as it is known, a line of JSON, so that nothing is lost where the machine goes away:

    folder/summary.json          the machine, the device, and how each step ended
    folder/05-programs.jsonl     the records of a step
    folder/programs/*.bin        the driver's binaries (PTX on NVIDIA)
    folder/tuning/*.json         what tuning has found

A processor in the manner of GPUs (CUTAWAY_LANES) is a hundred times slower: steps then take few
cases, and small models.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import IO, Any

import msgspec

from app.checks.processes import cases, check_drivers, trials
from app.report.contents import SpeedRow
from app.report.document import scrubber
from app.report.gather import machine_facts, program_facts, properties
from app.report.sizes import LARGE, SHAPES, Shape, write, write_header
from app.report.speeds import Measured, ReportProgress, measure, run, usual
from app.terminal.child import child
from engine.errors import BadSetting, Cancelled, CutawayError, DeviceError
from engine.kept import write_atomically
from engine.protocol import BenchTest, Compare, DeviceRow, ListDevices, Load, SelfTest, Tune
from engine.settings import LANES, EngineOptions
from engine.worker import Worker

MINUTES = 10.0
GENEROUS = 2.0
"""Shares of the time that is left that a step may take: most leave much of theirs."""

_EVERYWHERE = "rows|norm|norm_chain|quantize|matmul|matmul_tiled|rope_store|attention"
FIRST, OTHERS = rf"^({_EVERYWHERE})\b", rf"^(?!({_EVERYWHERE})\b)"
"""Operations that every model needs, whose cases are tried before all others; and those."""

PRODUCTS = r"^(matmul|attention|add)\b"
SMALL = Shape("2 blocks", "two blocks of Llama 3.2 1B", 2048, 8192, 2, 32, 8, 4096, SHAPES[1].kind)
TINY = Shape("2 small blocks", "nothing", 512, 1024, 2, 8, 2, 1024, SHAPES[1].kind)
FEW = Measured((TINY,), (BenchTest(n_prompt=16), BenchTest(n_gen=4)), 1, {1: 1})
TEXT = "w1 w2 w3 w4 w5 w6 w7 w8"
FAST = 50e9
"""Bytes/s of memory from which a device is worth a model of 8B."""

MOST_BYTES = 6 << 30
"""Memory that it needs."""

Keep = Callable[[Any], None]


class StepDone(msgspec.Struct):
    """The end of a step: seconds of at most `limit`, its records, and a problem if it has one."""

    name: str
    shows: str
    limit: float
    seconds: float = 0.0
    records: int = 0
    problem: str = ""


class FirstRun(msgspec.Struct):
    """The run so far. `unwritten` says which files could not be written."""

    when: str
    program: dict[str, str]
    machine: dict[str, Any]
    steps: list[StepDone]
    device: DeviceRow | None = None
    stopped: bool = False
    unwritten: str = ""


@dataclass
class Kit:
    """The state that steps share: the folder, and the device once it is chosen."""

    folder: Path
    wanted: str
    stop: Callable[[], bool]
    on_progress: ReportProgress
    row: DeviceRow | None = None
    bytes_per_s: float = 0.0
    few: bool = field(default_factory=LANES.get)
    scrub: Callable[[Any], Any] = field(default_factory=scrubber)

    @property
    def device(self) -> str:
        """The name of the device. Raises `DeviceError` where there is none."""
        if self.row is None:
            raise DeviceError("(any)", "no OpenCL device was found; see 01-drivers.jsonl")
        return self.row.id

    def part(self, name: str) -> Path:
        """A folder in the folder. Raises OSError."""
        path = self.folder / name
        path.mkdir(exist_ok=True)
        return path

    def lines(self, keep: Keep, module: str, *args: str) -> None:
        """Keep each line of JSON that a module of the engine prints. Raises `CutawayError`."""
        with child(module, *args, timeout=NO_SILENCE, stop=self.stop) as process:
            for line in process.lines():
                keep(msgspec.json.decode(line))
            if problem := process.problem():
                raise DeviceError(self.device, problem)


NO_SILENCE = 1e6
"""Seconds: a step has a limit of its own."""


def _drivers(kit: Kit, keep: Keep) -> None:
    for driver in check_drivers(kit.stop):
        keep(driver)
    with Worker() as worker:
        rows = run(worker, ListDevices(worker.new_id()), "(any)", kit.stop).devices
    for row in rows:
        keep(row)
    if kit.wanted and kit.wanted not in [row.id for row in rows]:
        there = ", ".join(row.id for row in rows) or "none"
        raise BadSetting("--device", kit.wanted, f"an OpenCL device; there is {there}")
    chosen = [row for row in rows if row.id == kit.wanted or (not kit.wanted and row.is_default)]
    kit.row = next(iter(chosen), None)
    if kit.row is None:
        raise DeviceError("(any)", "no OpenCL device was found: install its vendor's driver")


def _device(kit: Kit, keep: Keep) -> None:
    found, roof = properties(kit.device, kit.stop)
    keep(found)
    if roof is not None:
        kit.bytes_per_s = roof.bytes_per_s
        keep(roof)


def _trials(kit: Kit, keep: Keep) -> None:
    kit.lines(keep, "engine.backends.opencl.drivers.trials", kit.device)


def _costs(kit: Kit, keep: Keep) -> None:
    kit.lines(keep, "engine.backends.opencl.costs", kit.device)


def _programs(kit: Kit, keep: Keep) -> None:
    device, folder = kit.device, kit.part("programs")
    header = folder / "8b.gguf"
    try:
        write_header(header, LARGE)
        kit.lines(keep, "engine.runner.programs", device, str(header), str(folder))
    finally:
        header.unlink(missing_ok=True)


def _checked(kit: Kit, keep: Keep, wanted: SelfTest) -> None:
    for done, of, result in cases(wanted, kit.stop):
        kit.on_progress(f"case {done} of {of}", done, max(of, 1))
        if result.status != "started":
            keep(result)


def _right(kit: Kit, keep: Keep) -> None:
    _checked(kit, keep, SelfTest(kit.device, FIRST, quick=True, shares=2, each=4 * kit.few))


def _others(kit: Kit, keep: Keep) -> None:
    _checked(kit, keep, SelfTest(kit.device, OTHERS, quick=True, shares=2, each=1 * kit.few))


def _compared(kit: Kit, keep: Keep) -> None:
    device, path = kit.device, kit.folder / "2-blocks.gguf"
    try:
        write(path, TINY if kit.few else SMALL)
        with Worker() as worker:
            options = EngineOptions(device=device, ctx=512, prepared=0)
            run(worker, Load(worker.new_id(), str(path), options), device, kit.stop)
            request = Compare(worker.new_id(), prompt=TEXT)
            keep(run(worker, request, device, kit.stop))
    finally:
        path.unlink(missing_ok=True)


def _products(kit: Kit, keep: Keep) -> None:
    _checked(kit, keep, SelfTest(kit.device, PRODUCTS, checks=False, speed=True, each=1 * kit.few))


def _speeds(kit: Kit, keep: Keep) -> None:
    device = kit.device
    large = kit.bytes_per_s >= FAST and kit.row is not None and kit.row.memory >= MOST_BYTES
    rows: list[SpeedRow] = []
    try:
        wanted = FEW if kit.few else usual((LARGE,) if large else ())
        measure(device, rows, kit.on_progress, kit.stop, wanted)
    finally:
        for row in rows:
            keep(row)


def _tuned(kit: Kit, keep: Keep) -> None:
    family = "rows" if kit.few else ""
    wanted = Tune(kit.device, family, folder=str(kit.part("tuning")))
    for done, (of, trial) in enumerate(trials(wanted, kit.stop), 1):
        kit.on_progress(f"trial {done} of {of}", done, max(of, 1))
        keep(trial)


@dataclass(frozen=True)
class Step:
    """`share` of the whole time, in hundredths; what a step leaves of it is for those behind it."""

    name: str
    shows: str
    share: float
    run: Callable[[Kit, Keep], None]


STEPS = (
    Step("drivers", "which drivers load and run a kernel", 8, _drivers),
    Step("device", "properties of the device, and its memory bandwidth", 5, _device),
    Step("trials", "which instructions of its vendor work", 11, _trials),
    Step("costs", "the cost of launches and copies", 4, _costs),
    Step("programs", "the programs of an 8B model, built one by one", 14, _programs),
    Step("self test", "whether the operations of every model are right", 14, _right),
    Step("two blocks", "whether a small model is right, result by result", 8, _compared),
    Step("products", "how fast products and attention are alone", 6, _products),
    Step("speed", "how fast models of random weights are", 14, _speeds),
    Step("tuning", "the kernel settings that are fastest", 8, _tuned),
    Step("all operations", "whether all other operations are right", 8, _others),
)


def first_run(
    folder: Path, wanted: str, minutes: float, on_progress: ReportProgress, stop: Callable[[], bool]
) -> FirstRun:
    """Run all steps on the device of that name, or on the best; `on_progress` gets the progress in
    parts of 1. Once `stop` is true it ends within a second. Raises OSError where there is no
    folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    end, everything = monotonic() + minutes * 60, sum(step.share for step in STEPS)
    limits = [round(minutes * 60 * step.share / everything, 1) for step in STEPS]
    run = FirstRun(
        when=datetime.now().strftime("%Y-%m-%d %H:%M"),
        program=program_facts(),
        machine=machine_facts(),
        steps=[StepDone(s.name, s.shows, limit) for s, limit in zip(STEPS, limits, strict=True)],
    )
    kit = Kit(folder, wanted, stop, on_progress)
    for n, (step, done) in enumerate(zip(STEPS, run.steps, strict=True), 1):
        before = sum(s.share for s in STEPS[: n - 1])
        left = end - monotonic()
        done.limit = round(min(1.0, GENEROUS * step.share / (everything - before)) * left, 1)

        def report_step(
            what: str, at: float, of: float, step: Step = step, start: float = before
        ) -> None:
            on_progress(f"{step.name}: {what}", (start + step.share * at / of) / everything, 1.0)

        kit.on_progress = report_step
        report_step("", 0, 1)
        _take(kit, step, n, done, stop)
        run.device = kit.row
        run.stopped = stop()
        _write_summary(kit, run)
        if run.stopped:
            break
    return run


def _take(kit: Kit, step: Step, n: int, done: StepDone, stop: Callable[[], bool]) -> None:
    """One step; whatever goes wrong in it becomes its problem."""
    start = monotonic()
    kit.stop = lambda: stop() or monotonic() - start > done.limit
    try:
        with _records(kit, done, f"{n:02}-{step.name.replace(' ', '-')}.jsonl") as keep:
            step.run(kit, keep)
    except Cancelled:
        done.problem = "stopped" if stop() else f"ended after its {done.limit:g} s"
    except OSError as error:
        done.problem = f"{Path(error.filename or kit.folder).name}: {error.strerror or error}"
    except CutawayError as error:
        done.problem = str(error)
    except Exception as error:  # noqa: BLE001  a mistake of ours in a step ends that step alone
        done.problem = f"{type(error).__name__}: {error}"
    done.problem = kit.scrub(done.problem)
    done.seconds = round(monotonic() - start, 1)


@contextmanager
def _records(kit: Kit, done: StepDone, name: str) -> Iterator[Keep]:
    """A function that writes a record at once, without anything private. Raises OSError."""
    with (kit.folder / name).open("wb", buffering=0) as file:

        def keep(record: Any) -> None:
            _write_line(file, msgspec.json.encode(kit.scrub(msgspec.to_builtins(record))))
            done.records += 1

        yield keep


def _write_line(file: IO[bytes], line: bytes) -> None:
    file.write(line + b"\n")


def _write_summary(kit: Kit, run: FirstRun) -> None:
    """What is known so far. A disk that is full does not end the run: the terminal has it too."""
    data = msgspec.json.encode(kit.scrub(msgspec.to_builtins(run)))
    try:
        write_atomically(kit.folder / "summary.json", msgspec.json.format(data, indent=1) + b"\n")
        run.unwritten = ""
    except OSError as error:
        run.unwritten = f"summary.json: {error.strerror or error}"


def lines(run: FirstRun) -> Iterator[str]:
    """A line a step, for people."""
    name = f"{run.device.id} ({run.device.name})" if run.device is not None else "no device"
    yield f"First run on {name}"
    for step in run.steps:
        ended = step.problem or ("done" if step.seconds or step.records else "not begun")
        yield f"  {step.name:<15}{step.seconds:6.0f} s {step.records:5} records  {ended}"
    if run.unwritten:
        yield f"Not written: {run.unwritten}"
