"""Makes every failure of an operation happen, in order, each in a process of its own.

    LD_PRELOAD=calls.so python -m tests.failing.sweep OPERATION FOLDER [--few N | --random N]

Prints JSON: how many calls there are, how many failures were injected, and what was wrong. Without
an operation it sweeps for each line of stdin, its words and its environment as JSON, in a child:
most of a short sweep is to import the program.
"""

import argparse
import errno
import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.errors import CutawayError
from tests.failing.disk import LOSSES, Disk, Loss, Record, notes, read_log
from tests.failing.preload import SHORT, Fault, arm, disarm, note

PATIENCE = 120  # seconds that an operation may take
DAY = 24 * 3600.0 + 60
MOST_WRONG = 10  # one more tells nothing new
DONE, REFUSED = "done", "refused"


def never(before: Any, after: Any, now: Any) -> bool:
    """Nothing between the state before and the one after is right."""
    return False


@dataclass(frozen=True)
class Operation:
    """Something that writes below a folder.

    `setup` makes what is there before. `do` is the operation as a person starts it, in a program
    that has just started; it raises CutawayError, or says `refused` and tries again, where it
    could not be done. `state` reads anew, as the next start does, what is stored: it raises where
    that cannot be read. Whatever fails, the state is the one before or after, or is `between`
    them; where the operation was said to be done, it is the one after, or where it is `optional`
    (a cache) the one before or between. `keeps` are patterns of files that another operation
    tidies up when it was killed.
    """

    name: str
    setup: Callable[[Path], None]
    do: Callable[[Path], None]
    state: Callable[[Path], Any]
    between: Callable[[Any, Any, Any], bool] = never
    optional: bool = False
    keeps: tuple[str, ...] = ()


@dataclass
class Result:
    """What a sweep found."""

    calls: int = 0
    injected: int = 0
    wrong: list[str] = field(default_factory=list)


def refused(error: object) -> None:
    """The person reads why an operation was not done."""
    note(f"{REFUSED}: {error}")


class Sweep:
    """All failures of one operation, below `folder`."""

    def __init__(self, operation: Operation, folder: Path) -> None:
        self.operation, self._folder = operation, folder
        self._before = folder / "before"
        self.result = Result()
        self._check(in_child(lambda: operation.setup(self._before), folder)[1], "set up")
        shutil.copytree(self._before, folder / "looked", symlinks=True)
        self._state_before = self._state(folder / "looked")
        self._clean()

    def fail(self, fault: Fault) -> None:
        """Run it with this fault, then look at what is left and try again."""
        root = self._fresh("at")
        log = self._folder / "log"
        log.unlink(missing_ok=True)
        status, problem = in_child(lambda: self._act(root, fault, log), self._folder)
        said = notes(read_log(log))
        self.result.injected += 1
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        if problem and not killed:
            self._wrong(fault, problem)
        self._look(root, fault, said, killed or fault.stays)

    def lose_power(self) -> Iterator[tuple[int, Loss]]:
        """Each place and each way in which power can be lost, from the log of a clean run."""
        places = [n for n, record in enumerate(self._records) if record.kind == "C"]
        for place in [*places, len(self._records)]:
            for loss in LOSSES:
                yield place, loss

    def power(self, place: int, loss: Loss) -> None:
        """Lose power just before a record; the next start has what is left."""
        disk = deepcopy(self._pristine)
        for record in self._records[:place]:
            disk.take(record)
        root = self._folder / "at"
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir()
        disk.write(root, loss, place)
        self.result.injected += 1
        what = f"power is lost ({loss}) before record {place} ({_told(self._records, place)})"
        self._look(root, what, notes(self._records[:place]), True)

    def _clean(self) -> None:
        """Without any failure: how many calls, the state after, the files that are there."""
        root = self._fresh("clean")
        self._pristine = Disk(root)
        log = self._folder / "clean.log"
        _, problem = in_child(lambda: self._act(root, Fault(), log), self._folder)
        self._check(problem, "a run without failures")
        self._records = read_log(log)
        self.calls = [record for record in self._records if record.kind == "C"]
        self.result.calls = len(self.calls)
        if notes(self._records) != [DONE]:
            raise AssertionError(f"{self.operation.name}: {notes(self._records)}")
        self._state_after = self._state(root)
        if self._state_after == self._state_before:
            raise AssertionError(f"{self.operation.name}: does nothing")
        self._files_after = _files(root)

    def _act(self, root: Path, fault: Fault, log: Path) -> None:
        arm(root, fault, log)
        try:
            self.operation.do(root)
        except CutawayError as error:
            refused(error)
        else:
            note(DONE)

    def _look(self, root: Path, fault: object, said: Sequence[str], may_leave: bool) -> None:
        done = bool(said) and said[-1] == DONE
        try:
            now = self._state(root)
        except AssertionError as error:
            return self._wrong(fault, f"the next start: {error}")
        self._judge(fault, now, done)
        if now != self._state_after:
            _, problem = in_child(lambda: self.operation.do(root), self._folder)
            if problem:
                return self._wrong(fault, f"trying again: {problem}")
            try:
                again = self._state(root)
            except AssertionError as error:
                return self._wrong(fault, f"after trying again: {error}")
            if now == self._state_before and again != self._state_after:
                self._wrong(fault, f"tried again, it is {again}, not {self._state_after}")
        stray = _files(root) - self._files_after
        if may_leave:
            stray = {name for name in stray if not any(map(Path(name).match, self.operation.keeps))}
        if may_leave and stray:  # the next write, a day later, tidies up
            _age(root)
            _, problem = in_child(lambda: self.operation.do(root), self._folder)
            if problem:
                return self._wrong(fault, f"once more: {problem}")
            stray &= _files(root)
        if stray:
            self._wrong(fault, f"left behind: {sorted(stray)}")
        return None

    def _judge(self, fault: object, now: Any, done: bool) -> None:
        before, after = self._state_before, self._state_after
        if done and now != after and not self.operation.optional:
            self._wrong(fault, f"was said to be done, but is {now}, not {after}")
        elif now not in (before, after) and not self.operation.between(before, after, now):
            self._wrong(fault, f"is {now}, neither {before} nor {after}")

    def _state(self, root: Path) -> Any:
        told = self._folder / "state.json"
        told.unlink(missing_ok=True)
        _, problem = in_child(
            lambda: told.write_text(json.dumps(self.operation.state(root))), self._folder
        )
        assert not problem, problem
        return json.loads(told.read_text())

    def _fresh(self, name: str) -> Path:
        root = self._folder / name
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(self._before, root, symlinks=True)
        return root

    def _check(self, problem: str, what: str) -> None:
        if problem:
            raise AssertionError(f"{self.operation.name}: {what}: {problem}")

    def _wrong(self, fault: object, problem: str) -> None:
        if isinstance(fault, Fault):
            at = (fault.at or fault.end) - 1
            call = self.calls[at] if at < len(self.calls) else None
            where = f" ({call.to} {Path(call.path).name})" if call else ""
            fault = f"{fault}{where}"
        self.result.wrong.append(f"{self.operation.name}: {fault}: {problem}"[:2000])


