"""Rope tables of positions in several dimensions: against a loop that multiplies thetas up pair by
pair, as ggml does, and against the tables of transformers' Qwen models.
"""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.errors import ShapeError
from engine.layers.rope import RopeParams, Sections, Yarn

GOLDEN = Path(__file__).parents[2] / "goldens" / "rope.npz"
# Time, height, width and the fourth of nine tokens, no two alike.
POSITIONS = np.random.default_rng(50).permutation(4096)[:36].reshape(4, 9).astype(np.int32)

CASES = {
    "blocks": RopeParams(32, 1e6, neox=True, sections=Sections((4, 6, 6, 0))),
    "blocks, all four": RopeParams(32, 1e4, neox=True, sections=Sections((4, 5, 3, 4))),
    "blocks, again from the first": RopeParams(32, 1e4, neox=True, sections=Sections((2, 2, 1, 0))),
    "an empty section": RopeParams(16, 1e4, neox=True, sections=Sections((0, 3, 0, 5))),
    "blocks, scaled, with factors": RopeParams(
        8, 1e4, True, 1 / 8, (1.0, 2.0, 4.0, 9.0), sections=Sections((1, 1, 1, 1))
    ),
    "blocks, yarn": RopeParams(
        64, 1e4, True, 1 / 4, yarn=Yarn(4096), sections=Sections((8, 12, 12, 0))
    ),
    "interleaved": RopeParams(
        128, 5e6, neox=True, sections=Sections((24, 20, 20, 0), "interleaved")
    ),
    "interleaved, uneven": RopeParams(
        32, 1e4, neox=True, sections=Sections((3, 7, 2, 1), "interleaved")
    ),
    "vision": RopeParams(80, 1e4, neox=True, sections=Sections((20, 20, 20, 20), "vision")),
    "vision, uneven": RopeParams(32, 1e4, neox=True, sections=Sections((3, 5, 2, 4), "vision")),
}


def axis(sector: int, sizes: tuple[int, ...], interleaved: bool) -> int:
    """Which position a pair reads."""
    t, h, w, _ = sizes
    if interleaved:
        if sector % 3 == 1 and sector < 3 * h:
            return 1
        if sector % 3 == 2 and sector < 3 * w:
            return 2
        return 0 if sector % 3 == 0 and sector < 3 * t else 3
    if sector < t:
        return 0
    if sector < t + h:
        return 1
    return 2 if sector < t + h + w else 3


def angles(position: list[int], p: RopeParams) -> list[float]:
    """One token's angles, before YaRN: every theta runs on, and in vision starts anew where its
    section starts.
    """
    assert p.sections is not None
    sizes, vision = p.sections.sizes, p.sections.mode == "vision"
    starts = [sum(sizes[:i]) for i in range(4)]
    ratio = p.base ** (-2 / (p.n_rot // 2 if vision else p.n_rot))
    theta = list(map(float, position))
    found = []
    for i in range(p.n_rot // 2):
        sector = i % sum(sizes)
        own = axis(sector, sizes, p.sections.mode == "interleaved")
        if vision and sector == starts[own]:
            theta[own] = float(position[own])
        found.append(theta[own] / (p.factors[i] if p.factors else 1))
        theta = [value * ratio for value in theta]
    return found


@pytest.mark.parametrize("params", CASES.values(), ids=CASES)
def test_tables(params: RopeParams) -> None:
    half = params.n_rot // 2
    table = params.table(POSITIONS)
    assert table.shape == (9, params.n_rot)
    for t in range(9):
        for i, plain in enumerate(angles(POSITIONS[:, t].tolist(), params)):
            angle, magnitude = plain * params.scale, 1.0
            if params.yarn is not None:
                ramp = float(params.yarn.ramp(np.array([i]), params.n_rot, params.base)[0])
                angle = plain * params.scale * (1 - ramp) + plain * ramp
                magnitude = 1 + 0.1 * math.log(1 / params.scale)
            want = np.multiply([math.cos(angle), math.sin(angle)], magnitude)
            np.testing.assert_allclose(table[t, [i, half + i]], want, atol=1e-6)


@pytest.mark.parametrize("params", CASES.values(), ids=CASES)
def test_one_position_stands_for_all_four(params: RopeParams) -> None:
    text = POSITIONS[0]
    assert np.array_equal(params.table(text), params.table(np.stack([text] * 4)))


def test_text_turns_as_without_sections() -> None:
    """Where all four are the same, only vision's frequencies differ."""
    for name, params in CASES.items():
        plain = replace(params, sections=None)
        same = np.allclose(params.table(POSITIONS[0]), plain.table(POSITIONS[0]), atol=1e-6)
        assert same == ("vision" not in name), name


GOLDENS = {
    "qwen2_vl": Sections((16, 24, 24, 0)),
    "qwen3_vl": Sections((24, 20, 20, 0), "interleaved"),
    "qwen2_vl_vision": Sections((20, 20, 20, 20), "vision"),
}


@pytest.mark.parametrize("name", GOLDENS)
def test_as_transformers_has_them(name: str) -> None:
    with np.load(GOLDEN) as golden:
        positions, want = golden[f"{name}_positions"], golden[f"{name}_table"]
        base = golden[f"{name}_base"]
    params = RopeParams(want.shape[1], float(base), neox=True, sections=GOLDENS[name])
    # Its angles are float32: half a unit in the last place of the largest position.
    np.testing.assert_allclose(params.table(positions), want, atol=2**-24 * positions.max() + 1e-6)


def test_what_cannot_be() -> None:
    with pytest.raises(ShapeError, match="NeoX"):
        RopeParams(8, 1e4, neox=False, sections=Sections((1, 1, 1, 1)))
    for sizes in ((0, 0, 0, 0), (-1, 2, 2, 1)):
        with pytest.raises(ShapeError, match="sections"):
            Sections(sizes)
