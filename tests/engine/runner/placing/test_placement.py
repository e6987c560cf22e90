"""Where models go and what they take there: foreseen to the byte, refused by name, freed again."""

from contextlib import closing
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from gguf import GGMLQuantizationType as Kind

from engine.backends.opencl.drivers.device import list_devices
from engine.errors import BadSetting, NoMem
from engine.gguf import open_gguf
from engine.runner.loading import load_model
from engine.settings import EngineOptions
from tests.engine.runner.memory import (
    allocated,
    check_every_refusal,
    drivers,
    foreseen,
    held,
    two_devices,
)
from tests.goldens.tiny import ARCHITECTURES, write_tiny
from tests.goldens.vision.families import write_pair

pytestmark = pytest.mark.device
MIB = 1 << 20
ANYTHING = "smollm2_path", "gemma3_path"


@pytest.fixture(params=ANYTHING)
def model(request: pytest.FixtureRequest) -> Path:
    path = request.getfixturevalue(request.param)
    assert isinstance(path, Path)
    return path


def placements(n_layer: int) -> list[EngineOptions]:
    """All on one device; halves on two and the output block on the host; names on another."""
    one, two = two_devices()
    half = n_layer // 2
    return [
        EngineOptions(device=one),
        EngineOptions(device=one, place=f"0-{half}={one},{half + 1}-{n_layer - 1}={two},out=host"),
        EngineOptions(device=f"{two},{one}", place=rf"1,2,blk\.\d+\.ffn_down={two},attn_q\.=host"),
    ]


# Each model with two contexts and two types of keys and values; the rest by hand.
USUAL = {
    *(("smollm2_path", 512, "f16"), ("smollm2_path", 4096, "q8_0")),
    *(("gemma3_path", 4096, "f16"), ("gemma3_path", 512, "q4_0")),
}
CASES = [
    pytest.param(*case, marks=() if case in USUAL else pytest.mark.full)
    for case in product(ANYTHING, (512, 4096), ("f16", "q8_0", "q4_0"))
]


@pytest.mark.each_value
@pytest.mark.model_file
@pytest.mark.parametrize(("model", "ctx", "kv"), CASES, indirect=["model"])
def test_what_is_foreseen_is_what_is_allocated(model: Path, ctx: int, kv: str) -> None:
    n_layer = 30 if "SmolLM2" in model.name else 18
    for options in placements(n_layer):
        with allocated(model, replace(options, ctx=ctx, kv=kv)) as placed:
            assert placed.failure is None
            assert foreseen(placed.dry) == held(placed.dry)
            assert {k[1] for k in held(placed.dry)} >= {"weights", "cache", "graph"}
        assert held(placed.dry) == {}


@pytest.mark.each_value
@pytest.mark.parametrize("flash", [True, False])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_tiny_models_too_with_and_without_fused_attention(
    architecture: str, flash: bool, tmp_path: Path
) -> None:
    path = write_tiny(tmp_path / "tiny.gguf", architecture)
    sizes = []
    for device in (*drivers(), "host"):
        options = EngineOptions(device=device, ctx=64, flash_attention=flash)
        with allocated(path, options) as placed:
            assert placed.failure is None
            assert foreseen(placed.dry) == held(placed.dry)
            sizes.append(sum(held(placed.dry).values()))
    assert all(sizes)


def test_loading_takes_what_was_foreseen(tiny_path: Path) -> None:
    one, two = two_devices()
    options = EngineOptions(device=one, ctx=64, place=f"0={two},out=host")
    model = load_model(tiny_path, options)
    assert foreseen(model.dry) == held(model.dry)
    assert model.stepper.step([1, 2, 3], 0, [2]).shape[0] == 1
    model.close()
    assert held(model.dry) == {}


@pytest.mark.each_value
@pytest.mark.model_file
@pytest.mark.parametrize("budget", [64, 128, 256])
def test_a_budget_means_fewer_layers(model: Path, budget: int) -> None:
    rest, small = two_devices()
    options = EngineOptions(device=f"{small},{rest}", ctx=512, budget={small: budget * MIB})
    with allocated(model, options) as placed:
        assert placed.failure is None
        taken = sum(size for (device, _, _), size in held(placed.dry).items() if device == small)
        assert taken <= budget * MIB
        *inner, output = placed.dry.placement.layers
        others = [i for i, device in enumerate(inner) if device != small]
        assert others == list(range(len(others)))  # the last ones first
        if others:  # one more would not have fitted
            more = sum(n for (_, _, i), n in held(placed.dry).items() if i == others[-1])
            assert taken + more > budget * MIB
        assert output == rest or not others
        assert placed.dry.placement.reasons[0].startswith(f"{small} takes ")