def faults(calls: int) -> Iterator[Fault]:
    """Every call, with each kind of failure, and a kill there."""
    for at in range(1, calls + 1):
        for error in (errno.ENOSPC, errno.EIO, errno.EACCES, SHORT):
            yield Fault(at, error)
        yield Fault(at, errno.ENOSPC, stays=True)
        yield Fault(at, errno.EIO, stays=True)
        yield Fault(end=at)


def drawn(calls: int, draw: random.Random) -> Fault:
    """A failure anywhere, and often a kill later."""
    at = draw.randint(1, calls)
    error = draw.choice((errno.ENOSPC, errno.EIO, errno.EACCES, SHORT))
    end = draw.randint(at, calls + 5) if draw.random() < 0.5 else 0
    return Fault(at, error, draw.random() < 0.5, end)


def in_child(do: Callable[[], object], folder: Path) -> tuple[int, str]:
    """Run something in a process of its own; how it ended, and its problem or its traceback."""
    told = folder / "problem"
    told.unlink(missing_ok=True)
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        signal.alarm(PATIENCE)
        errors = os.open(folder / "stderr", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(errors, 1)
        os.dup2(errors, 2)
        try:
            do()
        except BaseException:  # noqa: BLE001  whatever it is, the parent is told
            disarm()
            told.write_text(traceback.format_exc())
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    problem = told.read_text() if told.exists() else ""
    printed = (folder / "stderr").read_text(errors="replace")
    if not problem and "Traceback" in printed:
        problem = printed
    if not problem and status:
        problem = f"it ended with status {status}: {printed[-500:]}"
    return status, problem[-1500:]


def _files(root: Path) -> set[str]:
    """All names of files, but for those of SQLite's own that come and go."""
    found = {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()}
    return {name for name in found if not name.endswith(("-wal", "-shm", "-journal", ".lock"))}


def _age(root: Path) -> None:
    then = time.time() - DAY
    for path in root.rglob("*"):
        if not path.is_symlink():
            os.utime(path, (then, then))


def _told(records: Sequence[Record], place: int) -> str:
    if place == len(records):
        return "the end"
    return f"{records[place].to} {Path(records[place].path).name}"


def serve() -> None:
    """Print a line for each of stdin; null where the child says on stderr what was wrong."""
    from tests.failing import operations

    assert operations.OPERATIONS, "imported before a child is forked"
    for line in sys.stdin:
        words, variables = json.loads(line)
        child = os.fork()
        if child == 0:
            try:
                os.environ |= variables
                main(words)
            except BaseException:  # noqa: BLE001  whatever it is, the parent is told
                traceback.print_exc()
                os._exit(1)
            sys.stdout.flush()
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            print("null", flush=True)


def main(words: Sequence[str]) -> None:
    from tests.failing.operations import OPERATIONS

    parser = argparse.ArgumentParser()
    parser.add_argument("operation", choices=sorted(OPERATIONS))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--few", type=int, default=0)
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(words)
    sweep = Sweep(OPERATIONS[options.operation], options.folder.resolve())
    draw = random.Random(f"{options.operation} {options.seed}")
    if options.random:
        for _ in range(options.random):
            sweep.fail(drawn(sweep.result.calls, draw))
    else:
        jobs: list[Callable[[], None]] = [
            *(lambda fault=fault: sweep.fail(fault) for fault in faults(sweep.result.calls)),
            *(lambda place=place: sweep.power(*place) for place in sweep.lose_power()),
        ]
        step = len(jobs) / options.few if options.few else 1.0
        first = draw.random() * step  # evenly, so that no part of the operation is left out
        for job in jobs if step <= 1 else (jobs[int(first + n * step)] for n in range(options.few)):
            job()
            if len(sweep.result.wrong) == MOST_WRONG:
                break
    with suppress(OSError):
        shutil.rmtree(options.folder)
    print(json.dumps(sweep.result.__dict__))


if __name__ == "__main__":
    main(sys.argv[1:]) if sys.argv[1:] else serve()
