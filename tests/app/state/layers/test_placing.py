"""A placement and its rule are two writings of one thing; every edit can be undone."""

import random
import re

import pytest

from app.state.history import History
from app.state.layers.lanes import LayerTile, TileBand, moved_tiles
from app.state.layers.placing import EditedPlacement, spans
from engine.memory.placement import Placement, parse_pins

DEVICES = ("intel:0", "pocl:0", "nvidia:1", "host")
PARTS = {"attention": "attn_q", "feed_forward": "ffn_up", "experts": "ffn_up_exps"}
WIDE = (r"ffn_.*_exps", r"^blk\.\d+\.attn_", r"blk\.(1|2)\.ffn_u", r"a{1,2}ttn")


def pattern(layer: int, part: str) -> str:
    return rf"^blk\.{layer}\.{PARTS[part]}\."


def tile(placed: EditedPlacement, layer: int) -> LayerTile:
    bands = (*(TileBand(part, 8, pattern(layer, part)) for part in PARTS), TileBand("cache", 4))
    return LayerTile(layer, placed.layers[layer], bands)


def drawn(draw: random.Random) -> EditedPlacement:
    n = draw.choice((1, 3, 18, 30, 80))
    layers = [draw.choice(DEVICES)]
    for _ in range(n):
        layers.append(draw.choice(DEVICES) if draw.random() < 0.2 else layers[-1])
    placed = EditedPlacement(tuple(layers))
    for _ in range(draw.choice((0, 0, 1, 4, 12))):
        layer, part = draw.randrange(n), draw.choice(tuple(PARTS))
        placed = placed.with_part(pattern(layer, part), layer, draw.choice(DEVICES))
    if draw.random() < 0.3:
        placed = EditedPlacement(placed.layers, (*placed.overrides, (draw.choice(WIDE), "host")))
    return placed


def read(rule: str, n_layer: int) -> Placement:
    """As the engine reads it."""
    pins = parse_pins(rule)
    fixed = pins.of_layers(n_layer, DEVICES)
    return Placement(tuple(fixed[i] for i in range(n_layer + 1)), pins.patterns)


def devices(placed: Placement) -> dict[str, str | None]:
    """Where the engine puts every weight."""
    names = (f"blk.{i}.{w}.weight" for i in range(placed.n_layer) for w in PARTS.values())
    return {name: placed.device_of(name, int(name.split(".")[1])) for name in names}


@pytest.mark.parametrize("seed", range(60))
def test_a_rule_is_read_as_it_was_meant(seed: int) -> None:
    placed = drawn(random.Random(seed))
    told = read(placed.rule(), placed.n_layer)
    assert told.layers == placed.layers
    meant = Placement(placed.layers, placed.overrides)
    assert devices(told) == devices(meant)
    again = EditedPlacement.of(told.layers, told.overrides)
    assert again.rule() == placed.rule()


@pytest.mark.parametrize("seed", range(60))
def test_what_was_moved_and_only_that_lies_elsewhere(seed: int) -> None:
    """By the engine's reading of the rule: whole layers, and parts whatever other patterns say."""
    draw = random.Random(seed)
    placed = drawn(draw)
    before = devices(read(placed.rule(), placed.n_layer))
    layers = draw.sample(range(placed.n_layer), draw.randint(1, min(4, placed.n_layer)))
    device = draw.choice(DEVICES)
    part = draw.choice((*PARTS, ""))
    tiles = [tile(placed, layer) for layer in layers]
    moved = moved_tiles(placed, tiles, device, {part} if part else set())
    after = devices(read(moved.rule(), placed.n_layer))
    told = read(placed.rule(), placed.n_layer)
    for name, now in after.items():
        layer, word = int(name.split(".")[1]), name.split(".")[2]
        if layer not in layers:
            assert now == before[name]
        elif part:
            assert now == (device if word == PARTS[part] else before[name])
        elif told.override(name) is None:  # a whole layer leaves what patterns have sent away
            assert now == device
        else:
            assert now == before[name]


def test_a_part_that_comes_home_leaves_no_pattern() -> None:
    placed = EditedPlacement(("intel:0",) * 4)
    away = placed.with_part(pattern(1, "attention"), 1, "host")
    assert away.rule() == r"0-2=intel:0, out=intel:0, ^blk\.1\.attn_q\.=host"
    assert away.with_part(pattern(1, "attention"), 1, "intel:0") == placed
    assert away.with_layers([1], "host").overrides == ()


def test_parts_of_many_layers_are_one_pattern() -> None:
    placed = EditedPlacement(("intel:0",) * 31)
    tiles = [tile(placed, layer) for layer in range(30)]
    moved = moved_tiles(placed, tiles, "host", {"experts"})
    numbers = "|".join(map(str, range(30)))
    assert moved.rule() == rf"0-29=intel:0, out=intel:0, ^blk\.({numbers})\.ffn_up_exps\.=host"
    back = moved_tiles(moved, tiles[10:], "intel:0", {"experts"})
    assert len(back.overrides) == 10


@pytest.mark.parametrize("to", range(-3, 9))
def test_a_boundary_stays_between_its_two_runs(to: int) -> None:
    placed = EditedPlacement(("a", "a", "b", "b", "b", "c", "out"))
    assert placed.boundaries() == [2, 5]
    moved = placed.with_boundary(2, to)
    end = min(max(to, 0), 5)
    assert moved.layers == ("a",) * end + ("b",) * (5 - end) + ("c", "out")


@pytest.mark.parametrize("seed", range(40))
def test_undo_goes_back_and_redo_forth(seed: int) -> None:
    draw = random.Random(seed)
    history, states = History(0), [0]
    for _ in range(draw.randint(1, 40)):
        action = draw.random()
        if action < 0.6:
            history.put(draw.randrange(5))
            if history.now != states[-1]:
                states.append(history.now)
        elif action < 0.8 and history.can_undo:
            history.undo()
            gone = states.pop()
            history.redo()
            assert history.now == gone
            history.undo()
        assert history.now == states[-1]
    while history.can_undo:
        states.pop()
        history.undo()
        assert history.now == states[-1]
    assert states == [0]


def test_moves_of_one_thing_in_a_row_are_one_step() -> None:
    history = History("0")
    for value, subject in (("a", 1), ("b", 1), ("c", 1), ("d", 2), ("e", 1)):
        history.put(value, subject)
    seen = []
    while history.can_undo:
        history.undo()
        seen.append(history.now)
    assert seen == ["d", "c", "0"]
    history.redo()
    assert history.now == "c"
    history.put("x", 1)
    history.settle()
    history.put("y", 1)
    assert not history.can_redo
    history.undo()
    assert history.now == "x"


def test_there_and_back_is_no_step() -> None:
    history = History("0")
    history.put("a", 1)
    history.put("0", 1)
    assert not history.can_undo


def test_spans() -> None:
    assert spans([3, 1, 2, 7, 9, 10]) == "1-3, 7, 9-10"
    assert re.fullmatch(r"\d+", spans([4]))
