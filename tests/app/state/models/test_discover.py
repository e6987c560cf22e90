"""What the page of Discover shows, against a Hub on this machine."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from gguf import GGUFValueType

from app.client import EngineClient
from app.fetch import search
from app.fetch.shelf import SHELF
from app.local_engine import LocalEngine
from app.state.models import discover
from app.state.models.discover import Discover, SearchQuery
from app.work import close_jobs
from engine.protocol import DescribePlan
from engine.settings import EngineOptions
from engine.worker import Worker
from tests.app.helpers.fake_hub import FakeHub
from tests.app.state.conftest import Until
from tests.engine.runner.memory import drivers
from tests.goldens.tiny import write_tiny


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
    state.patience.setInterval(100)
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


@pytest.mark.device
def test_plans_of_rows_in_view(
    state: Discover, hub: FakeHub, until: Until, tiny_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = tiny_path.read_bytes()
    files = {f"m-{kind}.gguf": content + bytes(i) for i, kind in enumerate(("Q8_0", "Q6_K"))}
    hub.add("o/r", files | {"m-Q4_K_M.gguf": b"no model" * 9, "m-Q2_K.gguf": content[:99]})
    state.open_repo("o/r")
    until(lambda: state.repo_state == "done")
    rows = {row.label: row for row in state.rows}
    told: list[str] = []
    state.row_changed.connect(told.append)
    for label in ("Q8_0", "Q6_K", "Q4_K_M", "Q8_0"):
        state.plan(rows[label].key)
    state.plan("no such key")
    assert len(state.planning) == discover.AT_ONCE
    until(lambda: len(told) == 3)
    rows = {row.label: row for row in state.rows}
    plan = rows["Q8_0"].plan
    assert plan is not None
    assert (plan.verdict, plan.n_ctx) == ("fits", 256)  # all that it was trained for
    assert 0 < plan.wanted < plan.limit
    assert plan.text.startswith("fits, 0.0 of ")
    assert plan.device in plan.text
    assert "this isn't a GGUF file" in rows["Q4_K_M"].problem
    assert (rows["Q2_K"].plan, rows["Q2_K"].problem) == (None, "")
    assert state.selected == rows["Q8_0"].key
    asked = len(hub.asked)
    state.open_repo("o/r")
    until(lambda: state.repo_state == "done")
    state.plan(rows["Q8_0"].key)
    assert state.rows[[r.label for r in state.rows].index("Q8_0")].plan == plan
    assert not any(a.range for a in hub.asked[asked:])


@pytest.mark.device
def test_verdicts(
    state: Discover, hub: FakeHub, until: Until, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same model with budgets between what its contexts take."""
    context = {"llama.context_length": (1 << 20, GGUFValueType.UINT32)}
    whole = write_tiny(tmp_path / "m-F16.gguf", "llama", metadata=context)
    hub.add("o/r", {whole.name: whole.read_bytes()})
    device = drivers()[0]
    takes: dict[int, int] = {}
    with Worker() as worker:
        for ctx in (512, 1024, 2048, 4096, 8192):
            options = EngineOptions(device=device, ctx=ctx)
            found = worker.get(DescribePlan(worker.new_id(), str(whole), options))
            takes[ctx] = next(row.wanted for row in found.budgets if row.device == device)
    assert sorted(takes.values()) == list(takes.values())
    verdicts = {
        takes[8192]: ("fits", 8192),
        takes[8192] - 1: ("fits_smaller", 4096),
        takes[2048]: ("fits_smaller", 2048),
        takes[2048] - 1: ("fits_smaller", 1024),
        takes[1024] - 1: ("fits_smaller", 512),
        takes[512] - 1: ("too_big", 512),
    }
    for room, expected in verdicts.items():
        monkeypatch.setattr(
            state, "_options", lambda room=room: EngineOptions(device=device, budget={device: room})
        )
        state.plans.clear()
        state.open_repo("o/r")
        until(lambda: state.repo_state == "done")
        key = state.rows[0].key
        state.plan(key)
        until(lambda: state.rows[0].plan is not None)
        plan = state.rows[0].plan
        assert plan is not None
        assert (plan.verdict, plan.n_ctx) == expected, room
        assert (plan.limit, plan.device) == (room, device)
        assert state.selected == (None if expected[0] == "too_big" else key)
        if expected[0] == "too_big":
            assert plan.text.startswith("does not fit: 0.0 GB too much on")
        elif expected[0] == "fits_smaller":
            assert f"fits with {expected[1]} tokens of context, " in plan.text


def test_the_shelf_puts_first_what_fits(state: Discover, until: Until) -> None:
    assert len(state.shelf) == len(SHELF)
    titles = [row.model.title for row in state.shelf]
    assert all(row.fits is None and row.model.reason.endswith(".") for row in state.shelf)

    class Device:
        memory = int(6e9)

    class Reply:
        devices = [Device]

    state.on_devices(Reply)  # type: ignore[arg-type]
    fits = [row.fits for row in state.shelf]
    assert fits == sorted(fits, reverse=True)  # type: ignore[type-var]
    assert 0 < fits.count(True) < len(SHELF)
    assert sorted(titles) == sorted(row.model.title for row in state.shelf)
    assert discover.ROOM > 1
