"""Processor seconds are the system's own numbers, and short tests do not look at each process."""

import os
import resource
import subprocess
import sys

import pytest

from tests.line import seconds
from tests.line.seconds import LOOK, Processors

SPENT = 0.2
TICKS = 0.05  # a system counts in hundredths, of each process and each kind
SPIN = f"""
import time
while time.process_time() < {SPENT}:
    pass
print(flush=True)
input()
"""


@pytest.mark.only_linux("others do not say what a running process has spent")
def test_one_that_runs_counts_and_once_more_it_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seconds, "LOOK", 0.0)
    processors = Processors()
    before, ended = processors.seconds(), resource.getrusage(resource.RUSAGE_CHILDREN)
    own = resource.getrusage(resource.RUSAGE_SELF)
    with subprocess.Popen(
        [sys.executable, "-c", SPIN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert processors.seconds() - before > SPENT - TICKS
        child.communicate("\n")
    now = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    pairs = zip(now, (own, ended), strict=True)
    true = sum(a.ru_utime + a.ru_stime - b.ru_utime - b.ru_stime for a, b in pairs)
    assert processors.seconds() - before == pytest.approx(true, abs=TICKS)


def test_it_looks_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, ended, looks = 0.0, 0.0, list[int]()
    monkeypatch.setattr(os, "times", lambda: (1.0, 2.0, ended, 0.0, clock))
    monkeypatch.setattr(seconds, "_children", lambda pid: looks.append(pid) or [])
    processors = Processors()
    for _ in range(10):
        assert processors.seconds() == 3.0
        clock += LOOK / 20
    assert len(looks) == 1
    ended = 0.5  # one has ended, and what it spent is no longer that of one that runs
    assert processors.seconds() == 3.5
    assert len(looks) == 2
    clock += LOOK
    processors.seconds()
    assert len(looks) == 3
