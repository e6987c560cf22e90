"""Placements priced one after the other equal `cutaway plan`, and nothing old is answered."""

import random
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import msgspec
import pytest
from gguf import GGMLQuantizationType as Kind

from engine.errors import BadSetting, CutawayError
from engine.gguf import reader
from engine.protocol import DescribePlan, Planned, Repriced
from engine.runner.batch import MAX_BATCH
from engine.runner.devices import open_devices
from engine.runner.loading import cache_format
from engine.runner.pictures.beside import open_model
from engine.runner.placing import reprice as module
from engine.runner.placing.describe import describe_plan
from engine.runner.placing.graphs import ModelGraphs
from engine.runner.placing.placement import place
from engine.runner.placing.reprice import Repricer
from engine.settings import EngineOptions
from tests.engine.runner.memory import two_devices
from tests.goldens.tiny import ARCHITECTURES, write_tiny
from tests.goldens.vision.families import write_pair, write_text

SAME = (
    *("layers", "overrides", "reasons", "splits", "crossing", "warnings", "problem"),
    "memory",
)
HOST = EngineOptions(device="host", ctx=64)


@pytest.fixture
def repricer() -> Iterator[Repricer]:
    made = Repricer()
    yield made
    made.release()


def planned(path: Path, options: EngineOptions) -> Planned:
    """As `cutaway plan` has it, with nothing kept."""
    with ExitStack() as stack:
        opened = open_model(path, options, MAX_BATCH, cache_format(options), stack)
        graphs = ModelGraphs.of(opened.built, options)
        placed = place(graphs, open_devices(options, stack), options)
        return describe_plan(DescribePlan(1, str(path), options), placed, "x")


def rules(n_layer: int, devices: list[str], count: int) -> Iterator[str]:
    """Random ones, of layers and of weights by name."""
    source = random.Random(7)
    yield ""
    for _ in range(count):
        parts = [f"{i}={source.choice(devices)}" for i in range(n_layer) if source.random() < 0.9]
        if source.random() < 0.7:
            parts.append(f"out={source.choice(devices)}")
        for pattern in (r"ffn_(up|gate)", r"blk\.1\.attn", "^ffn_out-1$", r"output"):
            if source.random() < 0.3:
                parts.append(f"{pattern}={source.choice(devices)}")
        yield ",".join(parts)


def check_equal(ours: Repriced, plan: Planned) -> None:
    for name in SAME:
        mine, theirs = getattr(ours, name), getattr(plan, name)
        if name == "memory":  # of which what is free now is no part
            mine, theirs = without_pools(mine), without_pools(theirs)
        if name == "reasons":
            mine, theirs = (
                [re.sub(r"it has \d+", "", said) for said in one] for one in (mine, theirs)
            )
        assert mine == theirs, name
    wanted = {row.device: row.wanted for row in plan.budgets}
    assert {row.device: row.wanted for row in ours.budgets if row.device in wanted} == wanted
    assert all(row.wanted == 0 for row in ours.budgets if row.device not in wanted)
    tiles: dict[str, int] = defaultdict(int)
    for tile in ours.tiles:
        tiles[tile.device] += tile.size
    for row in plan.memory.rows:
        if row.component in ("graph", "staging") or row.component == "vision" and row.layer is None:
            tiles[row.device] += row.size
    assert {d: n for d, n in tiles.items() if n} == {d: n for d, n in wanted.items() if n}
    mapped = sum(r.size for r in plan.memory.rows if r.status == "mapped" and r.layer is not None)
    assert sum(tile.mapped for tile in ours.tiles) == mapped


def without_pools(memory: object) -> object:
    return msgspec.structs.replace(memory, pools=[], id=0)  # type: ignore[type-var]


def write(folder: Path, architecture: str) -> Path:
    """A small model."""
    path = folder / f"{architecture}.gguf"
    if architecture in ARCHITECTURES:
        return write_tiny(path, architecture, {"ffn_": Kind.Q8_0, "attn": Kind.Q4_0})
    return write_text(path, architecture)


