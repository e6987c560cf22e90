"""What the page of Discover shows, against a Hub on this machine."""

from collections.abc import Iterator

import pytest

from app.client import EngineClient
from app.fetch import search
from app.local_engine import LocalEngine
from app.state.models import discover
from app.state.models.discover import Discover, SearchQuery
from app.work import close_jobs
from tests.app.helpers.fake_hub import FakeHub
from tests.app.state.conftest import Until


@pytest.fixture
def state(qapp: object, hub: FakeHub) -> Iterator[Discover]:
    engine = LocalEngine()
    client = EngineClient(engine)
    yield Discover(client)
    close_jobs()
    client.close()
    engine.close()


def names(state: Discover) -> list[str]:
    return [row.repo for row in state.results]


def test_a_search_and_its_next_page(
    state: Discover, hub: FakeHub, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "PER_PAGE", 2)
    for i in range(3):
        hub.add(f"o/m{i}", {}, trending=9 - i)
    state.more()  # of nothing
    assert state.state == "idle"
    state.search(SearchQuery("m"))
    assert (state.state, state.has_more) == ("searching", False)
    until(lambda: state.state == "done")
    assert (names(state), state.has_more) == (["o/m0", "o/m1"], True)
    state.more()
    until(lambda: state.state == "done")
    assert (names(state), state.has_more) == (["o/m0", "o/m1", "o/m2"], False)
    state.search(SearchQuery("nothing like it"))
    assert names(state) == []
    until(lambda: state.state == "done")
    assert names(state) == []


def test_only_the_newest_search_counts(state: Discover, hub: FakeHub, until: Until) -> None:
    hub.add("o/old", {})
    hub.add("o/new", {})
    state.search(SearchQuery("old"))
    state.search(SearchQuery("new"))
    until(lambda: state.state == "done")
    assert names(state) == ["o/new"]
    state.search(SearchQuery("old"))
    state.cancel()
    assert (state.state, names(state)) == ("idle", [])


def test_offline_keeps_what_is_there(
    state: Discover, hub: FakeHub, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    state.search(SearchQuery())
    until(lambda: state.state == "offline")
    assert "check the network" in state.problem
    state.open_repo("o/r")
    until(lambda: state.repo_state == "offline")
    assert "check the network" in state.repo_problem


def test_nobody_waits_for_a_silent_hub(
    state: Discover, hub: FakeHub, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.silent = True
    state._patience.setInterval(100)
    state.search(SearchQuery())
    until(lambda: state.state == "offline")
    assert "has not answered for 5 s" in state.problem


def test_a_limited_rate_counts_down(state: Discover, hub: FakeHub, until: Until) -> None:
    hub.add("o/m", {})
    hub.limits = [1]
    state.search(SearchQuery())
    until(lambda: state.waiting_s is not None)
    assert state.state == "searching"
    until(lambda: state.state == "done")
    assert (state.waiting_s, names(state)) == (None, ["o/m"])


def test_models_of_a_repository(state: Discover, hub: FakeHub, until: Until) -> None:
    files = {f"m-{kind}.gguf": bytes(size) for kind, size in (("Q8_0", 9), ("Q4_K_M", 5))}
    files |= {f"big/m-Q6_K-0000{i}-of-00002.gguf": bytes(3) for i in (1, 2)}
    files |= {"m-Q2_K-00001-of-00002.gguf": b"x", "m-Q1_0.gguf": b"x", "m-Q4_0_4_8.gguf": b"y"}
    files |= {"mmproj-m-F16.gguf": b"eyes", "README.md": b"hi"}
    hub.add("o/r", files)
    state.open_repo("o/r")
    until(lambda: state.repo_state == "done")
    rows = {row.label: row for row in state.rows}
    assert list(rows) == ["Q1_0", "Q2_K", "Q4_0_4_8", "Q4_K_M", "Q6_K", "Q8_0"]
    assert {row.projector.path for row in state.rows if row.projector} == {"mmproj-m-F16.gguf"}
    assert (rows["Q6_K"].n_parts, rows["Q6_K"].size, rows["Q6_K"].name) == (2, 6, "o/r:Q6_K")
    assert rows["Q8_0"].key == rows["Q8_0"].files[0].sha256
    refused = {label: row.reason for label, row in rows.items() if not row.supported}
    assert refused == {
        "Q1_0": "Q1_0 cannot be read by Cutaway",
        "Q2_K": "1 of 2 parts are not in the repository",
        "Q4_0_4_8": "Q4_0_4_8 cannot be read by Cutaway",
    }
    assert state.selected == rows["Q8_0"].key
    hub.add("o/none", {"model.safetensors": b"x"})
    state.open_repo("o/none")
    until(lambda: state.repo_state == "done")
    assert (state.rows, state.repo_problem) == ([], "o/none has no GGUF file of a model")


def test_the_shelf_puts_first_what_fits(state: Discover, until: Until) -> None:
    assert len(state.shelf) == 10
    titles = [row.model.title for row in state.shelf]
    assert all(row.fits is None and row.model.reason.endswith(".") for row in state.shelf)

    class Device:
        memory = int(6e9)

    class Reply:
        devices = [Device]

    state._on_devices(Reply)  # type: ignore[arg-type]
    fits = [row.fits for row in state.shelf]
    assert fits == sorted(fits, reverse=True)  # type: ignore[type-var]
    assert 0 < fits.count(True) < 10
    assert sorted(titles) == sorted(row.model.title for row in state.shelf)
    assert discover.ROOM > 1
