"""Searching the Hub and listing a repository, against a Hub on this machine."""

import json
import time
from pathlib import Path

import pytest

from app.fetch import search, source
from app.fetch.search import FoundRepo, Hub, HubError, RepoFile, SearchQuery
from tests.app.helpers.fake_hub import FakeHub


def ids(rows: list[FoundRepo]) -> list[str]:
    return [row.repo for row in rows]


def fill(hub: FakeHub) -> None:
    hub.add("a/chat-1B", {}, parameters=10**9, architecture="llama", trending=3, downloads=5)
    hub.add("b/Chat-9B", {}, parameters=9 * 10**9, trending=2, downloads=9, licence="mit")
    hub.add("c/eyes", {}, task="image-text-to-text", trending=1, likes=7, gated="manual")
    hub.add("d/vectors", {}, task="feature-extraction", modified="2026-09-09T00:00:00.000Z")


def test_fields_of_a_row(hub: FakeHub) -> None:
    fill(hub)
    found, following = Hub().search(SearchQuery("chat-1b"))
    row = FoundRepo(
        *("a/chat-1B", "a", 5, 0, "2026-01-01T00:00:00.000Z", "apache-2.0"),
        *(10**9, "llama", False, "chat"),
    )
    assert (found, following) == ([row], "")
    assert Hub().repository("a/chat-1B") == row


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (SearchQuery(), ["a/chat-1B", "b/Chat-9B", "c/eyes", "d/vectors"]),
        (SearchQuery("chat"), ["a/chat-1B", "b/Chat-9B"]),
        (SearchQuery(sort="downloads"), ["b/Chat-9B", "a/chat-1B", "c/eyes", "d/vectors"]),
        (SearchQuery(sort="likes"), ["c/eyes", "a/chat-1B", "b/Chat-9B", "d/vectors"]),
        (SearchQuery(sort="recent"), ["d/vectors", "a/chat-1B", "b/Chat-9B", "c/eyes"]),
        (SearchQuery(largest=2 * 10**9), ["a/chat-1B"]),
        (SearchQuery(licence="mit"), ["b/Chat-9B"]),
        (SearchQuery(task="images"), ["c/eyes"]),
        (SearchQuery(task="embeddings"), ["d/vectors"]),
        (SearchQuery("no such thing & co"), []),
    ],
)
def test_filters_and_order(hub: FakeHub, query: SearchQuery, expected: list[str]) -> None:
    fill(hub)
    assert ids(Hub().search(query)[0]) == expected


def test_pages_follow_the_link(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "PER_PAGE", 2)
    for i in range(5):
        hub.add(f"o/m{i}", {}, trending=9 - i)
    found, following = Hub().search(SearchQuery("m"))
    pages = [ids(found)]
    while following:
        found, following = Hub().page(following)
        pages.append(ids(found))
    assert pages == [["o/m0", "o/m1"], ["o/m2", "o/m3"], ["o/m4"]]


def test_a_link_to_another_host_is_not_followed(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "PER_PAGE", 1)
    fill(hub)
    right, hub.url = hub.url, hub.cdn  # the next page's address names the other host
    found, following = Hub(endpoint=right).search(SearchQuery())
    assert (len(found), following) == (1, "")


def test_files_over_several_pages(hub: FakeHub) -> None:
    repo = hub.add("o/r", {f"m-{i:02}.gguf": bytes([i]) * i for i in range(7)})
    repo.files["README.md"] = repo.files.pop("m-00.gguf")
    repo.files["README.md"].lfs = False
    hub.tree_page = 3
    files = Hub().files("o/r")
    assert [file.path for file in files] == ["README.md", *(f"m-{i:02}.gguf" for i in range(1, 7))]
    assert files[0] == RepoFile("README.md", 0, "")
    assert files[3] == RepoFile("m-03.gguf", 3, repo.files["m-03.gguf"].sha256)
    assert sum(a.path.endswith("/tree/main") for a in hub.asked) == 3


