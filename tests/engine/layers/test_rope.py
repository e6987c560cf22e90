"""Rope tables against the formulas written out, one angle at a time (RoFormer; YaRN paper)."""

import math

import numpy as np
import pytest

from engine.layers.rope import RopeParams, Yarn

POSITIONS = np.array([0, 1, 7, 4095, 131071], np.int32)


def angle(position: int, i: int, p: RopeParams) -> float:
    theta = position * p.base ** (-2 * i / p.n_rot)
    if p.factors:
        theta /= p.factors[i]
    if p.yarn is None:
        return theta * p.scale

    def corr(beta: float) -> float:
        return p.n_rot * math.log(p.yarn.context / (beta * 2 * math.pi)) / (2 * math.log(p.base))

    low = max(0, math.floor(corr(p.yarn.beta_fast)))
    high = min(p.n_rot - 1, math.ceil(corr(p.yarn.beta_slow)))
    ramp = 1 - min(1, max(0, (i - low) / max(0.001, high - low)))
    mix = ramp * p.yarn.extrapolation
    return theta * p.scale * (1 - mix) + theta * mix


CASES = {
    "plain": RopeParams(64, 1e5, neox=False),
    "scaled": RopeParams(64, 1e6, neox=True, scale=1 / 8),
    "factors": RopeParams(8, 5e5, neox=False, factors=(1.0, 2.0, 8.0, 32.0)),
    "more factors than pairs": RopeParams(4, 5e5, neox=False, factors=(1.0, 2.0, 8.0, 32.0)),
    "yarn": RopeParams(128, 1e4, neox=False, scale=1 / 16, yarn=Yarn(4096, attention=0.9)),
    "yarn off": RopeParams(
        64, 1e4, neox=False, scale=1 / 4, yarn=Yarn(4096, extrapolation=0.0, attention=1.2)
    ),
    "yarn, other betas": RopeParams(
        64, 1e6, neox=True, scale=0.25, yarn=Yarn(8192, beta_fast=64.0, extrapolation=0.5)
    ),
}


@pytest.mark.parametrize("params", CASES.values(), ids=CASES.keys())
def test_tables(params: RopeParams) -> None:
    half = params.n_rot // 2
    magnitude = 1.0
    if params.yarn is not None:
        grown = 1 + 0.1 * math.log(1 / params.scale) if params.yarn.extrapolation else 1
        magnitude = params.yarn.attention * grown
    table, turn = params.table(POSITIONS), params.turn(POSITIONS)
    assert table.shape == (len(POSITIONS), params.n_rot)
    for row, position in enumerate(POSITIONS.tolist()):
        for i in range(half):
            a = angle(position, i, params)
            wanted = [math.cos(a), math.sin(a)]
            np.testing.assert_allclose(
                table[row, [i, half + i]], np.multiply(wanted, magnitude), atol=1e-6
            )
            np.testing.assert_allclose(turn[row, [i, half + i]], wanted, atol=1e-6)


def test_turning_by_a_distance_moves_a_position() -> None:
    """Rotation by p then by d is rotation by p + d: what a shift of the cache relies on."""
    params = CASES["yarn"]
    half = params.n_rot // 2
    p, d = np.array([100], np.int32), np.array([-37], np.int32)

    def complex_of(table: np.ndarray) -> np.ndarray:
        return table[0, :half].astype(complex) + 1j * table[0, half:]

    moved = complex_of(params.table(p)) * complex_of(params.turn(d))
    np.testing.assert_allclose(moved, complex_of(params.table(p + d)), atol=2e-6)
