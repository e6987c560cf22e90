"""Fetches in the background; the fetching itself is tested where it is written."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from app import fetch
from app.fetch.job import FetchProgress, FetchStopped
from app.state.models.downloads import Downloads
from app.work import close_jobs
from engine.errors import DownloadError
from tests.app.helpers.fake_hub import FakeHub, HubFile
from tests.app.state.conftest import Until

Report, Stopped = Callable[[FetchProgress], None], Callable[[], bool]


def fake(
    name: str,
    progress: Report,
    cancelled: Stopped,
    accept_terms: bool,
    preferred: Path | None,
    text_only: bool,
    parts: object,
) -> Path:
    """Behaves by its name, as the real one's contract has it."""
    name = name.partition("#")[0]
    if name == "broken":
        raise DownloadError(name, "no network")
    total, done = (1 << 60 if name == "endless" else 50 << 20), 0
    while done < total:
        if cancelled():
            raise FetchStopped(name)
        done += 10 << 20
        progress(FetchProgress("download", done, total))
        time.sleep(0.02)
    progress(FetchProgress("unpack", total, total))
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
    downloads.start("endless")
    until(lambda: downloads.items["endless"].rate)
    item = downloads.items["endless"]
    assert item.rate is not None
    assert item.left_s == pytest.approx((item.total - item.done) / item.rate)
    downloads.start("endless")  # runs already
    downloads.pause("endless")
    downloads.pause("endless")
    assert downloads.items["endless"].state == "stopping"
    until(lambda: downloads.items["endless"].state == "paused")
    downloads.start("endless")
    assert downloads.items["endless"].state == "running"
    downloads.cancel("endless")
    until(lambda: downloads.items["endless"].state == "stopped")
    close_jobs()


def test_a_rate_is_bytes_of_a_second(
    downloads: Downloads, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that goes on with the bytes: 1000 of them in each quarter of a second."""
    name, clock = "steady", [0.0]
    monkeypatch.setattr("app.state.models.downloads.monotonic", lambda: clock[0])

    def steady(*args: object) -> Path:
        report = args[1]
        assert callable(report)
        for n in range(1, 9):
            clock[0] = n / 4
            report(FetchProgress("download", 1000 * n, 10_000))
            while downloads.items[name].done < 1000 * n:
                time.sleep(0.001)
        return Path("/steady.gguf")

    monkeypatch.setattr(fetch, "fetch", steady)
    downloads.start(name)
    until(lambda: downloads.items[name].state == "done")
    assert downloads.items[name].rate == pytest.approx(4000)
    close_jobs()


def test_two_at_once(downloads: Downloads, until: Until) -> None:
    names = [f"endless#{i}" for i in range(4)]
    for name in names:
        downloads.start(name)

    def fetched() -> list[str]:
        return [
            n for n in names if downloads.items[n].done and downloads.items[n].state != "paused"
        ]

    until(lambda: len(fetched()) == 2)
    until(lambda: [d.stage for d in downloads.items.values()].count("waiting") == 2)
    waiting = [n for n in names if n not in fetched()]
    downloads.pause(waiting[0])
    until(lambda: downloads.items[waiting[0]].state == "paused")
    downloads.pause(fetched()[0])
    until(lambda: downloads.items[waiting[1]].done)
    for name in names:
        downloads.pause(name)
    until(lambda: all(d.state == "paused" for d in downloads.items.values()))
    close_jobs()


def test_failed(downloads: Downloads, until: Until) -> None:
    heard: list[tuple[str, str]] = []
    downloads.failed.connect(lambda name, text: heard.append((name, text)))
    downloads.start("broken")
    until(lambda: heard)
    assert heard == [("broken", "broken: no network")]
    assert downloads.items["broken"].state == "failed"
    downloads.pause("broken")
    downloads.cancel("never asked for")
    assert downloads.items["broken"].problem == "broken: no network"
    downloads.cancel("broken")
    assert (downloads.items["broken"].state, downloads.items["broken"].problem) == ("stopped", "")
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


def slow_model(hub: FakeHub) -> HubFile:
    hub.add("o/r", {"m-Q4_0.gguf": bytes(range(256)) * 8192, "mmproj-m-F16.gguf": b"eyes" * 9})
    file = hub.repos["o/r"].files["m-Q4_0.gguf"]
    file.seconds_a_chunk = 0.02
    return file


def left(home: Path) -> list[Path]:
    return list(home.rglob("*.part*"))


def test_paused_resumed_and_cancelled(
    qapp: object, hub: FakeHub, own_home: Path, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, downloads = slow_model(hub), Downloads()
    downloads.pause("o/r")  # nothing to pause
    downloads.resume("o/r")
    assert downloads.items == {}
    downloads.start("o/r", text_only=True)
    until(lambda: downloads.items["o/r"].done > 300_000)
    downloads.pause("o/r")
    until(lambda: downloads.items["o/r"].state == "paused")
    (part,) = left(own_home)
    before = part.stat().st_size
    assert before > 0
    downloads.resume("o/r")
    until(lambda: downloads.items["o/r"].done > before)
    assert [r for r in hub.ranges("m-Q4_0.gguf") if r] == [f"bytes={before}-"] * 2
    downloads.cancel("o/r")
    until(lambda: downloads.items["o/r"].state == "stopped")
    assert left(own_home) == []
    downloads.start("o/r", text_only=True)
    until(lambda: downloads.items["o/r"].done > 100_000)
    downloads.pause("o/r")
    until(lambda: downloads.items["o/r"].state == "paused")
    downloads.cancel("o/r")
    assert (downloads.items["o/r"].state, left(own_home)) == ("stopped", [])
    file.seconds_a_chunk = 0
    downloads.resume("o/r")
    until(lambda: downloads.items["o/r"].state == "done")
    path = downloads.items["o/r"].path
    assert path is not None
    assert path.read_bytes() == file.content
    assert [p.name for p in path.parent.iterdir()] == ["m-Q4_0.gguf"]  # the text alone
    close_jobs()


def test_a_gated_model_names_its_page(
    qapp: object, hub: FakeHub, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    downloads = Downloads()
    slow_model(hub).seconds_a_chunk = 0
    hub.repos["o/r"].gated = "manual"
    downloads.start("o/r")
    until(lambda: downloads.items["o/r"].state == "failed")
    item = downloads.items["o/r"]
    assert item.page == f"{hub.url}/o/r"
    assert f"terms must be accepted at {hub.url}/o/r" in item.problem
    monkeypatch.setenv("HF_TOKEN", hub.token)
    downloads.resume("o/r")
    until(lambda: downloads.items["o/r"].state == "done")
    assert downloads.items["o/r"].page == ""
    assert {a.login for a in hub.asked if a.host == "cdn"} == {None}
    close_jobs()
