"""The self test's process, which ends or hangs in the middle of one case as a driver might do it.

The environment names the case and what happens: CRASHES_AT, HANGS_AT.
"""

import os
import sys
import time

from engine.device.backend import Backend
from engine.protocol import CaseResult
from engine.selftest import __main__ as program
from engine.selftest.case import Case

CHECK = program.check


def check(case: Case, backend: Backend, host: Backend) -> CaseResult:
    if case.name == os.environ.get("CRASHES_AT"):
        os.abort()
    if case.name == os.environ.get("HANGS_AT"):
        time.sleep(1000)
    return CHECK(case, backend, host)


if __name__ == "__main__":
    program.check = check
    program.main(sys.argv[1])
