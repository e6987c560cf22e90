"""Names to fields: strict both ways, whose bytes each tensor is, and no range walked unseen."""

from dataclasses import dataclass
from typing import Annotated

import pytest

from engine.device.backend import Component, Owner
from engine.errors import TensorMismatch
from engine.gguf import open_gguf
from engine.gguf.formats import F32
from engine.gguf.tensors import TensorInfo
from engine.graph.tensor import Role, Tensor
from engine.layers.linear import Linear
from engine.models.constants import ROPE_FACTORS
from engine.models.text.llama import Weights
from engine.weights.bind import Name, bind
from tests.bounds import steps_executed
from tests.goldens.tiny import write_tiny


def info(shape: tuple[int, ...]) -> TensorInfo:
    full = (*shape, *(1,) * (4 - len(shape)))
    return TensorInfo("", F32, full, len(shape), 0, 0, 0)


@pytest.fixture(scope="module")
def tensors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TensorInfo]:
    path = write_tiny(tmp_path_factory.mktemp("bind") / "tiny.gguf", "llama")
    with open_gguf(path) as file:
        return dict(file.tensors)


def test_missing_and_unused_tensors_come_in_one_error(tensors: dict[str, TensorInfo]) -> None:
    wrong = dict(tensors)
    del wrong["blk.0.attn_k.weight"]
    del wrong["output_norm.weight"]
    wrong["blk.1.extra.weight"] = wrong["blk.0.attn_q.weight"]
    with pytest.raises(TensorMismatch) as caught:
        bind(Weights, wrong, "llama", 3, [ROPE_FACTORS])
    assert caught.value.missing == ("blk.0.attn_k.weight", "output_norm.weight")
    assert caught.value.unused == ("blk.1.extra.weight",)
    assert "\n" not in str(caught.value)


def test_a_tensor_costs_as_much_among_many(tensors: dict[str, TensorInfo]) -> None:
    """Each place is looked up among the sorted names, and once."""

    def steps(n_layer: int) -> int:
        rest = {n: t for n, t in tensors.items() if not n.startswith("blk.")}
        block = {n.removeprefix("blk.0."): t for n, t in tensors.items() if n.startswith("blk.0.")}
        many = {f"blk.{i}.{n}": t for i in range(n_layer) for n, t in block.items()}
        with steps_executed() as done:
            bind(Weights, rest | many, "llama", n_layer, [ROPE_FACTORS])
        return done[0]

    steps(1)
    assert steps(160) < 5 * steps(40)


@pytest.mark.parametrize("number", [5_000, 99_999_999, 10**300])
def test_a_gap_between_blocks_is_one_missing_name(
    tensors: dict[str, TensorInfo], number: int
) -> None:
    """However wide: a file names its blocks as it likes, and nobody counts up to there."""
    wide = {n.replace("blk.2.", f"blk.{number}."): t for n, t in tensors.items()}
    with pytest.raises(TensorMismatch) as caught:
        bind(Weights, wide, "llama", 3, [ROPE_FACTORS])
    assert caught.value.missing == (f"blk.2 to blk.{number - 1}",)
    assert caught.value.unused == ()


def test_block_numbers_are_plain(tensors: dict[str, TensorInfo]) -> None:
    odd = {n.replace("blk.2.", "blk.02."): t for n, t in tensors.items()}
    with pytest.raises(TensorMismatch) as caught:
        bind(Weights, odd, "llama", 3, [ROPE_FACTORS])
    assert caught.value.missing == ()
    assert len(caught.value.unused) == 9


@dataclass
class Wide:
    gate: Annotated[Linear, Name("gate")]
    up: Annotated[Linear, Name("up")]


@dataclass
class Narrow:
    up: Annotated[Linear, Name("up")]


@dataclass
class Whole:
    ffn: Wide | Narrow
    norm: Annotated[Linear | None, Name("norm")]
    out: Annotated[Linear, Name("out", alt="up")]


def test_optional_and_alternative_fields() -> None:
    bound = bind(Whole, {"up.weight": info((4, 4)), "up.bias": info((4,))}, "x", 1)
    whole = bound.weights
    assert isinstance(whole.ffn, Narrow)
    assert whole.norm is None
    assert isinstance(whole.out.weight, Tensor)
    assert whole.out.weight.name == "out.weight"
    assert bound.sources[whole.out.weight] == "up.weight"
    assert whole.ffn.up.bias is not None
    assert whole.ffn.up.bias.role is Role.WEIGHT


@dataclass
class Expert:
    up: Annotated[Linear, Name("up")]


@dataclass
class Block:
    q: Annotated[Linear, Name("q")]
    experts: Annotated[list[Expert], Name("expert")]


@dataclass
class Model:
    table: Annotated[Linear, Name("table", rows=True)]
    blocks: Annotated[list[Block], Name("blk")]
    out: Annotated[Linear, Name("out", alt="table")]


def test_whose_bytes_a_tensor_is() -> None:
    """The first index on the path is the layer; rows belong to none, all else to the output."""
    names = ["table", "blk.0.q", "blk.0.expert.0.up", "blk.1.q", "blk.1.expert.0.up"]
    names.append("blk.1.expert.1.up")
    bound = bind(Model, {f"{n}.weight": info((4, 4)) for n in names}, "x", 2)
    assert {t.name: bound.owners[t] for t in bound.sources} == {
        "table.weight": Owner(Component.INPUT),
        "blk.0.q.weight": Owner(Component.WEIGHTS, 0),
        "blk.0.expert.0.up.weight": Owner(Component.WEIGHTS, 0),
        "blk.1.q.weight": Owner(Component.WEIGHTS, 1),
        "blk.1.expert.0.up.weight": Owner(Component.WEIGHTS, 1),
        "blk.1.expert.1.up.weight": Owner(Component.WEIGHTS, 1),
        "out.weight": Owner(Component.WEIGHTS, 2),
    }
