"""The window is closed at any moment: the program ends well, and nothing of it stays."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.program import MARK, ROOT, still_there

pytestmark = [pytest.mark.model_file, pytest.mark.device, pytest.mark.usefixtures("nothing_left")]

MOMENTS = ("answering", "loading", "answered")


@pytest.mark.parametrize("runs", [1, pytest.param(20, marks=pytest.mark.full)])
def test_open_ask_close(
    runs: int, own_home: Path, kernels: Path, smollm2_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUTAWAY_CACHE", str(kernels))
    for n in range(runs):
        moment = MOMENTS[n % len(MOMENTS)]
        ended = open_ask_close(smollm2_path, moment)
        said = [line for line in ended.stderr.splitlines() if "propagateSizeHints" not in line]
        assert (ended.returncode, said) == (0, []), f"run {n + 1}, {moment}"
        assert not list(still_there(os.environ[MARK])), f"run {n + 1}, {moment}"


def open_ask_close(model: Path, moment: str, *under: str) -> "subprocess.CompletedProcess[str]":
    command = [*under, sys.executable, "-m", "tests.app.end_to_end.open_ask_close"]
    return subprocess.run(
        [*command, str(model), moment],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.full
@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_no_connection_is_opened(
    own_home: Path,
    kernels: Path,
    smollm2_path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the program, its engine or a library of either, in a start, a chat and an exit."""
    monkeypatch.setenv("CUTAWAY_CACHE", str(kernels))
    trace = tmp_path / "trace"
    options = ("-f", "--seccomp-bpf", "-e", "trace=network", "-o", str(trace))
    ended = open_ask_close(smollm2_path, "answered", "strace", *options)
    assert ended.returncode == 0, ended.stderr
    calls = trace.read_text().splitlines()
    assert any("socketpair(AF_UNIX" in call for call in calls)  # the engine's
    assert [call for call in calls if "AF_INET" in call] == []
