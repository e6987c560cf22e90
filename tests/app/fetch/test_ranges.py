"""Large files by several ranges: broken, killed, refused, wrong; against a Hub on this machine."""

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import numpy as np
import pytest

from app.fetch import FetchProgress, FetchStopped, fetch, ranges, source, transfer
from app.fetch.ranges import _cut, _merged, _missing
from engine.errors import DownloadError
from tests.app.helpers.fake_hub import FakeHub, HubFile

KIB, MIB = 1 << 10, 1 << 20


def content(size: int) -> bytes:
    return np.random.default_rng(size).bytes(size)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "RANGED_FROM", MIB)
    monkeypatch.setattr(ranges, "RECORD_EVERY", 128 * KIB)
    monkeypatch.setattr(ranges, "POLL", 0.005)
    for module in (ranges, transfer):
        monkeypatch.setattr(module, "pause_before_retry", lambda error, failures: 0.0)


def publish(hub: FakeHub, size: int = 4 * MIB) -> HubFile:
    hub.add("o/r", {"m-Q4_0.gguf": content(size)})
    return hub.repos["o/r"].files["m-Q4_0.gguf"]


def spans(hub: FakeHub) -> list[tuple[int, int]]:
    """Of the requests to the second host: first byte, and the one behind the last."""
    asked = [a.range for a in hub.asked if a.host == "cdn" and a.method == "GET" and a.range]
    found = [text.removeprefix("bytes=").split("-") for text in asked]
    return [(int(first), int(last) + 1 if last else -1) for first, last in found]


def parts(home: Path) -> list[str]:
    return sorted(path.name[64:] for path in home.rglob("*.part*"))


def test_four_ranges_and_a_check(hub: FakeHub, own_home: Path) -> None:
    file = publish(hub)
    seen: list[FetchProgress] = []
    assert fetch("o/r", seen.append).read_bytes() == file.content
    assert sorted(spans(hub)) == [(i * MIB, (i + 1) * MIB) for i in range(4)]
    assert sum(hub.sent.values()) == 4 * MIB
    stages = [progress.stage for progress in seen]
    assert stages == sorted(stages, key=["download", "checking"].index) or (
        stages[-1] == "download"  # the whole fetch's last word
    )
    assert "checking" in stages
    done = [progress.done for progress in seen if progress.stage == "download"]
    assert (done, done[-1]) == (sorted(done), 4 * MIB)
    assert parts(own_home) == []


def test_a_small_file_comes_in_one_stream(hub: FakeHub) -> None:
    file = publish(hub, MIB - 1)
    assert fetch("o/r").read_bytes() == file.content
    assert hub.ranges("m-Q4_0.gguf")[-1] is None


def test_cut_connections_go_on_where_they_broke(hub: FakeHub) -> None:
    file = publish(hub)
    file.cuts = [100_000, 300_000, 1, 500_000, 0, 700_000, 50_000]
    assert fetch("o/r").read_bytes() == file.content
    assert sum(hub.sent.values()) <= 4 * MIB + 64 * KIB


def test_a_broken_server_is_given_up_and_resumed(hub: FakeHub, own_home: Path) -> None:
    file = publish(hub)
    file.cuts = [200_000] * 4 + [0] * 100
    with pytest.raises(DownloadError, match=r"broke at .*resumes"):
        fetch("o/r")
    assert parts(own_home) == [".part", ".part.json"]
    file.cuts = []
    before = sum(hub.sent.values())
    assert before > 400_000
    assert fetch("o/r").read_bytes() == file.content
    assert sum(hub.sent.values()) <= 4 * MIB + 4 * 64 * KIB


