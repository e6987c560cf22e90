"""Items of prompts: groups, pictures as a whole, places of several axes."""

import numpy as np
import pytest

from engine.images.plan import ImagePlan, Limits, Rows, Size, Text, View
from engine.runner.pictures.items import (
    Item,
    PictureRow,
    Shown,
    before_group,
    ends,
    extents,
    places,
    saved,
    tokens_of,
    whole,
)

BEGIN, END = 90, 91


def shown(digest: str = "a", n: int = 4, causal: bool = False, advance: int | None = None) -> Shown:
    """A picture of `n` rows between two markers."""
    size = Size(28, 28)
    view = View(size, (size,), (0, 0), size, Size(n, 1))
    pieces = (Text("<b>"), Rows(0, 0, n), Text("<e>"))
    plan = ImagePlan((view,), pieces, causal=causal, advance=advance)
    return Shown(digest, Limits(), size, plan, (BEGIN,), (END,))


def rows(picture: Shown) -> list[Item]:
    return [PictureRow(picture, i) for i in range(picture.n_rows)]


def marked(picture: Shown) -> list[Item]:
    return [BEGIN, *rows(picture), END]


A, B = shown("a"), shown("b")
CHAT: list[Item] = [1, 2, *marked(A), 3, *marked(B), 4, 5]
"""A's rows are items 3 to 6, B's 10 to 13."""


def test_the_same_pixels_by_the_same_plan_are_the_same_item() -> None:
    assert PictureRow(shown("a"), 1) == PictureRow(shown("a"), 1)
    assert PictureRow(shown("a"), 1) != PictureRow(shown("b"), 1)
    assert PictureRow(A, 1) != PictureRow(A, 2)
    one_view = Shown("a", Limits(one_view=True), A.size, A.plan)
    assert PictureRow(A, 1) != PictureRow(one_view, 1)


@pytest.mark.parametrize(
    ("n", "most"),
    [(2, 2), (3, 3), (4, 3), (6, 3), (7, 7), (8, 8), (11, 10), (14, 14), (17, 17)],
)
def test_nothing_ends_inside_a_group(n: int, most: int) -> None:
    assert before_group(CHAT, n) == most


def test_rows_that_see_no_later_ones_may_be_cut() -> None:
    items = [1, *rows(shown(causal=True)), 2]
    assert [before_group(items, n) for n in range(len(items) + 1)] == list(range(len(items) + 1))
    assert ends(items, 5) is None


def test_the_same_picture_twice_in_a_row_is_two_groups() -> None:
    items = [*rows(A), *rows(A)]
    assert before_group(items, 4) == 4
    assert before_group(items, 6) == 4
    np.testing.assert_array_equal(ends(items, 10), [13] * 4 + [17] * 4)


def test_all_of_a_group_see_up_to_its_end() -> None:
    found = ends(CHAT[2:9], 2)
    np.testing.assert_array_equal(found, [2, 6, 6, 6, 6, 7, 8])
    np.testing.assert_array_equal(tokens_of(CHAT[2:9]), [BEGIN, -1, -1, -1, -1, END, 3])


def test_a_picture_reaches_from_its_first_marker_to_its_last() -> None:
    assert [tuple(e)[1:] for e in extents(CHAT)] == [(2, 8), (9, 15)]
    bare = [1, *rows(A), 2]
    assert [tuple(e)[1:] for e in extents(bare)] == [(1, 5)]


@pytest.mark.parametrize(
    ("keep", "begin", "count", "gone"),
    [
        (1, 1, 1, (1, 2)),  # before the picture
        (1, 1, 2, (1, 8)),  # its first marker takes the rest along
        (1, 1, 5, (1, 8)),
        (1, 1, 7, (1, 8)),
        (1, 1, 8, (1, 9)),
        (1, 1, 9, (1, 15)),
        (1, 5, 1, (2, 8)),  # from its middle: all of it
        (5, 5, 1, (8, 9)),  # what is kept begins in it: it stays
        (1, 16, 9, (16, 17)),
    ],
)
def test_pictures_go_as_a_whole(keep: int, begin: int, count: int, gone: tuple[int, int]) -> None:
    assert whole(CHAT, keep, begin, count) == gone
    left = CHAT[: gone[0]] + CHAT[gone[1] :]
    assert all(e.picture.n_rows == 4 for e in extents(left))
    assert len([i for i in left if not isinstance(i, int)]) == 4 * len(extents(left))


class Square:
    """A tower whose rows stand in lines of two, and on a fourth axis at the picture's number."""

    def places(self, plan: ImagePlan, start: int, number: int) -> np.ndarray:
        i = np.arange(plan.rows)
        numbers = np.full(plan.rows, number - start)
        return np.stack([0 * i, i // 2, i % 2, numbers]).astype(np.int32) + start


def test_places_go_on_behind_a_picture_after_its_longer_side() -> None:
    picture = shown(causal=True, advance=2)
    items = [7, *marked(picture), 8, *marked(picture), 9]
    assert saved(items) == 4
    found = places(Square(), [], items)  # type: ignore[arg-type]
    time = [0, 1, 2, 2, 2, 2, 4, 5, 6, 7, 7, 7, 7, 9, 10]
    np.testing.assert_array_equal(found[0], time)
    np.testing.assert_array_equal(found[1, 2:6], [2, 2, 3, 3])
    np.testing.assert_array_equal(found[2, 9:13], [7, 8, 7, 8])
    np.testing.assert_array_equal(found[3], [0, 1, 0, 0, 0, 0, 4, 5, 6, 1, 1, 1, 1, 9, 10])
    for cut in range(1, len(items)):  # in any two parts
        parts = [places(Square(), [], items[:cut]), places(Square(), items[:cut], items[cut:])]  # type: ignore[arg-type]
        np.testing.assert_array_equal(np.hstack(parts), found)