def test_rows_of_wrong_types_are_left_out(hub: FakeHub) -> None:
    rows = [
        *(
            7,
            None,
            {},
            {"id": 5},
            {"id": "../../x"},
            {"id": "o/a:b"},
            {"id": "a/b/c"},
            {"id": "o/a", "downloads": "many", "likes": -1, "gguf": [1]},
        ),
        {"id": "o/b", "tags": "gguf", "gated": {"x": 1}, "lastModified": 3, "pipeline_tag": []},
        {"id": "o/c", "gguf": {"total": 1e300, "architecture": 5}, "tags": [1, "license:mit"]},
    ]
    hub.raw["/api/models"] = json.dumps(rows).encode()
    found, _ = Hub().search(SearchQuery())
    assert found == [
        *(FoundRepo("o/a", "o"), FoundRepo("o/b", "o")),
        FoundRepo("o/c", "o", licence="mit"),
    ]
    tree = [7, {"type": "file", "path": "../../x.gguf", "size": 1}, {"type": "file", "path": 3}]
    tree.append({"type": "file", "path": "a.gguf", "size": 4, "lfs": {"oid": "../../../../etc"}})
    hub.raw["/api/models/o/a/tree/main"] = json.dumps(tree).encode()
    assert Hub().files("o/a") == [RepoFile("a.gguf", 4, "")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<html>", "the response is not JSON"),
        (b"[" * 200_000, "the response is not JSON"),
        (b'{"error": "x"}', "the search result is not a list"),
    ],
)
def test_an_answer_that_is_no_list(hub: FakeHub, content: bytes, message: str) -> None:
    hub.raw["/api/models"] = content
    with pytest.raises(HubError, match=message) as caught:
        Hub().search(SearchQuery())
    assert caught.value.cause == "failed"


def test_an_answer_too_large(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MOST_BYTES", 1 << 20)
    hub.raw["/api/models"] = bytes(3 << 20)
    with pytest.raises(HubError, match="larger than 1 MiB"):
        Hub().search(SearchQuery())


def test_a_limited_rate_is_waited_for_once(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(hub)
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    waited: list[float] = []
    hub.limits = [55]
    assert len(Hub(waiting=waited.append).search(SearchQuery())[0]) == 4
    assert (waited[0], round(now[0])) == (55.0, 55)
    hub.limits = [20, 7]
    with pytest.raises(HubError, match=r"limits the rate.* try again in 7 s") as caught:
        Hub().search(SearchQuery())
    assert caught.value.cause == "busy"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"RateLimit": '"api";r=0;t=55', "Retry-After": "3"}, 55),
        ({"Retry-After": "12"}, 12),
        ({"Retry-After": "9" * 30}, source.LONGEST_WAIT),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, 1),
        ({"RateLimit": "t=-5"}, 1),
        ({}, 1),
    ],
)
def test_how_long_to_wait(headers: dict[str, str], seconds: float) -> None:
    import httpx2

    assert source.reset_seconds(httpx2.Headers(headers)) == seconds


def test_a_missing_and_a_refused_repository(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HubError, match="has no repository o/gone, or it is private") as caught:
        Hub().files("o/gone")
    assert (caught.value.cause, caught.value.page) == ("missing", f"{hub.url}/o/gone")


def test_the_token_goes_to_the_endpoint_alone(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", hub.token)
    fill(hub)
    Hub().search(SearchQuery())
    Hub().files("c/eyes")
    assert {a.login for a in hub.asked} == {f"Bearer {hub.token}"}
    client = Hub()
    port = hub.url.rpartition(":")[2]
    for other in (hub.cdn, f"http://127.0.0.1:1{port[1:]}", f"https://127.0.0.1:{port}"):
        assert client.headers_for(f"{other}/x") == {}


def test_offline_is_noticed_without_a_pause(
    own_home: Path, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("it waits before it tries again"))
    with pytest.raises(HubError, match=r"cannot be reached.*check the network") as caught:
        Hub(endpoint="http://127.0.0.1:9").search(SearchQuery())
    assert caught.value.cause == "offline"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(HubError, match="HF_HUB_OFFLINE is set") as caught:
        Hub().search(SearchQuery())
    assert caught.value.cause == "offline"
    assert hub.asked == []


def test_a_silent_hub_counts_as_offline(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    import httpx2

    hub.silent = True
    monkeypatch.setattr(search, "TIMEOUT", httpx2.Timeout(0.2))
    with pytest.raises(HubError, match=r"cannot be reached \(.*timed out") as caught:
        Hub().search(SearchQuery())
    assert caught.value.cause == "offline"


@pytest.mark.parametrize("address", ["http://[::1", "ftp://x", "nonsense"])
def test_a_bad_endpoint_names_the_setting(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from engine.errors import BadSetting

    monkeypatch.setenv("HF_ENDPOINT", address)
    with pytest.raises(BadSetting, match="HF_ENDPOINT"):
        Hub()