@pytest.mark.sampled(3)
@pytest.mark.device
@pytest.mark.parametrize("architecture", ["llama", "gemma3", "llama4"])
def test_priced_as_planned(tmp_path: Path, repricer: Repricer, architecture: str) -> None:
    one, two = two_devices()
    path = write(tmp_path, architecture)
    options = EngineOptions(device=f"{one},{two}", ctx=64)
    n_layer = repricer.reprice(1, str(path), options).n_layer
    for rule in rules(n_layer, [one, two, "host"], 7):
        ruled = replace(options, place=rule)
        ours = repricer.reprice(1, str(path), ruled)
        check_equal(ours, planned(path, ruled))
        again = repricer.reprice(1, str(path), replace(options, place=ours.rule))
        check_equal(again, planned(path, replace(options, place=ours.rule)))
        assert (again.layers, again.tiles, again.rule) == (ours.layers, ours.tiles, ours.rule)


@pytest.mark.device
def test_what_does_not_fit_is_priced_too(tmp_path: Path, repricer: Repricer) -> None:
    one, two = two_devices()
    options = EngineOptions(device=f"{one},{two}", ctx=64, budget={one: 300_000})
    path = write(tmp_path, "llama")
    for rule, fits in ((f"0-2={two},out={two}", True), (f"0-2={one},out={two}", False)):
        ruled = replace(options, place=rule)
        ours = repricer.reprice(1, str(path), ruled)
        check_equal(ours, planned(path, ruled))
        (row,) = (row for row in ours.budgets if row.device == one)
        assert (ours.problem == "", row.over == 0, ours.memory.fits) == (fits,) * 3
        assert row.over == max(0, row.wanted - 300_000)


def test_a_tower_is_a_tile(tmp_path: Path, repricer: Repricer) -> None:
    path, _ = write_pair(tmp_path, "gemma3")
    ours = repricer.reprice(1, str(path), HOST)
    check_equal(ours, planned(path, HOST))
    (tile,) = (tile for tile in ours.tiles if tile.part == "vision")
    assert (tile.layer, tile.device) == (ours.n_layer, "host")
    assert tile.mapped == sum(
        r.size for r in ours.memory.rows if r.component == "vision" and r.status == "mapped"
    )


@pytest.mark.parametrize("architecture", ["llama", "gemma3", "llama4", "mllama"])
def test_patterns_name_a_part_and_nothing_else(
    tmp_path: Path, repricer: Repricer, architecture: str
) -> None:
    path = write(tmp_path, architecture)
    tiles = repricer.reprice(1, str(path), HOST).tiles
    with ExitStack() as stack:
        owners = open_model(path, HOST, MAX_BATCH, cache_format(HOST), stack).built.owners
    names = {t.name: (owner.layer, t.nbytes) for t, owner in owners.items()}
    parts = {"attention": "att|cross", "feed_forward": "ffn|post_ff|mlp", "experts": "_exps"}
    for tile in tiles:
        if tile.part == "cache":
            assert not tile.pattern
            continue
        matched = {n for n, (layer, _) in names.items() if re.search(tile.pattern, n)}
        assert {names[n][0] for n in matched} == {tile.layer}
        assert sum(names[n][1] for n in matched) == tile.mapped
        if tile.part in parts:
            assert all(re.search(parts[tile.part], n) for n in matched), (tile, matched)
        assert (tile.part == "experts") == all("_exps" in n for n in matched)
    named = [tile.pattern for tile in tiles if tile.pattern]
    assert len(set(named)) == len(named)


def test_layers_are_labelled_where_they_differ(tmp_path: Path, repricer: Repricer) -> None:
    def labels(architecture: str) -> list[list[str]]:
        return repricer.reprice(1, str(write(tmp_path, architecture)), HOST).labels

    assert labels("llama") == [[]] * 4
    gemma = labels("gemma3")
    assert gemma.count(["window 8"]) == 6
    assert gemma.count(["global"]) == 1
    assert gemma[-1] == []
    llama4 = labels("llama4")
    assert any(re.fullmatch(r"\d of \d experts", word) for said in llama4 for word in said)
    assert any(word.startswith("chunk") for said in llama4 for word in said)


def test_each_layer_has_its_cause(tmp_path: Path, repricer: Repricer) -> None:
    path = write_tiny(tmp_path / "m.gguf", "llama")
    asked = repricer.reprice(1, str(path), replace(HOST, place="0-1=host"))
    assert asked.causes[:2] == ["on host, as set by the user"] * 2
    assert asked.causes[2:] == ["host takes layer 2 and the output block: no other device is in"
                                " use for layers"] * 2  # fmt: skip


