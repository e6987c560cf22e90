"""Self-tests, driver checks and tuning trials of a device, in processes that it may take down."""

from collections.abc import Callable, Iterator
from queue import Queue
from threading import Thread

import msgspec
from msgspec.structs import replace

from app.terminal.child import Child, child, never
from engine.errors import BadSetting, CutawayError, DeviceError
from engine.protocol import (
    CaseResult,
    DeviceRow,
    DriverCheck,
    ListDevices,
    SelfTest,
    SelfTestPlan,
    TrialResult,
    Tune,
    TunePlan,
    TuneResult,
)
from engine.worker import Worker

SILENCE = 180.0  # seconds that a case or a trial may take; compilers are slow
DRIVERS_SILENCE = 300.0  # seconds; each driver has less
SHARES = 2


def cases(
    wanted: SelfTest, stop: Callable[[], bool] = never
) -> Iterator[tuple[int, int, CaseResult]]:
    """(done, of, result) of every case, its shares side by side. Raises `CutawayError` where none
    can be run, and `Cancelled`.
    """
    results: Queue[tuple[int, int, int, CaseResult] | CutawayError | None] = Queue()
    running: list[Child] = []

    def work(share: int) -> None:
        try:
            for done, total, result in _share(replace(wanted, share=share), running, stop):
                results.put((share, done, total, result))
        except CutawayError as error:
            results.put(error)
        except msgspec.MsgspecError as error:
            results.put(DeviceError(wanted.device, f"its self test cannot be read: {error}"))
        finally:
            results.put(None)

    for share in range(wanted.shares):
        Thread(target=work, args=(share,), daemon=True).start()
    progress = dict.fromkeys(range(wanted.shares), (0, 0))
    at_work = wanted.shares
    try:
        while at_work:
            news = results.get()
            if isinstance(news, CutawayError):
                raise news
            if news is None:
                at_work -= 1
                continue
            share, done, total, result = news
            progress[share] = done, total
            yield sum(d for d, _ in progress.values()), sum(n for _, n in progress.values()), result
    finally:
        for process in running:
            process.kill()


def _share(
    wanted: SelfTest, running: list[Child], stop: Callable[[], bool]
) -> Iterator[tuple[int, int, CaseResult]]:
    """A case that takes its process down has failed; the next process goes on behind it."""
    first, total = 0, 1
    while first < total:
        at_work = None
        text = msgspec.json.encode(replace(wanted, first=first)).decode()
        with child("engine.selftest", text, timeout=SILENCE, stop=stop) as process:
            running.append(process)
            for line in process.lines():
                news = msgspec.json.decode(line, type=SelfTestPlan | CaseResult)
                if isinstance(news, SelfTestPlan):
                    if news.problem:
                        raise CutawayError(news.problem)
                    total = news.n_cases
                    continue
                at_work = news if news.status == "started" else None
                first += news.status != "started"
                yield first, total, news
            problem = process.problem()
        if not problem and first >= total:
            return
        if at_work is None:
            raise CutawayError(f"the self test of {wanted.device}: {problem or 'it ended early'}")
        first += 1
        yield first, total, replace(at_work, status="failed", problem=problem)


def list_devices() -> list[DeviceRow]:
    """List the devices that a worker finds. Raises `WorkerDied` where a driver takes it down."""
    with Worker() as worker:
        return worker.get(ListDevices(worker.new_id())).devices


def choose_device(name: str | None) -> DeviceRow:
    """The OpenCL device of that name, or the best. Raises `BadSetting`, `WorkerDied`."""
    rows = list_devices()
    for row in rows:
        if row.id == name or (name is None and row.is_default):
            return row
    if name is None and rows:
        return rows[0]
    there = ", ".join(row.id for row in rows) or "none: pip install 'cutaway[cpu]' installs one"
    raise BadSetting("--device", name or "", f"an OpenCL device; there is {there}")


def check_drivers(stop: Callable[[], bool] = never) -> Iterator[DriverCheck]:
    """Each driver's result as soon as it is there; a process of the engine finds them."""
    with child("engine.backends.opencl.diagnose", timeout=DRIVERS_SILENCE, stop=stop) as process:
        for line in process.lines():
            yield msgspec.json.decode(line, type=DriverCheck)
        if problem := process.problem():
            raise DeviceError("(any)", f"searching drivers: {problem}")


def trials(
    wanted: Tune, stop: Callable[[], bool] = never
) -> Iterator[tuple[int, TrialResult | TuneResult]]:
    """(of how many, trial), the result last. Raises `CutawayError` where there is none."""
    total, result = 0, None
    text = msgspec.json.encode(wanted).decode()
    with child("engine.tuner", text, timeout=SILENCE, stop=stop) as process:
        for line in process.lines():
            news = msgspec.json.decode(line, type=TunePlan | TrialResult | TuneResult)
            if isinstance(news, TunePlan):
                if news.problem:
                    raise CutawayError(news.problem)
                total = news.n_trials
                continue
            result = news
            yield total, news
        problem = process.problem()
    if not isinstance(result, TuneResult):
        raise CutawayError(f"tuning {wanted.device}: {problem or 'it ended early'}")
