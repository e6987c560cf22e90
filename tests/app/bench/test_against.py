"""Turns of two engines: who runs while who is stopped, and what the numbers become."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from app.bench.against import Comparison, PeerProcess, compare, stopped
from engine.errors import MissingPackage, PeerFailed
from engine.protocol import BenchTest

TEST = BenchTest(n_gen=10)
MS = 1_000_000
# As much of llama-cpp-python as is asked for before a model is opened, and a model it refuses.
REFUSES = """
def llama_log_callback(f): return f
def llama_log_set(f, data): pass
def llama_backend_init(): print("a C library's chatter")
class Params: pass
llama_model_default_params = Params
def llama_model_load_from_file(path, params): return None
"""


@pytest.fixture
def pids() -> Iterator[list[int]]:
    """Two processes that sleep."""
    running = [subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1) for _ in range(2)]
    yield [process.pid for process in running]
    for process in running:
        process.kill()
        process.communicate()


def is_stopped(pid: int) -> bool:
    deadline = time.monotonic() + 60
    while psutil.Process(pid).status() != psutil.STATUS_STOPPED:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def test_turns(pids: list[int]) -> None:
    worker_pid, peer_pid = pids
    turns: list[object] = []

    def ours(warm_up: bool) -> int:
        assert is_stopped(peer_pid)
        turns.append(("ours", warm_up))
        return 50 * MS

    class Peer:
        pid = peer_pid

        def run(self, test: BenchTest, threads: int, flash_attention: bool, warm_up: bool) -> int:
            assert is_stopped(worker_pid)
            turns.append(("theirs", flash_attention, warm_up))
            assert (test, threads) == (TEST, 3)
            return 100 * MS

    compare(TEST, 2, ours, worker_pid, Peer(), 3)  # type: ignore[arg-type]
    assert turns == [
        *(("ours", True), ("theirs", True, True), ("ours", False), ("theirs", True, False)),
        *(("ours", False), ("theirs", False, True), ("ours", False), ("theirs", False, False)),
    ]
    assert psutil.STATUS_STOPPED not in [psutil.Process(pid).status() for pid in pids]


def test_a_process_that_is_gone_stops_nobody(pids: list[int]) -> None:
    process = psutil.Process(pids[0])
    with stopped(pids[0]):
        process.kill()
        process.wait(60)
    with stopped(pids[0]):
        pass


def test_the_better_of_theirs_is_counted() -> None:
    on, off = [200 * MS, 100 * MS, 400 * MS], [125 * MS, 1000 * MS, 125 * MS]
    result = Comparison(
        TEST,
        {True: [50 * MS, 40 * MS, 20 * MS], False: [100 * MS, 200 * MS, 100 * MS]},
        {True: on, False: off},
    )
    found = result.as_json()
    assert result.samples_ns == [100 * MS, 200 * MS, 100 * MS]
    assert (found["ours"], found["theirs"], found["ratio"]) == (100, 80, 1.25)
    assert found["ratios"] == [1.25, 5, 1.25]
    assert found["theirs_flash_attn"] is False
    assert found["runs"] == {
        "theirs_flash_attn_on": {"ours": [200, 250, 500], "theirs": [50, 100, 25]},
        "theirs_flash_attn_off": {"ours": [100, 50, 100], "theirs": [80, 10, 80]},
    }


def package(folder: Path, text: str) -> None:
    (folder / "llama_cpp").mkdir()
    (folder / "llama_cpp" / "__init__.py").write_text("")
    (folder / "llama_cpp" / "llama_cpp.py").write_text(text)


def test_a_model_the_peer_does_not_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path, REFUSES)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(PeerFailed, match=r"llama\.cpp does not load no\.gguf"):
        PeerProcess(Path("no.gguf"))


def test_a_package_whose_library_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path, "raise RuntimeError('no shared library')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(MissingPackage, match="no shared library"):
        PeerProcess(Path("no.gguf"))


def test_a_peer_that_crashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path, "import os; os.abort()")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(PeerFailed, match="exit code -6"):
        PeerProcess(Path("no.gguf"))
