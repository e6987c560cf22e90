"""What a graph is said to be is what `cutaway plan` says, and what runs when a step is recorded."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.backends.opencl.drivers.find import find_drivers
from engine.errors import CutawayError
from engine.protocol import (
    DescribeGraph,
    DescribePlan,
    GraphDone,
    GraphNode,
    Load,
    Profile,
    StepProfile,
)
from engine.settings import EngineOptions
from engine.worker import Worker

pytestmark = pytest.mark.device
TINY = EngineOptions(device="intel:0", ctx=128)
SPREAD = EngineOptions(
    device="intel:0",
    ctx=128,
    place=r"1=pocl:0,2=pocl:1,out=pocl:0,blk\.0\.ffn_down.*=pocl:1,^ffn_norm-2$=intel:0",
)
REAL = "0-3=intel:0,4-11=pocl:0,12-14=pocl:1,out=pocl:1"
DECODE, PREFILL, DEPTH = 1, 24, 8
NODE = re.compile(r"node #\s*(\d+) \(\s*(\S+)\):\s+(.+?) \(\s*\S+\) \[\s*(\S+)\s+(\S+)\]:")


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    """It sees three devices of two vendors."""
    if not {"libintelocl", "libpocl"} <= {driver.name for driver in find_drivers()}:
        pytest.skip("needs the drivers of the extras cpu and pocl")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POCL_DEVICES", "pthread pthread")
        with Worker() as worker:
            yield worker


@pytest.fixture(params=["tiny_path", "tiny_base_path"], scope="module")
def path(request: pytest.FixtureRequest) -> Path:
    """Models of two architectures."""
    found: Path = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=[TINY, SPREAD], ids=["one device", "three devices"], scope="module")
def options(request: pytest.FixtureRequest) -> EngineOptions:
    found: EngineOptions = request.param
    return found


def described(
    worker: Worker, path: Path | str = "", options: EngineOptions = TINY, n: int = 1, cells: int = 0
) -> GraphDone:
    return worker.get(DescribeGraph(worker.new_id(), str(path), options, n, cells or None))


def computed(graph: GraphDone) -> list[GraphNode]:
    return [node for node in graph.nodes if node.role == ""]


def check_as_planned(worker: Worker, path: Path, options: EngineOptions) -> GraphDone:
    """Every node of `plan --nodes` and no other, with its device and cause; the same splits."""
    graph = described(worker, path, options)
    planned = worker.get(DescribePlan(worker.new_id(), str(path), options, nodes=True))
    printed = NODE.findall(planned.nodes)
    wanted = {int(i): (op, name, device, cause) for i, op, name, device, cause in printed}
    found = {
        i: (node.op.upper()[:10], node.name[:20].strip(), node.device[:8], node.cause[:6])
        for i, node in enumerate(graph.nodes)
        if node.role == ""
    }
    assert found == wanted
    assert len(printed) == len(wanted) == planned.nodes.count("node #")
    for split, row in zip(graph.splits, planned.splits, strict=True):
        assert (split.device, split.n_nodes, split.first, split.last) == (
            *(row.device, row.n_nodes),
            *(row.first, row.last),
        )
        copies = [(graph.nodes[c.node].name, c.origin, c.size) for c in split.copies]
        assert copies == [(c.name, c.origin, c.size) for c in row.copies]
    return graph


def check_whole(graph: GraphDone) -> None:
    """Each node is there once, in one split and with one launch, behind what it reads."""
    keys = Counter((node.name, node.occurrence) for node in graph.nodes)
    assert set(keys.values()) == {1}
    launched = Counter(node.launch for node in computed(graph))
    for i, launch in enumerate(graph.launches):
        assert launched[i] <= len(launch.nodes)
        for number in launch.nodes:
            node = graph.nodes[number]
            assert (node.split, node.device) == (launch.split, launch.device)
        for before in launch.sources:
            assert before < i
    for node in computed(graph):
        assert graph.nodes[node.sources[0]] is not node
        assert graph.splits[node.split].device == node.device
        reached = behind(graph, node.launch)
        for source in sources(graph, node):
            if graph.splits[source.split].device == node.device:
                assert source.launch in reached, (node.name, source.name)


def behind(graph: GraphDone, launch: int) -> set[int]:
    """A launch and all that it waits for on its device."""
    found, left = set(), [launch]
    while left:
        at = left.pop()
        if at not in found:
            found.add(at)
            left += graph.launches[at].sources
    return found


def sources(graph: GraphDone, node: GraphNode) -> Iterator[GraphNode]:
    """The computed tensors that a node reads, through views."""
    for number in node.sources:
        source = graph.nodes[number]
        if source.role == "view":
            yield from sources(graph, source)
        elif source.role == "":
            yield source


def check_arenas(graph: GraphDone) -> None:
    """Nothing that lives at the same time overlaps, and nothing lies outside its chunk."""
    for arena in graph.arenas:
        for at, one in enumerate(arena.lives):
            assert 0 <= one.first <= one.last < graph.steps
            assert one.offset >= 0
            assert one.offset + one.size <= arena.chunks[one.chunk]
            assert one.chunk > 0 or one.offset >= arena.inputs
            for other in arena.lives[at + 1 :]:
                together = one.first <= other.last and other.first <= one.last
                apart = (
                    one.chunk != other.chunk
                    or one.offset + one.size <= other.offset
                    or other.offset + other.size <= one.offset
                )
                assert apart or not together, (one, other)
    by_device = {arena.device: arena.lives for arena in graph.arenas}
    for i, node in enumerate(graph.nodes):
        if node.life >= 0:
            life = by_device[node.device][node.life]
            assert graph.launches[node.launch].step >= life.first
            assert life.node == i or graph.nodes[life.node].op == node.op


def check_as_recorded(graph: GraphDone, step: StepProfile) -> None:
    """The launches of each split in order, with their work, and the copies with their bytes."""
    uploaded: set[str] = set()
    for number, (split, ran) in enumerate(zip(graph.splits, step.splits, strict=True)):
        said = [
            (launch.device, kernel, launch.op, launch.name)
            for launch in graph.launches
            if launch.split == number
            for kernel in launch.kernels
        ]
        mine = [one for one in step.launches if one.split == number]
        assert said == [(one.device, one.kernel.split()[0], one.op, one.name) for one in mine]
        asked = [(x.bytes, x.flops) for x in graph.launches if x.split == number]
        assert asked == [(one.bytes, one.flops) for one in mine if one.bytes or one.flops]
        moved = [copy.size for copy in split.copies if copy.origin is not None]
        if split.device not in uploaded and len(moved) < len(split.copies):
            uploaded.add(split.device)  # of all inputs, in one piece
            moved += [arena.inputs for arena in graph.arenas if arena.device == split.device]
        assert (ran.copies, ran.copied) == (len(moved), sum(moved))


def profile(worker: Worker, n_tokens: int) -> StepProfile:
    asked = Profile(worker.new_id(), n_tokens, [DEPTH], steps=1)
    (found,) = worker.get(asked).profiles
    return found


def test_nodes_and_causes_are_those_of_plan(
    worker: Worker, path: Path, options: EngineOptions
) -> None:
    graph = check_as_planned(worker, path, options)
    check_whole(graph)
    check_arenas(graph)


def test_launches_and_copies_are_those_of_a_recorded_step(
    worker: Worker, path: Path, options: EngineOptions
) -> None:
    worker.get(Load(worker.new_id(), str(path), options))
    for n_tokens in (DECODE, PREFILL):
        graph = described(worker, n=n_tokens, cells=n_tokens + DEPTH)
        assert graph.n_tokens == n_tokens
        check_whole(graph)
        check_arenas(graph)
        check_as_recorded(graph, profile(worker, n_tokens))


@pytest.mark.model_file
@pytest.mark.parametrize("name", ["smollm2", "gemma3"])
def test_real_models_before_they_are_loaded(
    worker: Worker, name: str, request: pytest.FixtureRequest
) -> None:
    model: Path = request.getfixturevalue(f"{name}_path")
    graph = check_as_planned(worker, model, EngineOptions(device="intel:0", place=REAL))
    assert {split.device for split in graph.splits} >= {"intel:0", "pocl:0", "pocl:1"}
    check_whole(graph)


@pytest.mark.full
@pytest.mark.model_file
@pytest.mark.parametrize("name", ["smollm2", "gemma3"])
@pytest.mark.parametrize("place", ["", REAL], ids=["one device", "three devices"])
def test_real_models_as_they_run(
    worker: Worker, name: str, place: str, request: pytest.FixtureRequest
) -> None:
    model: Path = request.getfixturevalue(f"{name}_path")
    options = EngineOptions(device="intel:0", ctx=1024, place=place)
    check_as_planned(worker, model, options)
    worker.get(Load(worker.new_id(), str(model), options))
    for n_tokens in (DECODE, PREFILL, 512):
        graph = described(worker, n=n_tokens, cells=n_tokens + DEPTH)
        check_whole(graph)
        check_as_recorded(graph, profile(worker, n_tokens))


def test_who_decided_is_told(worker: Worker, tiny_path: Path) -> None:
    graph = described(worker, tiny_path, SPREAD)
    why = {(node.name, node.occurrence): node.why for node in graph.nodes}
    assert why["attn_norm-1", 0] == (
        "its weight blk.1.attn_norm.weight is on pocl:0: layer 1 was placed there by the user"
    )
    assert why["ffn_out-0", 0] == (
        "its weight blk.0.ffn_down.weight is on pocl:1: required by the rule "
        r"blk\.0\.ffn_down.*=pocl:1"
    )
    assert why["ffn_norm-2", 0] == "pinned to intel:0 by the rule ^ffn_norm-2$=intel:0"
    assert why["Qcur-0", 0].endswith("the automatic placement chose it for layer 0")
    assert why["result_output", 0].endswith("the output block was placed there by the user")
    assert why["Qcur-1", 1] == "follows its source Qcur-1 (reshaped), which pocl:0 computes"
    assert why["inp_tokens", 0] == "an input: the host fills it in every step"
    cuts = [split.why for split in graph.splits]
    assert cuts[0] == "start of the step"
    assert any(cut.startswith("ffn_norm-2 runs there: pinned to intel:0") for cut in cuts)


def test_layers_of_nodes(worker: Worker, tiny_path: Path) -> None:
    graph = described(worker, tiny_path)
    for node in computed(graph):
        number = re.search(r"(?:-|_l)(\d+)(?: \(|$)", node.name)
        if number is not None and not node.name.startswith("node_"):
            assert node.layer == int(number[1]), node
    assert graph.nodes[0].layer is None  # rows are looked up
    assert [n.layer for n in graph.nodes if n.name == "result_output"] == [graph.n_layer]
    last = [node.layer for node in computed(graph) if node.layer is not None]
    assert last == sorted(last)


def test_a_step_that_cannot_be_is_refused(worker: Worker, tiny_path: Path) -> None:
    for n_tokens, cells in ((0, 0), (513, 0), (8, 4), (1, 129)):
        with pytest.raises(CutawayError, match=r"n_tokens|n_cells"):
            described(worker, tiny_path, TINY, n_tokens, cells)
