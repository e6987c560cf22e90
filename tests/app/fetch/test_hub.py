"""Fetching a Hugging Face repository, against an endpoint on this machine."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from huggingface_hub import HfApi

from app.defaults.places import MAGIC
from app.fetch import KNOWN, FetchProgress, FetchStopped, fetch, source
from app.library import resolve
from engine.errors import DownloadError, ModelNotFound
from engine.kept import read_sealed
from tests.app.helpers.fake_hub import FakeHub, HubFile
from tests.app.helpers.server import Page, Server

COMMIT = "c" * 40
Q4, Q8 = b"four bits " * 80_000, b"eight bits " * 90_000
TOWER = b"tower" * 112_000
SPLITS = [bytes([i]) * 300_000 for i in range(3)]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.fetch.job.Job.wait", lambda job, seconds: job.check())


def publish(server: Server, repo: str, files: dict[str, bytes]) -> None:
    """A repository as the Hub answers for it; the file itself is served by another address."""
    siblings = [{"rfilename": name} for name in files]
    about = {"id": repo, "sha": COMMIT, "siblings": siblings, "tags": [], "private": False}
    json_type = {"Content-Type": "application/json"}
    server.pages[f"/api/models/{repo}"] = Page(json.dumps(about).encode(), json_type)
    for name, content in files.items():
        digest = hashlib.sha256(content).hexdigest()
        server.pages[f"/cdn/{digest}"] = Page(content, {"ETag": '"of-the-cdn"'})
        server.pages[f"/{repo}/resolve/main/{name}"] = Page(
            b"",
            {
                "X-Repo-Commit": COMMIT,
                "X-Linked-Etag": f'"{digest}"',
                "X-Linked-Size": str(len(content)),
                "Location": f"{server.url.replace('127.0.0.1', 'localhost')}/cdn/{digest}?sign=1",
            },
            status=302,
        )


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def cdn(content: bytes) -> str:
    return f"/cdn/{digest(content)}"


@pytest.fixture
def repo(server: Server, own_home: Path) -> Path:
    """org/repo with two quantisations, a projector and a split model; its folder in the cache."""
    files = {"README.md": b"hi", "m-Q4_0.gguf": Q4, "m-Q8_0.gguf": Q8, "mmproj-m-F16.gguf": TOWER}
    for i, content in enumerate(SPLITS):
        files[f"big/m-Q6_K-{i + 1:05}-of-00003.gguf"] = content
    publish(server, "org/repo", files)
    return own_home / "hf" / "hub" / "models--org--repo"


def test_one_file_into_the_cache(repo: Path, server: Server) -> None:
    seen: list[FetchProgress] = []
    path = fetch("org/repo:q4_0", seen.append)
    assert path == repo / "snapshots" / COMMIT / "m-Q4_0.gguf"
    assert path.read_bytes() == Q4
    assert resolve("org/repo:Q4_0") == path
    assert (repo / "refs" / "main").read_text() == COMMIT
    assert {p.name for p in (repo / "blobs").iterdir()} == {digest(Q4), digest(TOWER)}
    both = len(Q4) + len(TOWER)
    along = "with mmproj-m-F16.gguf, 1 MB"
    assert seen[-1] == FetchProgress("download", both, both, along)
    assert server.ranges_of(cdn(Q8)) == []
    fetch("org/repo:Q4_0")
    assert server.ranges_of(cdn(Q4)) == [None]


def test_all_splits(repo: Path) -> None:
    seen: list[FetchProgress] = []
    first = fetch("org/repo:Q6_K", seen.append)
    assert first.name == "m-Q6_K-00001-of-00003.gguf"
    assert [p.read_bytes() for p in sorted(first.parent.iterdir())] == SPLITS
    assert (repo / "snapshots" / COMMIT / "mmproj-m-F16.gguf").read_bytes() == TOWER
    assert {p.total for p in seen} == {900_000 + len(TOWER)}
    assert [p.done for p in seen] == sorted(p.done for p in seen)


def test_a_projector_by_its_name(repo: Path) -> None:
    assert fetch("org/repo:mmproj-m-F16").read_bytes() == TOWER
    assert [p.name for p in (repo / "blobs").iterdir()] == [digest(TOWER)]


def test_the_text_alone(repo: Path) -> None:
    fetch("org/repo:Q4_0", text_only=True)
    assert [p.name for p in (repo / "blobs").iterdir()] == [digest(Q4)]


@pytest.mark.parametrize(
    ("files", "taken"),
    [
        (("mmproj-m-BF16.gguf", "mmproj-m-F16.gguf", "mmproj-m-F32.gguf"), "mmproj-m-F16.gguf"),
        (("mmproj-m-BF16.gguf", "mmproj-m-F32.gguf", "mmproj-m-Q8_0.gguf"), "mmproj-m-BF16.gguf"),
        (("mmproj-m-Q4_0.gguf", "mmproj-m-Q8_0.gguf"), "mmproj-m-Q8_0.gguf"),
        (("mmproj-a-F16.gguf", "sub/mmproj-m-7b-Q8_0.gguf"), "sub/mmproj-m-7b-Q8_0.gguf"),
        (("mmproj.gguf",), "mmproj.gguf"),
    ],
)
def test_of_several_projectors_the_best(
    files: tuple[str, ...], taken: str, server: Server, own_home: Path
) -> None:
    towers = {name: name.encode() for name in files}
    publish(server, "org/see", {"m-7b-Q4_0.gguf": Q4, "imatrix.dat": b"x", **towers})
    snapshot = fetch("org/see").parent
    found = sorted(p.relative_to(snapshot).as_posix() for p in snapshot.rglob("*.gguf"))
    assert found == sorted(["m-7b-Q4_0.gguf", taken])


def test_known_models_that_see(server: Server, own_home: Path) -> None:
    known = KNOWN["smolvlm-256m"]
    repo, _, quant = known.repository.partition(":")
    large = known.file_name.replace("Q8_0", "f16")
    publish(server, repo, {known.file_name: Q8, large: Q4, f"mmproj-{large}": TOWER})
    with pytest.raises(ModelNotFound, match="fetch it with `cutaway get smolvlm-256m`"):
        resolve("smolvlm-256m")
    model = fetch("smolvlm-256m")
    assert (model.name, model.read_bytes(), quant) == (known.file_name, Q8, "Q8_0")
    assert (model.parent / f"mmproj-{large}").read_bytes() == TOWER
    assert resolve("smolvlm-256m") == model
    assert all(m.repository or m.parts for m in KNOWN.values())


def test_which_file_must_be_clear(repo: Path, server: Server) -> None:
    with pytest.raises(ModelNotFound, match=r"several.*org/repo:Q6_K, org/repo:Q4_0, .*Q8_0"):
        fetch("org/repo")
    with pytest.raises(ModelNotFound, match=r"no Q5_K_M; there are .*org/repo:Q4_0"):
        fetch("org/repo:Q5_K_M")
    publish(server, "org/none", {"model.safetensors": b"x"})
    with pytest.raises(ModelNotFound, match="has no GGUF file"):
        fetch("org/none")
    publish(server, "org/part", {"m-00002-of-00002.gguf": b"x"})
    with pytest.raises(ModelNotFound, match="1 splits are not in the repository"):
        fetch("org/part")
    publish(server, "org/single", {"m.gguf": Q4, "mmproj-m.gguf": b"p"})
    assert fetch("org/single").read_bytes() == Q4


def test_goes_on_after_a_broken_connection(repo: Path, server: Server) -> None:
    server.pages[cdn(Q4)].breaks = [300_000] + [0] * (source.TRIES - 1)
    with pytest.raises(DownloadError, match=r"broke at 0\.3 MB.*resumes"):
        fetch("org/repo:Q4_0")
    assert not (repo / "snapshots").exists()
    assert fetch("org/repo:Q4_0").read_bytes() == Q4
    assert server.ranges_of(cdn(Q4))[-1] == "bytes=300000-"


def test_lying_hash(repo: Path, server: Server) -> None:
    server.pages[cdn(Q4)].body = Q4[:-1] + b"!"
    with pytest.raises(DownloadError, match="instead of"):
        fetch("org/repo:Q4_0")
    assert not [p for p in repo.rglob("*") if p.is_file()]


def test_cancel_and_go_on(repo: Path, server: Server) -> None:
    done: list[int] = []
    with pytest.raises(FetchStopped):
        fetch("org/repo:Q8_0", lambda p: done.append(p.done), lambda: bool(done))
    assert fetch("org/repo:Q8_0").read_bytes() == Q8
    assert str(server.ranges_of(cdn(Q8))[-1]).startswith("bytes=")


def test_too_little_space(repo: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(repo.parent.parent.parent)._replace(free=(16 << 20) + 600_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(DownloadError, match=r"needs 1 MB in .* 1 MB are free"):
        fetch("org/repo:Q6_K")
    assert server.ranges_of(cdn(SPLITS[0])) == []
    assert fetch("org/repo:mmproj-m-F16").read_bytes() == TOWER


def test_token_goes_to_the_hub_only(
    repo: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    fetch("org/repo:Q4_0")
    sent = {(path.split("/")[1], login) for path, login in server.logins}
    assert ("cdn", None) in sent
    assert ("cdn", "Bearer hf_secret") not in sent
    assert ("org", "Bearer hf_secret") in sent


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (404, "RepoNotFound", "no such repository, or it is private"),
        (403, "GatedRepo", "terms must be accepted at http.*/org/gone.*HF_TOKEN"),
        (500, "", "check the network, the proxy and HF_ENDPOINT"),
    ],
)
def test_refusals(server: Server, status: int, code: str, message: str) -> None:
    headers = {"X-Error-Code": code} if code else {}
    server.pages["/api/models/org/gone"] = Page(b"", headers, status)
    with pytest.raises(DownloadError, match=message) as caught:
        fetch("org/gone")
    assert "\n" not in str(caught.value)


def test_no_hub(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("CUTAWAY_TEST_HOSTS", "127.0.0.1")
    with pytest.raises(DownloadError, match=r"127\.0\.0\.1: .*check the network"):
        fetch("org/repo")


def test_the_first_part_gets_its_name_last(
    repo: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    linked: list[str] = []
    whole = HfApi.hf_hub_download

    def download(api: HfApi, repo_id: str, file: str) -> str:
        linked.append(file)
        return whole(api, repo_id, file)

    monkeypatch.setattr(HfApi, "hf_hub_download", download)
    fetch("org/repo:Q6_K")
    parts = [f"big/m-Q6_K-0000{i}-of-00003.gguf" for i in (3, 2, 1)]
    assert linked == ["mmproj-m-F16.gguf", *parts]


@pytest.mark.parametrize("place", ["o/r", "o/base", "", "large"])
def test_what_its_makers_say_of_sampling_is_kept(hub: FakeHub, own_home: Path, place: str) -> None:
    hub.add("o/r", {"m-Q4_0.gguf": Q4}, tags=["base_model:quantized:o/base"])
    hub.add("o/base", {"model.safetensors": b"x"})
    said = b'{"temperature": 0.6}' if place != "large" else b"x" * (1 << 16 + 1)
    hub.repos[place if "/" in place else "o/r"].files |= (
        {"generation_config.json": HubFile(said, lfs=False)} if place else {}
    )
    fetch("o/r")
    kept = own_home / "data" / "cutaway" / "generation_config" / f"{digest(Q4)}.sealed"
    assert kept.exists() == ("/" in place)
    assert not kept.exists() or read_sealed(kept, MAGIC) == said


def test_a_cache_that_cannot_be_written_is_no_network_problem(hub: FakeHub, own_home: Path) -> None:
    hub.add("o/r", {"m-Q4_0.gguf": Q4})
    (own_home / "hf").mkdir()
    (own_home / "hf" / "hub").write_text("a file in its place")
    with pytest.raises(DownloadError, match="cannot write to") as caught:
        fetch("o/r")
    assert "network" not in str(caught.value)
