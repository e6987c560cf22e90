"""What pictures may be limited to, for models of the published sizes."""

from collections.abc import Callable
from functools import partial

import pytest

from app.state.talk.pictures_in_engine import CHOICES, ONE_VIEW, UNLIMITED, choices
from engine.images import layouts
from engine.images.plan import ImagePlan, Limits, Size
from engine.protocol import PictureLimits, PicturePlan

Layout = Callable[[Size, Limits], ImagePlan]
SMOLVLM = partial(layouts.idefics3, edge=512, longest=2048, cell=64)
GEMMA = partial(layouts.gemma3, edge=896, tokens=256)
MISTRAL = partial(layouts.pixtral, longest=1540, cell=28)
LLAMA = partial(layouts.mllama, edge=560, most=4, patch=14)


def rows_of(layout: Layout, size: Size) -> list[tuple[PictureLimits, int]]:
    """Each choice with the embeddings that it makes."""

    def planned(limits: PictureLimits) -> PicturePlan:
        made = layout(size, Limits(limits.rows, limits.one_view))
        return PicturePlan([], [], made.rows, made.rows, 0, made.cross)

    return [(c.limits, c.plan.n_rows) for c in choices({one: planned(one) for one in CHOICES})]


@pytest.mark.parametrize(
    ("layout", "size", "expected"),
    [
        (GEMMA, Size(640, 480), [(UNLIMITED, 256)]),
        (
            SMOLVLM,
            Size(1024, 1024),
            [
                (UNLIMITED, 17 * 64),
                (PictureLimits(1024), 10 * 64),
                (PictureLimits(512), 5 * 64),
                (ONE_VIEW, 64),
            ],
        ),
        (LLAMA, Size(1024, 1024), [(UNLIMITED, 6404), (ONE_VIEW, 1601)]),
    ],
)
def test_only_what_the_model_can_do_is_offered(
    layout: Layout, size: Size, expected: list[tuple[PictureLimits, int]]
) -> None:
    assert rows_of(layout, size) == expected


def test_each_number_is_kept_to_and_makes_a_difference() -> None:
    found = rows_of(MISTRAL, Size(3000, 3000))
    assert [limits.rows for limits, _ in found] == [None, 2048, 1024, 512, 256, 128, 64]
    rows = [n for _, n in found]
    assert rows == sorted(set(rows), reverse=True)
    assert all(n <= limits.rows for limits, n in found if limits.rows is not None)
    assert all(n > limits.rows / 2 for limits, n in found if limits.rows is not None)


def test_a_picture_that_is_small_already_has_fewer_choices() -> None:
    assert rows_of(MISTRAL, Size(56, 56)) == [(UNLIMITED, 4)]
