"""Fetches in the background; the fetching itself is tested where it is written."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from app import fetch
from app.fetch.job import Cancelled, Progress
from app.state.models.downloads import Downloads
from app.work import close_jobs
from engine.errors import DownloadError
from tests.app.state.conftest import Until

Report, Stopped = Callable[[Progress], None], Callable[[], bool]


def fake(name: str, progress: Report, cancelled: Stopped, accept_terms: bool) -> Path:
    """Behaves by its name, as the real one's contract has it."""
    if name == "broken":
        raise DownloadError(name, "no network")
    total, done = (1 << 30 if name == "slow" else 50 << 20), 0
    while done < total:
        if cancelled():
            raise Cancelled(name)
        done += 10 << 20
        progress(Progress("download", done, total))
        time.sleep(0.02)
    progress(Progress("unpack", total, total))
    return Path(f"/{name}-{accept_terms}.gguf")


@pytest.fixture
def downloads(qapp: object, monkeypatch: pytest.MonkeyPatch) -> Downloads:
    monkeypatch.setattr(fetch, "fetch", fake)
    return Downloads()


def test_done(downloads: Downloads, until: Until) -> None:
    states: list[object] = []
    finished: list[tuple[str, Path]] = []
    downloads.changed.connect(lambda name: states.append(downloads.items[name]))
    downloads.finished.connect(lambda name, path: finished.append((name, path)))
    downloads.start("smollm2-135m")
    until(lambda: finished)
    assert finished == [("smollm2-135m", Path("/smollm2-135m-False.gguf"))]
    item = downloads.items["smollm2-135m"]
    assert (item.state, item.stage, item.done, item.total) == ("done", "unpack", 50 << 20, 50 << 20)
    assert len(states) >= 4
    close_jobs()


def test_stop_and_go_on(downloads: Downloads, until: Until) -> None:
    downloads.start("slow")
    until(lambda: downloads.items["slow"].rate)
    item = downloads.items["slow"]
    assert item.rate is not None
    assert item.left_s == pytest.approx((item.total - item.done) / item.rate)
    assert 50 << 20 < item.rate < 500 << 20  # 10 MiB every 20 ms and what sleeping costs
    downloads.start("slow")  # runs already
    began = time.monotonic()
    downloads.cancel("slow")
    downloads.cancel("slow")
    assert downloads.items["slow"].state == "stopping"
    until(lambda: downloads.items["slow"].state == "stopped")
    assert time.monotonic() - began < 0.2
    downloads.start("slow")
    assert downloads.items["slow"].state == "running"
    downloads.cancel("slow")
    until(lambda: downloads.items["slow"].state == "stopped")
    close_jobs()


def test_failed(downloads: Downloads, until: Until) -> None:
    heard: list[tuple[str, str]] = []
    downloads.failed.connect(lambda name, text: heard.append((name, text)))
    downloads.start("broken")
    until(lambda: heard)
    assert heard == [("broken", "broken: no network")]
    assert downloads.items["broken"].state == "failed"
    downloads.cancel("broken")
    downloads.cancel("never asked for")
    assert downloads.items["broken"].problem == "broken: no network"
    close_jobs()


def test_terms_come_first(downloads: Downloads, until: Until) -> None:
    asked: list[str] = []
    downloads.terms_needed.connect(lambda name, terms: asked.append(terms.url))
    downloads.start("gemma3-270m")
    assert (asked, downloads.items) == (["https://ai.google.dev/gemma/terms"], {})
    downloads.start("gemma3-270m", accept_terms=True)
    until(lambda: downloads.items["gemma3-270m"].state == "done")
    assert downloads.items["gemma3-270m"].path == Path("/gemma3-270m-True.gguf")
    close_jobs()
