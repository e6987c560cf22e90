"""Cases: which experts a token meets, what each counts, and the sum of what they made."""

from collections.abc import Iterator
from functools import reduce
from itertools import product
from typing import NamedTuple

import numpy as np

from engine.gguf.formats import F32
from engine.graph import ops
from engine.graph.ops.experts import Scoring
from engine.graph.tensor import Tensor
from engine.selftest.case import EXACT, F32_MOST, SOFTMAX_MOST, Case, bound, dims
from engine.selftest.operands import Operands


class _Choice(NamedTuple):
    """A choice of `used` among `experts`; `groups`: how many there are, and how many are open."""

    experts: int
    used: int
    score: Scoring
    groups: tuple[int, int] = (1, 1)
    bias: bool = False


CHOICES = (
    *(_Choice(n, u, score) for score in Scoring for n, u in ((8, 2), (60, 4), (128, 8))),
    *(_Choice(n, u, Scoring.SIGMOID, bias=True) for n, u in ((32, 4), (129, 8))),
    _Choice(32, 4, Scoring.SQRT_SOFTPLUS, bias=True),
    _Choice(1, 1, Scoring.SIGMOID),
    _Choice(5, 5, Scoring.LATE_SOFTMAX, bias=True),
    _Choice(512, 10, Scoring.SOFTMAX),
    _Choice(1024, 22, Scoring.SIGMOID),
    _Choice(64, 8, Scoring.SIGMOID, (8, 4), True),  # DeepSeek-V3's way
    _Choice(64, 6, Scoring.SIGMOID, (8, 3)),
    _Choice(64, 6, Scoring.SOFTMAX, (8, 3)),  # DeepSeek-V2's
    _Choice(12, 3, Scoring.SIGMOID, (12, 5), True),
    _Choice(21, 4, Scoring.SQRT_SOFTPLUS, (3, 1), True),
)
WEIGHED = (
    *((score, normalised, 1.0, False) for score in Scoring for normalised in (False, True)),
    (Scoring.SIGMOID, True, 2.5, True),
    (Scoring.SOFTMAX, False, 16.0, True),
)


def routing() -> Iterator[Case]:
    """route, route_weights and combine, apart and together."""
    for choice in CHOICES:
        for tokens in (1, 9):
            yield from _routed(choice, tokens)
    yield Case("route", "F32 [40,7] of three values", _ties, EXACT, True)
    yield Case("route", "F32 [16,4] NaN and infinities", _special, EXACT, True)
    many = bound(_ids, c=_Choice(128, 8, Scoring.SOFTMAX), tokens=300)
    yield Case("route", "F32 [128,300] view", many, EXACT)
    for score, normalised, scale, gains in WEIGHED:
        build = bound(_weights, score=score, normalised=normalised, scale=scale, gains=gains)
        label = f"{score} F32 [33,9]{' normalised' * normalised}{' gains' * gains}"
        yield Case("route_weights", label, build, SOFTMAX_MOST, gains)
    for wide, used, tokens in product((32, 129, 2050), (1, 2, 8), (1, 5, 70)):
        label, quick = f"F32 {dims(wide, used, tokens)}", (wide, used, tokens) == (129, 8, 5)
        for added in range(3):
            build = bound(_combined, wide=wide, used=used, tokens=tokens, added=added)
            name = "combine_add" if added else "combine"
            yield Case(name, f"{label}{f' and {added}' * bool(added)}", build, F32_MOST, quick)


def _routed(choice: _Choice, tokens: int) -> Iterator[Case]:
    groups = f" groups {choice.groups[1]} of {choice.groups[0]}" if choice.groups[0] > 1 else ""
    label = f"{choice.score} {choice.used} of {dims(choice.experts, tokens)}"
    label += f"{groups}{' bias' * choice.bias}"
    quick = tokens == 9 and (choice.groups[0] > 1 or choice.experts == 128)
    yield Case("route", label, bound(_ids, c=choice, tokens=tokens), EXACT, quick)
    both = bound(_chosen_weights, c=choice, tokens=tokens)
    yield Case("route", f"{label} with weights", both, SOFTMAX_MOST, quick)


def _logits(o: Operands, experts: int, tokens: int) -> Tensor:
    """Logits of each token, no two alike: rounding keeps their order."""
    steps = np.array([o.rng.permutation(experts) for _ in range(tokens)])
    return o.put(F32, (steps - experts / 2) * (8 / experts))


def _made(o: Operands, c: _Choice, tokens: int) -> tuple[Tensor, Tensor]:
    """Logits and ids; a bias lies on a grid that scores do not hit."""
    logits = _logits(o, c.experts, tokens)
    bias = o.put(F32, o.rng.integers(-8, 9, c.experts) / 7) if c.bias else None
    return logits, ops.route(logits, c.used, c.score, bias, *c.groups)


def _ids(o: Operands, c: _Choice, tokens: int) -> Tensor:
    return _made(o, c, tokens)[1]


def _chosen_weights(o: Operands, c: _Choice, tokens: int) -> Tensor:
    logits, ids = _made(o, c, tokens)
    return ops.route_weights(logits, ids, c.score, normalised=c.bias, scale=1.5)


def _ties(o: Operands) -> Tensor:
    numbers = o.rng.integers(0, 3, (7, 40)).astype(np.float32)
    return ops.route(o.put(F32, np.where(numbers == 0, -0.0, numbers - 1)), 30, Scoring.SIGMOID)


def _special(o: Operands) -> Tensor:
    rows = o.rng.standard_normal((4, 16))
    rows[0, ::2], rows[1, ::3], rows[2, ::4], rows[3] = np.nan, np.inf, -np.inf, np.nan
    return ops.route(o.put(F32, rows), 12, Scoring.LATE_SOFTMAX, None, 4, 3)


def _weights(o: Operands, score: Scoring, normalised: bool, scale: float, gains: bool) -> Tensor:
    logits, ids = o.make(F32, 33, 9, spread=5.0), o.ids(33, 6, 9, distinct=True)
    each = o.make(F32, 33) if gains else None
    return ops.route_weights(logits, ids, score, normalised=normalised, scale=scale, gains=each)


def _combined(o: Operands, wide: int, used: int, tokens: int, added: int) -> Tensor:
    total = ops.combine(o.make(F32, wide, used, tokens), o.make(F32, used, tokens))
    return reduce(ops.add, [o.make(F32, wide, tokens) for _ in range(added)], total)
