"""Every family's views against those of transformers' processors, on small tiles.

Not followed are: LLaVA 1.5's crop (the picture is padded, as the original does), black tiles that
Idefics' processor takes for padding, Llama 4's bfloat16, and sides that are cut off to 0 (Pixtral:
no rows; Gemma 4: an error).
"""

from collections.abc import Callable

import numpy as np
import pytest

from engine.errors import BadPicture
from engine.images.decode import Picture
from engine.images.layouts import (
    gemma3,
    gemma4,
    idefics3,
    internvl,
    llama4,
    llava,
    llava_next,
    mllama,
    pixtral,
    qwen,
)
from engine.images.patches import cut, neighbours
from engine.images.plan import ImagePlan, Limits, Size
from engine.images.resize import Filter, Resizer, Rule
from tests.goldens.vision.pixels import COLOURS, SIZES, load_views, picture

FREE = Limits()
CANVASES = [Size(14 * w, 14 * h) for h, w in ((2, 4), (4, 2), (4, 4), (6, 2), (2, 6))]
# As the processors that made the goldens were set.
PLANS: dict[str, tuple[Filter, Callable[[Size], ImagePlan]]] = {
    "gemma3": ("bilinear", lambda size: gemma3(size, FREE, edge=56, tokens=4)),
    "pixtral": ("bicubic", lambda size: pixtral(size, FREE, longest=80, cell=16)),
    "mistral3": ("bicubic", lambda size: pixtral(size, FREE, longest=110, cell=28)),
    "qwen25vl": ("bicubic", lambda size: qwen(size, FREE, cell=28, least=3136, most=8000)),
    "qwen3vl": ("bicubic", lambda size: qwen(size, FREE, cell=32, least=4096, most=10000)),
    "mllama": ("bilinear", lambda size: mllama(size, FREE, edge=28, most=4, patch=14)),
    "llama4": ("bilinear", lambda size: llama4(size, FREE, edge=28, most=16, cell=14)),
    "idefics3": ("lanczos", lambda size: idefics3(size, FREE, edge=28, longest=112, cell=14)),
    "llava": ("bicubic", lambda size: llava(size, FREE, edge=56, patch=14)),
    "llava_next": (
        "bicubic",
        lambda size: llava_next(size, FREE, edge=28, patch=14, canvases=CANVASES),
    ),
    "internvl": ("bicubic", lambda size: internvl(size, FREE, edge=28, most=12, cell=14)),
    "gemma4": ("bicubic", lambda size: gemma4(size, FREE, cell=12, tokens=70, causal=True)),
}
MEAN_COLOUR = (122, 116, 104)


def rule(family: str) -> Rule:
    mean, std = COLOURS[family]
    fill = MEAN_COLOUR if family == "llava" else (0, 0, 0)
    return Rule(PLANS[family][0], mean, std, fill)


def ours(family: str, size: tuple[int, int]) -> tuple[ImagePlan, list[np.ndarray]]:
    """The plan, and float32 [h, w, 3] of each view."""
    plan = PLANS[family][1](Size(*size))
    resizer = Resizer(Picture(picture(*size)), rule(family))
    return plan, [resizer.pixels(view) for view in plan.views]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("family", PLANS)
def test_pixels_are_the_processors(family: str, size: tuple[int, int]) -> None:
    goldens = load_views(family, size)
    plan, views = ours(family, size)
    assert [view.shape for view in views] == [golden.shape for golden in goldens]
    mean, std = map(np.array, COLOURS[family])
    for view, values, golden in zip(plan.views, views, goldens, strict=True):
        theirs = (golden / 255 - mean) / std
        away = np.abs(values - theirs) * std
        if set(view.steps) == {Size(*size)} and not any(view.margin):
            assert away.max() < 1e-6  # not resized
        assert away.max() <= 2 / 255
        assert away.mean() <= 1e-3


def test_some_views_are_not_resized() -> None:
    """Else the exact comparison above compares nothing."""
    unresized = {
        family
        for family in PLANS
        for size in SIZES
        if load_views(family, size)
        for view in PLANS[family][1](Size(*size)).views
        if set(view.steps) == {Size(*size)}
    }
    assert unresized >= {"gemma3", "pixtral", "mllama", "llama4", "qwen25vl", "llava_next"}


def test_patches_in_the_order_of_merging_processors() -> None:
    """Qwen's: cells of 2 x 2 patches in raster order; each patch by channel, row, column."""
    _, (values,) = ours("qwen25vl", (90, 61))
    h, w, _ = values.shape
    gh, gw = h // 14, w // 14
    theirs = values.reshape(gh // 2, 2, 14, gw // 2, 2, 14, 3).transpose(0, 3, 1, 4, 6, 2, 5)
    found = cut(values, 14)[neighbours(gw, gh, 2)]
    np.testing.assert_array_equal(found, theirs.reshape(gh * gw, -1))


@pytest.mark.parametrize(("cols", "rows", "merge"), [(6, 4, 2), (3, 9, 3), (4, 4, 4), (5, 3, 1)])
def test_orders_round_trip(cols: int, rows: int, merge: int) -> None:
    """Neighbours of a cell are its merge x merge places, and every place is there once."""
    order = neighbours(cols, rows, merge)
    np.testing.assert_array_equal(np.sort(order), np.arange(cols * rows))
    for cell, places in enumerate(order.reshape(-1, merge * merge)):
        y, x = divmod(cell, cols // merge)
        expected = [
            (y * merge + dy) * cols + x * merge + dx for dy in range(merge) for dx in range(merge)
        ]
        assert places.tolist() == expected


def test_longer_pictures_are_refused_where_the_processor_does() -> None:
    with pytest.raises(BadPicture):
        PLANS["qwen25vl"][1](Size(201, 1))
