"""Rows of results over many tokens: what leaves each layer, and what enters each product."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.errors import CannotProbe
from engine.graph.graph import Graph
from engine.graph.op import Op
from engine.graph.ops.matmul import MatmulId
from engine.graph.tensor import Role, Tensor
from engine.inside.observed import is_too_large
from engine.models.build import BuiltModel
from engine.runner.edits import PLAIN, SequenceEdits
from engine.runner.stepper import StartedStep, StepPart, Stepper
from engine.scheduler.probes import Probes, ResultKey

Floats = NDArray[np.float32]
RESIDUAL = r"l_out-\d+"


class ReadPart(NamedTuple):
    """A finished step over tokens from index `start` on; good until the next step."""

    start: int
    step: StartedStep
    logits: Floats


def read_parts(
    stepper: Stepper,
    tokens: Sequence[int],
    probes: Probes,
    most: int,
    sequence: int = 0,
    edits: SequenceEdits = PLAIN,
) -> Iterator[ReadPart]:
    """Compute tokens in a fresh context, in steps of at most `most`, or of fewer where memory for
    what is probed allows no more; every token is an output. Raises `CannotProbe`.
    """
    stepper.forget(0, sequence=sequence)
    run, start = most, 0
    while start < len(tokens):
        part = tokens[start : start + min(run, stepper.most_outputs)]
        ours = StepPart(part, start, range(len(part)), sequence, edits)
        try:
            step = stepper.start_together([ours], probes=probes)
        except CannotProbe as refused:
            if not is_too_large(refused, len(part)):
                raise
            run = max(1, len(part) // 2)
            continue
        yield ReadPart(start, step, step())
        start += len(part)


@dataclass(frozen=True)
class ProductInputs(Probes):
    """Inputs of each product with a weight of the layers: keys are names of weights. Of experts
    the ids are there, too, as `NAME ids`. `of` is the model's function from leaf to name.
    """

    names: Callable[[Tensor], str | None] = lambda _: None
    key: str = "products"

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProductInputs) and other.key == self.key

    def __hash__(self) -> int:
        return hash(self.key)

    def of(self, graph: Graph) -> Iterator[tuple[ResultKey, Tensor]]:
        """The inputs, each once: products share some."""
        done: set[Tensor] = set()
        for product in self.products(graph):
            for key, node in ((product.name, product.x), (f"{product.name} ids", product.ids)):
                if node is not None and node not in done:
                    done.add(node)
                    yield ResultKey(key, 0), node

    def products(self, graph: Graph) -> Iterator["Product"]:
        """All products with a named weight, in order."""
        for node in graph.nodes:
            weight = node.src[0] if node.src else None
            if weight is None or weight.role is not Role.WEIGHT or node.op not in _PRODUCTS:
                continue
            name, x = self.names(weight), node.src[1]
            batched = weight.shape[2] > 1 or (x is not None and x.shape[2] > 1)
            if name is None or x is None or (node.op is Op.MATMUL and batched):
                continue
            ids = MatmulId.of(node).ids if node.op is Op.MATMUL_ID else None
            yield Product(name, weight, x, ids)


_PRODUCTS = (Op.MATMUL, Op.MATMUL_ID)


class Product(NamedTuple):
    """A product of a weight with x [K, T], or with x [K, s, T] of experts `ids` [U, T]."""

    name: str
    weight: Tensor
    x: Tensor
    ids: Tensor | None

    def rows(self, values: Floats, n_tokens: int) -> Floats:
        """[tokens, rows of a token, K] of the input's values, without padding tokens."""
        inner = 1 if self.ids is None else self.x.shape[1]
        return values.reshape(-1, inner, self.x.shape[0])[:n_tokens]


def product_inputs(built: BuiltModel, with_output: bool) -> ProductInputs:
    """Probes of products with weights of layers (`blk.`), and `with_output` with `output.weight`.

    An output that is tied to the embeddings counts as such.
    """

    def name_of(leaf: Tensor) -> str | None:
        name = None if leaf in built.of_adapters else built.sources.get(leaf)
        if name is None or name.startswith("blk."):
            return name
        is_output = name in ("output.weight", "token_embd.weight")
        return name if with_output and is_output else None

    return ProductInputs(names=name_of, key=f"products {with_output}")


def by_key(step: StartedStep) -> Mapping[str, Floats]:
    """The values of a finished step by the names of their keys."""
    return {one.key.name: one.values for one in step.probed()}
