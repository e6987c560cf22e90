"""Prints the seconds of each file at the end of a run, set-up included: those of the clock, and
those of processors, which do not depend on what else the machine does.
"""

import os
from collections import defaultdict
from collections.abc import Generator
from contextlib import suppress

import pytest

MOST = 25  # files that are printed
LEAST = 1.0  # seconds of a file that is worth a line
LOOK = 0.05  # seconds between two looks at processes that run
PROCESSOR = "processor seconds"


class Processors:
    """The seconds of this process and of those it has started, at whatever depth; on Linux also of
    those that still run, so that an engine's seconds count where they are spent. Looking at those
    takes as long as a short test does: what they compute meanwhile counts at the next look.
    """

    def __init__(self) -> None:
        self._looked = -LOOK
        self._ended = self._running = 0.0

    def seconds(self) -> float:
        """All that was spent so far."""
        user, system, *children, clock = os.times()
        ended = sum(children)
        if ended != self._ended or clock - self._looked >= LOOK:
            self._looked, self._ended = clock, ended
            self._running = sum(map(_running, _children(os.getpid())))
        return user + system + ended + self._running


def _children(pid: int) -> list[int]:
    found = list[int]()
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError), open(f"/proc/{pid}/task/{thread}/children") as listed:
                found += map(int, listed.read().split())
    return found


def _running(pid: int) -> float:
    """Seconds of a process, of its ended children and of those that run."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    own = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return own + sum(map(_running, _children(pid)))


class Seconds:
    """The plugin. Processor seconds come from a worker of xdist as a property of the test."""

    def __init__(self) -> None:
        self._processors = Processors()
        self._before = self._processors.seconds()
        self.clock: dict[str, float] = defaultdict(float)
        self.processor: dict[str, float] = defaultdict(float)
        self.tests: dict[str, float] = {}

    def pytest_collection_finish(self) -> None:
        self._before = self._processors.seconds()  # what collecting took is no test's

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        if call.when == "teardown":
            now = self._processors.seconds()
            item.user_properties.append((PROCESSOR, now - self._before))
            self._before = now
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file = report.nodeid.partition("::")[0]
        self.clock[file] += report.duration
        if report.when == "teardown":
            own = sum(float(str(v)) for name, v in report.user_properties if name == PROCESSOR)
            self.processor[file] += own
            self.tests[report.nodeid] = round(own, 3)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the longest files; processor seconds of each test are in pytest's cache."""
        cache = getattr(terminalreporter.config, "cache", None)  # "-p no:cacheprovider"
        if cache is not None:
            cache.set("seconds", dict(sorted(self.tests.items(), key=lambda one: -one[1])))
        longest = sorted(self.clock, key=lambda file: -self.clock[file])[:MOST]
        longest = [file for file in longest if self.clock[file] >= LEAST]
        if not longest:
            return
        terminalreporter.section("seconds of the longest files: clock, processors")
        for file in longest:
            terminalreporter.line(f"{self.clock[file]:7.1f} {self.processor[file]:7.1f} {file}")
        totals = sum(self.clock.values()), sum(self.processor.values())
        terminalreporter.line(f"{totals[0]:7.1f} {totals[1]:7.1f} all {len(self.clock)} files")
