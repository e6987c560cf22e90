"""What a probe changes of a plan: copies, and fusion across what is probed; no address besides."""

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from gguf import GGMLQuantizationType as Type

from engine.graph.op import Op
from engine.graph.tensor import Tensor
from engine.models.build import StepShape
from engine.runner.loading import LoadedModel, load_model
from engine.scheduler.allocate import ArenaPlace
from engine.scheduler.outline import Outline
from engine.scheduler.probed import RING, probed
from engine.scheduler.probes import Probes, named_results
from engine.settings import EngineOptions
from tests.goldens.tiny import write_tiny
from tests.kernels.conftest import pytest_generate_tests

__all__ = ["pytest_generate_tests"]

OTHER_LAYERS = {f"-{i}" for i in range(1, 7)}
FORMATS = {"attn_v": Type.Q8_0, "attn_": Type.Q5_0, "ffn_": Type.Q4_1}


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["llama", "gemma3"])
def model(request: pytest.FixtureRequest, backend: str, tmp_path: Path) -> Iterator[LoadedModel]:
    path = write_tiny(tmp_path / "tiny.gguf", request.param, FORMATS)
    with closing(load_model(path, EngineOptions(device=backend, ctx=64))) as opened:
        yield opened


def launches(made: Outline) -> list[Tensor]:
    """What runs, but for copies into a ring."""
    nodes = [node for part in made.splits for node in part.nodes if node.op is not Op.RESULT]
    return [node for node in nodes if node.op is not Op.COPY_INTO]


def results(node: Tensor) -> list[Tensor]:
    """What a launch writes besides its own."""
    return [s for s in node.src if s is not None and s.op is Op.RESULT]


def spelled(node: Tensor) -> tuple[str, ...]:
    """A launch by what it computes: nodes of two lowerings are not the same objects."""
    return (node.op, node.name, *(s.name for s in node.src if s is not None))


@pytest.mark.each_value
@pytest.mark.full_cases(r"\[pocl")
@pytest.mark.parametrize("n_tokens", [1, 32])
def test_only_what_is_probed_changes(model: LoadedModel, n_tokens: int) -> None:
    cells = tuple(cache.n_cells for cache in model.built.caches.caches)
    _, graph = model.built.build(StepShape(n_tokens, 1, cells))
    plain = model.stepper.planner.outline(graph)
    # Of the first layer and around the layers: others are alike.
    wanted = [(k, t) for k, t in named_results(graph) if k.name[-2:] not in OTHER_LAYERS]
    free = 0
    for key, node in wanted:
        made = probed(plain, Probes((re.escape(key.name),)))
        before, after = launches(plain), launches(made)
        gone = {spelled(n) for n in before} - {spelled(n) for n in after}
        new = [n for n in after if spelled(n) not in {spelled(m) for m in before}]
        assert len(gone) <= 2  # what was fused across it
        free += not gone
        written = {t.storage for n in new for t in (n, *results(n))}
        asked = {slot.node for slot in made.slots}
        # Whatever stands in its own launch now touches what the fused one did.
        assert not new or node.storage in {s.storage for n in new for s in (n, *n.src) if s}
        for device, layout in made.layouts.items():
            base = plain.layouts[device]
            assert layout.chunks == base.chunks
            # What launches have for themselves is made anew: it is known by its name.
            had = {t.name: at for t, at in base.places.items()}
            kept = {t: base.places.get(t, had.get(t.name)) for t in layout.places}
            moved = [t for t, at in layout.places.items() if kept[t] != at]
            assert all(layout.places[t].chunk == RING for t in moved)
            assert {t for t in moved if t.name != "probes"} <= written | asked
    assert free > len(wanted) // 3
    layers = launches(probed(plain, Probes(("l_out-.*",))))
    assert [spelled(n) for n in layers] == [spelled(n) for n in before]


def test_the_copy_stands_right_behind(model: LoadedModel) -> None:
    """Nothing that might take the bytes over runs in between."""
    cells = tuple(cache.n_cells for cache in model.built.caches.caches)
    _, graph = model.built.build(StepShape(32, 1, cells))
    made = probed(model.stepper.planner.outline(graph), Probes((".*",)))
    assert len(made.slots) == len(list(named_results(graph)))
    stay = [
        slot.node
        for slot in made.slots
        if made.layouts[slot.device].places.get(slot.node) == ArenaPlace(RING, slot.offset)
    ]
    layers = {f"l_out-{i}" for i in range(model.built.n_layer)}
    assert layers <= {node.name for node in stay}, "nothing is copied of what is asked for most"
    copies = 0
    for part in made.splits:
        maker: Tensor | None = None
        for node in part.nodes:
            if node.op is Op.COPY_INTO:
                assert maker is not None
                assert node.src[1].storage in {t.storage for t in (maker, *results(maker))}
                copies += 1
            elif node.op is not Op.RESULT:
                maker = node
    assert copies + len(stay) == len(made.slots)