@pytest.mark.each_value
@pytest.mark.model_file
@pytest.mark.parametrize("budget", [64, 128, 256])
def test_the_only_device_refuses_what_passes_its_budget(model: Path, budget: int) -> None:
    device = drivers()[0]
    options = EngineOptions(device=device, ctx=4096, budget={device: budget * MIB})
    with allocated(model, options) as placed:
        wanted = sum(foreseen(placed.dry).values())
        if wanted <= budget * MIB:
            assert placed.failure is None
            return
        assert isinstance(placed.failure, NoMem)
        assert placed.failure.device == device
        assert (device, placed.failure.component, placed.failure.layer) in foreseen(placed.dry)
        assert placed.failure.wanted > placed.failure.left >= 0
        assert held(placed.dry) == {}


def test_everything_goes_to_the_first_that_has_room(tiny_path: Path) -> None:
    one, two = two_devices()
    with allocated(tiny_path, EngineOptions(device=f"{two},{one}", ctx=64)) as placed:
        assert set(placed.dry.placement.layers) == {two}
        assert [b.name for b in placed.dry.backends] == [two, "host"]


def test_a_requested_count_of_layers(tiny_path: Path) -> None:
    one, two = two_devices()
    options = EngineOptions(device=f"{two},{one}", ctx=64, gpu_layers=2)
    with allocated(tiny_path, options) as placed:
        assert placed.dry.placement.layers == (one, two, two, one)


def test_pins_survive_the_fit(tiny_path: Path) -> None:
    one, two = two_devices()
    options = EngineOptions(device=f"{two},{one}", ctx=64, place=f"1={one},out=host,ffn_up={one}")
    with allocated(tiny_path, options) as placed:
        assert placed.dry.placement.layers == (two, one, two, "host")
        kinds = {t.name: a.backend.name for a in placed.dry.weights for t, _ in a.tensors}
        assert kinds["blk.0.ffn_up.weight"] == one
        assert kinds["blk.0.ffn_down.weight"] == two
        homes = {a.owner.layer: a.backend.name for a in placed.dry.caches}
        assert homes == {0: two, 1: one, 2: two}


def test_a_pattern_may_name_nodes(tiny_path: Path) -> None:
    device = drivers()[0]
    options = EngineOptions(device=device, ctx=64, place=r"^ffn_swiglu-1$=host")
    with allocated(tiny_path, options) as placed:
        made = placed.dry.one_token()
        where = {node.name: a for node, a in made.assignments.items()}
        assert (where["ffn_swiglu-1"].backend.name, where["ffn_swiglu-1"].cause) == ("host", "usr")
        assert where["ffn_swiglu-2"].backend.name == device
        assert foreseen(placed.dry) == held(placed.dry)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (EngineOptions(place="nothing_so_named=host"), "nothing_so_named"),
        (EngineOptions(place="7=host"), "layers 0 to 2"),
        (EngineOptions(budget={"nvidia:77": 1}), "nvidia:77"),
    ],
)
def test_wrong_options(tiny_path: Path, options: EngineOptions, words: str) -> None:
    with pytest.raises(BadSetting, match=words), allocated(tiny_path, options):
        pass


@pytest.mark.full_cases(r"\[gemma3")  # in test_memory
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_allocation_of_a_load_may_be_refused(
    architecture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_tiny(tmp_path / "tiny.gguf", architecture)
    one, two = two_devices()
    options = EngineOptions(device=one, ctx=64, place=f"0={two},2=host")
    assert check_every_refusal(path, options, monkeypatch) > 10


@pytest.mark.full
@pytest.mark.model_file
def test_every_allocation_of_a_real_load_may_be_refused(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = EngineOptions(device=drivers()[0], ctx=512)
    assert check_every_refusal(model, options, monkeypatch) > 60


def test_a_tower_is_a_row_of_its_own_with_the_output_block(tmp_path: Path) -> None:
    path, mmproj = write_pair(tmp_path, "gemma3", Kind.F16)
    one, two = two_devices()
    model = load_model(path, EngineOptions(device=one, ctx=64, place=f"out={two}"))
    with closing(model), open_gguf(mmproj) as file:
        assert foreseen(model.dry) == held(model.dry)
        assert model.built.tower is not None
        owners = {(d, i) for d, component, i in held(model.dry) if component == "vision"}
        assert owners == {(two, model.built.n_layer)}
        placed = model.stepper.planner.placed
        tensor = next(t for t in model.built.tower.sources if t.name == "v.patch_embd.weight")
        at = placed[tensor]
        stored = at.buffer.read(at.offset, tensor.nbytes)
        assert (stored == file.data("v.patch_embd.weight").reshape(-1)).all()
        assert not any(t.name == "v.patch_embd.weight" for t, _ in model.dry.mapped)


def test_what_a_device_says_it_has_is_its_budget(tiny_path: Path) -> None:
    name = next((n for n in drivers() if n.startswith("pocl")), None)
    if name is None:
        pytest.skip("needs PoCL, whose memory can be limited")
    memory = next(info.memory for info in list_devices() if info.name == name)
    with allocated(tiny_path, EngineOptions(device=name, ctx=64)) as placed:
        assert placed.dry.backends[0].budget == memory