def test_stopped_and_resumed(hub: FakeHub, own_home: Path) -> None:
    file = publish(hub)
    file.seconds_a_chunk = 0.005
    done: list[int] = []
    left: list[Path] = []
    with pytest.raises(FetchStopped):
        fetch(
            "o/r",
            lambda p: done.append(p.done),
            lambda: bool(done) and done[-1] > MIB,
            parts=left.extend,
        )
    assert [path.name[64:] for path in left] == [".part"]
    assert ranges.present(left[0]) > MIB
    assert fetch("o/r").read_bytes() == file.content
    assert sum(hub.sent.values()) <= 4 * MIB + 512 * KIB  # what was under way
    assert parts(own_home) == []


def test_a_part_of_one_stream_is_gone_on_with(
    hub: FakeHub, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = publish(hub)
    monkeypatch.setattr(ranges, "RANGED_FROM", 1 << 40)
    done: list[int] = []
    with pytest.raises(FetchStopped):
        fetch("o/r", lambda p: done.append(p.done), lambda: bool(done))
    monkeypatch.setattr(ranges, "RANGED_FROM", MIB)
    have = next(own_home.rglob("*.part")).stat().st_size
    assert have > 0
    asked = len(spans(hub))
    assert fetch("o/r").read_bytes() == file.content
    assert min(spans(hub)[asked:])[0] == have


def test_another_content_begins_anew(hub: FakeHub, own_home: Path) -> None:
    file = publish(hub)
    file.cuts = [200_000] * 4 + [0] * 100
    with pytest.raises(DownloadError):
        fetch("o/r")
    record = next(own_home.rglob("*.part.json"))
    record.write_bytes(record.read_bytes().replace(file.sha256[:8].encode(), b"01234567"))
    file.cuts, before = [], sum(hub.sent.values())
    assert fetch("o/r").read_bytes() == file.content
    assert sum(hub.sent.values()) == before + 4 * MIB


@pytest.mark.parametrize(
    "record", [b"", b"[1]", b'{"size": 9, "etag": "", "done": [[5, 99]]}', b"[" * 99_999]
)
def test_a_record_that_does_not_hold(hub: FakeHub, own_home: Path, record: bytes) -> None:
    file = publish(hub)
    file.cuts = [200_000] * 4 + [0] * 100
    with pytest.raises(DownloadError):
        fetch("o/r")
    next(own_home.rglob("*.part.json")).write_bytes(record)
    file.cuts = []
    assert fetch("o/r").read_bytes() == file.content


def test_a_server_without_ranges(hub: FakeHub, own_home: Path) -> None:
    file = publish(hub)
    file.ranges = False
    assert fetch("o/r").read_bytes() == file.content
    assert hub.ranges("m-Q4_0.gguf")[-1] is None
    assert parts(own_home) == []


@pytest.mark.parametrize("size", [4 * MIB, 500_000])
def test_wrong_bytes_are_found(hub: FakeHub, own_home: Path, size: int) -> None:
    file = publish(hub, size)
    wrong = bytearray(file.content)
    wrong[size // 2] ^= 1
    file.served = bytes(wrong)
    with pytest.raises(DownloadError, match=r"has sha256 .* instead of .*deleted"):
        fetch("o/r")
    assert parts(own_home) == []
    file.served = None
    assert fetch("o/r").read_bytes() == file.content


@pytest.mark.parametrize("size", [4 * MIB, 500_000])
def test_wrong_bytes_of_an_earlier_try_are_fetched_again(
    hub: FakeHub, own_home: Path, size: int
) -> None:
    file = publish(hub, size)
    file.cuts = [100_000] * 4 + [0] * 100
    with pytest.raises(DownloadError):
        fetch("o/r")
    part = next(own_home.rglob("*.part"))
    with part.open("r+b") as damaged:
        damaged.write(b"x" * 100)
    file.cuts = []
    assert fetch("o/r").read_bytes() == file.content


@pytest.mark.parametrize("size", [4 * MIB, 500_000])
@pytest.mark.parametrize("ranged", [True, False])
def test_nothing_is_written_beyond_the_announced_size(
    hub: FakeHub, own_home: Path, size: int, ranged: bool
) -> None:
    file = publish(hub, size)
    file.beyond, file.ranges = True, ranged
    if size > MIB and ranged:  # each range is cut at its end
        assert fetch("o/r").read_bytes() == file.content
    else:
        with pytest.raises(DownloadError, match=f"more than the {size} bytes expected"):
            fetch("o/r")
        assert sum(p.stat().st_size for p in own_home.rglob("*.part")) == 0
    assert sum(hub.sent.values()) < size + 64 * MIB


def test_how_long_a_busy_server_is_waited_for() -> None:
    request = httpx2.Request("GET", "http://x/")
    for headers, seconds in (({"Retry-After": "12"}, 12), ({"RateLimit": '"r";r=0;t=33'}, 33)):
        response = httpx2.Response(429, headers=headers, request=request)
        error = httpx2.HTTPStatusError("", request=request, response=response)
        assert source.pause_before_retry(error, 1) == seconds
    assert source.pause_before_retry(httpx2.ReadError(""), 1) == 0.5


@pytest.mark.parametrize("size", [2 * MIB, 500_000])
def test_retry_after_is_heeded(hub: FakeHub, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    def noted(error: httpx2.HTTPError, failures: int) -> float:
        waited.append(source.pause_before_retry(error, failures))
        return 0.0

    for module in (ranges, transfer):
        monkeypatch.setattr(module, "pause_before_retry", noted)
    file = publish(hub, size)
    file.statuses = [(429, {"Retry-After": "12"}), (503, {"Retry-After": "7"})]
    assert fetch("o/r").read_bytes() == file.content
    assert sorted(waited) == [7.0, 12.0]


CHILD = """
from app.fetch import fetch, ranges
ranges.RANGED_FROM, ranges.RECORD_EVERY, ranges.POLL = 1 << 20, 1 << 16, 0.01
fetch("o/r")
"""


def killed_at(hub: FakeHub, points: list[int], size: int) -> None:
    """Fetch in children, each of which is killed once so many bytes have been sent in all."""
    for point in points:
        child = subprocess.Popen([sys.executable, "-c", CHILD], env=os.environ)
        try:
            while sum(hub.sent.values()) < point and child.poll() is None:
                time.sleep(0.002)
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait()
    assert sum(hub.sent.values()) < size


@pytest.mark.parametrize(
    ("size", "kills"), [(16 * MIB, 2), pytest.param(64 * MIB, 10, marks=pytest.mark.full)]
)
def test_killed_and_resumed(
    hub: FakeHub, own_home: Path, nothing_left: None, size: int, kills: int
) -> None:
    file = publish(hub, size)
    hub.chunk, file.seconds_a_chunk = 8 * KIB, 0.01  # slow, so that little is under way
    points = sorted(random.Random(size).sample(range(size // 20, size * 9 // 10), kills))
    killed_at(hub, points, size)
    file.seconds_a_chunk = 0
    part = next(own_home.rglob("*.part"))
    part.with_name(f".{part.name}.json.x1").touch()  # as a kill leaves it in the middle of a write
    path = fetch("o/r")
    assert hashlib.sha256(path.read_bytes()).hexdigest() == file.sha256
    again = sum(hub.sent.values()) - size
    assert 0 <= again < size * 0.05
    assert parts(own_home) == []


def test_spans() -> None:
    assert _merged([(5, 9), (0, 3), (3, 5), (20, 20), (8, 12)]) == [(0, 12)]
    assert _missing([(2, 5), (7, 10)], 12) == [(0, 2), (5, 7), (10, 12)]
    assert _missing([], 4) == [(0, 4)]
    assert _missing([(0, 4)], 4) == []
    assert _cut([(0, 100)]) == [(0, 25), (25, 50), (50, 75), (75, 100)]
    assert _cut([(0, 1)]) == [(0, 1)]
    assert _cut([]) == []
    assert len(_cut([(i * 10, i * 10 + 5) for i in range(9)])) == 9