def test_nothing_is_read_twice_that_did_not_change(
    tmp_path: Path, repricer: Repricer, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_tiny(tmp_path / "m.gguf", "llama")
    opened = 0

    def count(*args: object, **kwargs: object) -> object:
        nonlocal opened
        opened += 1
        return open_model(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "open_model", count)
    first = repricer.reprice(1, str(path), HOST)
    for place_ in ("out=host", "0=host", ""):
        repricer.reprice(1, str(path), replace(HOST, place=place_))
    assert opened == 1
    assert repricer.reprice(1, str(path), replace(HOST, kv="f32")).memory != first.memory
    assert opened == 2
    write_tiny(tmp_path / "new.gguf", "gemma3").replace(path)
    assert repricer.reprice(1, str(path), replace(HOST, kv="f32")).n_layer == 7
    assert opened == 3
    write_tiny(tmp_path / "other.gguf", "mistral3")
    path.write_bytes((tmp_path / "other.gguf").read_bytes())  # in place
    (tmp_path / "other.gguf").unlink()
    repricer.reprice(1, str(path), replace(HOST, kv="f32"))
    before = opened
    path.write_bytes(path.read_bytes())
    repricer.reprice(1, str(path), replace(HOST, kv="f32"))
    assert opened == before + 1
    path.unlink()
    with pytest.raises(CutawayError):
        repricer.reprice(1, str(path), replace(HOST, kv="f32"))


def test_a_projector_is_noticed_that_comes_or_goes(tmp_path: Path, repricer: Repricer) -> None:
    path, projector = write_pair(tmp_path / "pair", "gemma3")

    def sees() -> bool:
        return any(t.part == "vision" for t in repricer.reprice(1, str(path), HOST).tiles)

    assert sees()
    projector.rename(tmp_path / "elsewhere")
    assert not sees()
    (tmp_path / "elsewhere").rename(projector)
    assert sees()


def test_a_wrong_rule_is_refused_and_the_next_answered(tmp_path: Path, repricer: Repricer) -> None:
    path = write_tiny(tmp_path / "m.gguf", "llama")
    right = repricer.reprice(1, str(path), HOST)
    for wrong in ("9=host", "nothing_so_named=host", "0=nowhere:0", "(=host", "0"):
        with pytest.raises(CutawayError) as error:
            repricer.reprice(1, str(path), replace(HOST, place=wrong))
        assert isinstance(error.value, BadSetting) or "nowhere" in str(error.value)
    assert repricer.reprice(1, str(path), HOST).tiles == right.tiles


def test_what_is_kept_is_closed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the next model, by a release, and by a release in the middle of an answer."""
    paths = [tmp_path / name / f"{name}.gguf" for name in ("llama", "gemma3")]
    for path in paths:  # each in a folder of its own: what lies beside a model is looked at too
        path.parent.mkdir()
        write_tiny(path, path.stem)
    closed: list[str] = []
    real = reader.GGUFFile.close

    def close(file: reader.GGUFFile) -> None:
        closed.append(Path(file.paths[0]).stem)
        real(file)

    monkeypatch.setattr(reader.GGUFFile, "close", close)
    repricer = Repricer()
    repricer.reprice(1, str(paths[0]), HOST)
    repricer.reprice(1, str(paths[1]), HOST)
    assert closed == ["llama"]
    repricer.release()
    repricer.release()
    assert closed == ["llama", "gemma3"]
    waiting, go_on = Event(), Event()

    def wait(*args: object, **kwargs: object) -> object:
        waiting.set()
        assert go_on.wait(30)
        return place(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "place", wait)
    answers: list[Repriced] = []
    asking = Thread(target=lambda: answers.append(repricer.reprice(1, str(paths[0]), HOST)))
    asking.start()
    assert waiting.wait(30)
    repricer.release()  # returns though the answer waits
    assert closed == ["llama", "gemma3"]
    go_on.set()
    asking.join(30)
    assert answers[0].n_layer == 3
    assert closed == ["llama", "gemma3", "llama"]
