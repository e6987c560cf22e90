"""Planning from headers alone: equal to the plan of the whole file, to the byte."""

from pathlib import Path

import msgspec
import pytest

from app.fetch import heads
from app.fetch.heads import fetch_heads, heads_folder
from app.fetch.quants import FoundQuant, quants
from app.fetch.search import Hub, HubError
from engine.errors import BadFile
from engine.protocol import DescribePlan, Planned
from engine.settings import EngineOptions
from engine.worker import Worker
from tests.app.helpers.fake_hub import FakeHub
from tests.engine.models.text.files import write
from tests.engine.models.text.rows import ROWS
from tests.gguf_files import rewrite
from tests.goldens.tiny import write_tiny

# Dense, windows, experts, a recurrent state, rope factors that are tensors (two sets of them).
ARCHITECTURES = ("gpt-oss", "qwen3moe", "phi3", "mamba2", "gemma4", "smollm3")


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of tests are small; of none of them a first range is to be all."""
    monkeypatch.setattr(heads, "FIRST", 1 << 10)


def published(hub: FakeHub, *paths: Path) -> list[FoundQuant]:
    hub.add("o/r", {path.name: path.read_bytes() for path in paths})
    return quants("o/r", Hub().files("o/r"))


def plan(worker: Worker, path: Path, mmproj: str = "none", ctx: int = 64) -> Planned:
    options = EngineOptions(ctx=ctx, mmproj=mmproj)
    return worker.get(DescribePlan(worker.new_id(), str(path), options, nodes=True))


def facts(planned: Planned) -> dict[str, object]:
    """All of a plan but what other programs change in between: ids and free memory."""
    found: dict[str, object] = msgspec.to_builtins(planned)
    memory = found["memory"]
    assert isinstance(memory, dict)
    found["rows"] = memory["rows"]
    limits = [{**row, "limit": 0, "over": 0} for row in found["budgets"]]  # type: ignore[attr-defined]
    for name in ("id", "memory", "log", "reasons"):
        found.pop(name)
    return found | {"budgets": limits}


@pytest.fixture(scope="module")
def worker() -> object:
    with Worker() as worker:
        yield worker


@pytest.mark.device
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_plan_is_that_of_the_whole_file(
    name: str, hub: FakeHub, tmp_path: Path, worker: Worker
) -> None:
    row = next(row for row in ROWS.values() if row.name == name or row.architecture == name)
    whole = write(row, tmp_path)
    found = fetch_heads(Hub(), published(hub, whole)[0])
    assert found.model.stat().st_size < whole.stat().st_size
    expected = plan(worker, whole)
    assert expected.memory.rows
    assert facts(plan(worker, found.model)) == facts(expected)


@pytest.mark.device
def test_a_plan_of_parts(hub: FakeHub, tmp_path: Path, worker: Worker) -> None:
    whole = write_tiny(tmp_path / "tiny-F16.gguf", "llama")
    parts = rewrite(whole, tmp_path / "parts.gguf", splits=3)
    quant = published(hub, *parts)[0]
    assert quant.n_parts == 3
    found = fetch_heads(Hub(), quant)
    assert facts(plan(worker, found.model)) == facts(plan(worker, parts[0]))
    alone = plan(worker, whole)
    assert facts(plan(worker, found.model))["rows"] == msgspec.to_builtins(alone.memory.rows)


@pytest.mark.device
def test_a_plan_with_a_projector(hub: FakeHub, worker: Worker) -> None:
    from app.fetch import bundled

    quant = published(hub, bundled.model(), bundled.projector())[0]
    assert quant.projector is not None
    found = fetch_heads(Hub(), quant)
    assert found.projector is not None
    expected = plan(worker, bundled.model(), str(bundled.projector()))
    assert any(row.component == "vision" for row in expected.memory.rows)
    assert facts(plan(worker, found.model, str(found.projector))) == facts(expected)


def test_only_headers_are_fetched_and_once(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = write_tiny(tmp_path / "tiny-F16.gguf", "llama")
    quant = published(hub, whole)[0]
    first = fetch_heads(Hub(), quant)
    asked = hub.ranges(whole.name)
    assert asked[:2] == ["bytes=0-1023"] * 2  # to the Hub, and where it redirects to
    spans = [span.removeprefix("bytes=").split("-") for span in asked[::2] if span]
    lengths = [int(last) - int(start) + 1 for start, last in spans]
    assert lengths == [1024, 1024, 2048, 4096, 32]  # and the rope factors
    assert sum(lengths) < whole.stat().st_size / 2
    again = fetch_heads(Hub(), quant)
    assert (again, len(hub.ranges(whole.name))) == (first, len(asked))


def test_headers_beyond_the_bound_are_refused(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads, "MOST", 1 << 12)
    quant = published(hub, write_tiny(tmp_path / "tiny-F16.gguf", "llama"))[0]
    with pytest.raises(BadFile, match=r"o/r/tiny-F16\.gguf"):
        fetch_heads(Hub(), quant)
    assert sum(hub.sent.values()) == 1 << 12


@pytest.mark.parametrize("content", [b"<html>not a model</html>" * 100, b"", b"GGUF\x03\0\0\0"])
def test_a_file_that_is_none(hub: FakeHub, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m-Q4_0.gguf"
    path.write_bytes(content)
    quant = published(hub, path)[0]
    with pytest.raises(BadFile):
        fetch_heads(Hub(), quant)
    assert not list(tmp_path.rglob("heads/*/*"))


def test_servers_that_do_otherwise(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = write_tiny(tmp_path / "tiny-F16.gguf", "llama")
    quant = published(hub, whole)[0]
    file = hub.repos["o/r"].files[whole.name]
    right = file.content
    for served in (right[:-1], right + b"x"):
        file.served = served
        with pytest.raises(HubError, match=f"has {len(served)} bytes, {len(right)} expected"):
            fetch_heads(Hub(), quant)
    file.served, file.ranges = None, False
    with_none = fetch_heads(Hub(), quant).model.read_bytes()
    assert with_none[:100] == right[:100]
    hub.repos["o/r"].gated = "auto"
    page = f"{hub.url}/o/r"
    hub.repos["o/r"].files[whole.name].content = right[:-8]  # another hash, not kept yet
    other = quants("o/r", Hub().files("o/r"))[0]
    with pytest.raises(HubError, match=f"gated: open {page} and accept") as caught:
        fetch_heads(Hub(), other)
    assert (caught.value.cause, caught.value.page) == ("gated", page)


def test_the_token_does_not_follow_to_the_second_host(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", hub.token)
    quant = published(hub, write_tiny(tmp_path / "tiny-F16.gguf", "llama"))[0]
    hub.repos["o/r"].gated = "manual"
    fetch_heads(Hub(), quant)
    logins = {(a.host, a.login) for a in hub.asked}
    assert logins == {("hub", f"Bearer {hub.token}"), ("cdn", None)}


def test_the_oldest_headers_are_forgotten(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    whole = write_tiny(tmp_path / "tiny-F16.gguf", "llama")
    files = {f"m{i}-F16.gguf": whole.read_bytes() + bytes(i) for i in range(3)}
    hub.add("o/r", files)
    rows = quants("o/r", Hub().files("o/r"))
    paths = [fetch_heads(Hub(), row).model for row in rows[:2]]
    os.utime(paths[0].parent, (1, 1))
    monkeypatch.setattr(heads, "KEPT", sum(path.stat().st_size for path in paths) + 100)
    paths.append(fetch_heads(Hub(), rows[2]).model)
    assert [path.exists() for path in paths] == [False, True, True]
    assert len(list(heads_folder().iterdir())) == 2
