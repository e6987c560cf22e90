"""route, route_weights and combine against float64, apart and fused."""

import numpy as np
import pytest

from engine.backends.opencl.backend import OpenCLBackend
from engine.graph.op import Op
from engine.graph.ops.experts import Route
from engine.graph.tensor import Tensor
from engine.selftest.case import Case
from engine.selftest.table import chosen
from tests.engine.selftest.oracle import exact
from tests.kernels.harness import nmse, run_all
from tests.kernels.values import Operands

CASES = [case for case in chosen("^(route|combine)") if case.quick or "view" in case.label]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("fused", [True, False], ids=["fused", "apart"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_as_defined(either: OpenCLBackend, case: Case, fused: bool) -> None:
    made = Operands()
    node = case.build(made)
    want = exact(node, made.values)
    (got,) = run_all(either, [node], made.values, fused=fused)
    if node.op is Op.ROUTE:
        np.testing.assert_array_equal(got, want)
    else:
        assert nmse(got, want) <= case.most


@pytest.mark.parametrize("pattern", ["of .* with weights", "^combine_add .* and 2"])
def test_one_launch_makes_both(backend: OpenCLBackend, pattern: str) -> None:
    """Ids and weights; the sum over experts, a shared one and the residual."""
    for case in chosen(pattern, quick=True):
        made = Operands()
        node = case.build(made)
        lowered = backend.fuse(backend.lower(_needed(node), lambda t: None), frozenset([node]))
        assert len([t for t in lowered if t.op is not Op.RESULT]) == 1, case.name


def test_a_choice_without_bias_or_sums_compares_logits() -> None:
    """Scores that round to 1 would be equal: the order of logits is finer."""
    for case in chosen("^route sigmoid 4 of .*60,9.$"):
        node = case.build(Operands())
        assert not Route.of(node).by_score


def _needed(node: Tensor) -> list[Tensor]:
    """The nodes behind one, in order."""
    found = [t for s in node.src if s is not None for t in _needed(s)]
    return list(dict.fromkeys([*found, *([node] if node.src else [])]))
