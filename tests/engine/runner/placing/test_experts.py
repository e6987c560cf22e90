"""Experts leave a device before layers do, as few as it takes; what a person fixed stays."""

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from engine.memory.placement import parse_pins
from engine.memory.rule import llama_cpp, rule_of
from engine.runner.loading import load_model
from engine.runner.placing.placement import fewest
from engine.runner.placing.tiles import Parts, tiles
from engine.settings import EngineOptions
from tests.engine.models.text.files import golden, write
from tests.engine.models.text.rows import ROWS
from tests.engine.runner.memory import allocated, foreseen, held, two_devices
from tests.truth.compare import nmse

ROW = ROWS["glm4moe"]  # layer 0 is dense
CTX = 64
BOTH = 220_000
"""Bytes that the experts of one layer do not free."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(ROW, tmp_path)


def options(room: int | None = None, **more: object) -> EngineOptions:
    """On two devices, the first with so many bytes."""
    fast, rest = two_devices()
    budget = {} if room is None else {fast: room}
    return EngineOptions(device=f"{fast},{rest}", ctx=CTX, budget=budget, **more)


def whole_size(path: Path) -> int:
    """What everything takes on the first device."""
    with allocated(path, options()) as placed:
        fast, _ = two_devices()
        return sum(size for key, size in held(placed.dry).items() if key[0] == fast)


@pytest.mark.device
def test_experts_leave_first_and_as_few_as_it_takes(path: Path) -> None:
    fast, rest = two_devices()
    for short, layers in ((1, "1"), (BOTH, "1|2")):
        with allocated(path, options(whole_size(path) - short)) as placed:
            placement = placed.dry.placement
            assert placed.failure is None
            assert placement.layers == (fast,) * 4
            assert placement.overrides == ((rf"^blk\.({layers})\.ffn_\w+_exps\.", rest),)
            names = "layer 1" if layers == "1" else "layers 1-2"
            said = placement.reasons[-1]
            assert said.startswith(f"{rest} takes the experts of {names}, "), said
            assert said.endswith("all else fits on faster devices: a token reads 2 of 8 of them")
            assert foreseen(placed.dry) == held(placed.dry)


@pytest.mark.device
def test_each_layer_crosses_there_and_back_once(path: Path) -> None:
    fast, rest = two_devices()
    with allocated(path, options(whole_size(path) - BOTH)) as placed:
        splits = placed.dry.one_token().splits
        shown = {(t.layer, t.device) for t in tiles(placed.dry, Parts(placed.dry.built))}
        assert shown >= {(1, fast), (1, rest), (2, rest)}
        at_rest = {t.part for t in tiles(placed.dry, Parts(placed.dry.built)) if t.device == rest}
        assert at_rest == {"experts"}
        assert [s.backend.name for s in splits] == [fast, rest, fast, rest, fast]
        away = [n.name for s in splits if s.backend.name == rest for n in s.nodes]
        assert all(name.startswith(("ffn_moe", "node")) for name in away), away


@pytest.mark.device
def test_it_computes_the_same(path: Path) -> None:
    ids, want = golden(ROW)
    with closing(load_model(path, options(whole_size(path) - BOTH, kv="f32"))) as model:
        assert model.dry.placement.overrides
        model.stepper.forget(0)
        got = model.stepper.step(ids[0, :CTX].tolist(), 0, range(CTX))
        assert nmse(np.asarray(got), want[0, :CTX]) < 1e-5


@pytest.mark.device
def test_all_stay_where_there_is_room_and_layers_leave_where_a_person_says_how_many(
    path: Path,
) -> None:
    size, (fast, _) = whole_size(path), two_devices()
    pinned = f"_exps={fast}"
    for one in (options(size), options(size - 1, gpu_layers=2), options(size - 1, place=pinned)):
        with allocated(path, one) as placed:
            assert not any("takes the experts" in said for said in placed.dry.placement.reasons)
            assert {d for _, d in placed.dry.placement.overrides} <= {fast}


@pytest.mark.device
def test_a_fixed_layer_keeps_its_experts(path: Path) -> None:
    fast, rest = two_devices()
    with allocated(path, options(whole_size(path) - 1, place=f"1={fast}")) as placed:
        assert placed.dry.placement.overrides == ((r"^blk\.(2)\.ffn_\w+_exps\.", rest),)


@pytest.mark.device
def test_written_down_again(path: Path) -> None:
    _, rest = two_devices()
    with allocated(path, options(whole_size(path) - 1)) as placed:
        placement = placed.dry.placement
        assert parse_pins(rule_of(placement)).patterns == placement.overrides
        flags = llama_cpp(placement, lambda d: "CPU" if d == rest else "CUDA0").flags
        assert flags == r"-ngl 4 -ot '^blk\.(1)\.ffn_\w+_exps\.=CPU'"


@pytest.mark.parametrize("count", [1, 2, 7, 48])
def test_the_fewest_that_are_enough(count: int) -> None:
    for least in range(1, count + 2):
        asked: list[int] = []

        def enough(n: int, least: int = least, asked: list[int] = asked) -> bool:
            asked.append(n)
            return n >= least

        assert fewest(count, enough) == (least if least <= count else None)
        assert len(asked) <= 1 + count.bit_length()
