"""No kernel accesses what is not its own, and no two items race: Oclgrind looks at each access."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

NO_PREFETCH = "-D__builtin_prefetch(...)=(void)0"  # which the simulator does not know


@pytest.mark.timeout(1500)
# A CPU runs its own kernels in every other test; a GPU is often not there.
@pytest.mark.parametrize(
    ("kind", "every"),
    [
        ("gpu", 32),
        ("dots", 20),
        ("shares", 1),
        ("attention", 1),
        *(pytest.param(kind, 1, marks=pytest.mark.full) for kind in ("cpu", "gpu", "dots")),
    ],
)
def test_no_invalid_access_and_no_race(kind: str, every: int, tmp_path: Path) -> None:
    oclgrind = shutil.which("oclgrind")
    if oclgrind is None:
        assert "CI" not in os.environ, "CI installs it"
        pytest.skip("needs oclgrind: apt-get install oclgrind")
    log = tmp_path / "oclgrind.log"
    module = "tests.engine.selftest.simulated"
    options = ("--data-races", "--build-options", NO_PREFETCH)
    done = subprocess.run(
        [oclgrind, *options, "--log", log, sys.executable, "-m", module, kind, str(every)],
        cwd=Path(__file__).parents[3],
        env=os.environ | {"CUTAWAY_CACHE": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=1400,
    )
    assert done.returncode == 0, done.stderr
    assert "failed" not in done.stdout, done.stdout
    passed = [int(line.split()[1]) for line in done.stdout.splitlines() if "passed" in line]
    assert len(passed) == 1
    if kind == "attention":
        assert "ALIGNED=1 PARTS=8 ROWS=64" in done.stdout
        assert passed == [2]
    elif kind == "shares":
        assert "MERGES=1 MERGES=32 STORES=1" in done.stdout
        assert passed == [3]
    else:
        assert passed[0] > (20 if kind == "dots" else 100) // every, done.stdout
    assert not log.read_text("utf-8"), log.read_text("utf-8")[:3000]
