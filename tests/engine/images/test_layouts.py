"""Plans against the numbers of the published processors, for each family and size."""

import random
import re
from collections import Counter

import pytest

from engine.errors import BadPicture
from engine.images.layouts import llava_next
from engine.images.plan import Box, ImagePlan, Learned, Limits, Rows, Size, Text, View
from tests.engine.images.families import FAMILIES

SIZES = (Size(640, 480), Size(1024, 1024), Size(3000, 200), Size(31, 17))
ODD = (Size(1, 1), Size(1, 5000), Size(4000, 3000), Size(10000, 40), Size(40, 10000), Size(7, 1))
FREE = Limits()
# A marker is a token of its own; line ends count where they come from the rule.
MARKER = re.compile(r"<[^>]+>|\[[A-Z_]+\]|\n+")
# Tokens of a picture in the prompt (mllama: cells of the cross cache) and tiles (rows x columns).
TOKENS = {
    "gemma3": (260, 260, 260, 260),  # two of them are "\n\n" around
    "pixtral-12b": (1230, 4160, 325, 6),
    "mistral3": (432, 1406, 224, 3),
    "lighton-ocr": (414, 1369, 220, 2),
    "janus-pro": (578, 578, 578, 578),
    "qwen2.5-vl": (393, 1371, 751, 8),
    "glm-4.1v": (393, 1371, 751, 14),
    "paddleocr-vl": (393, 1371, 751, 211),
    "hunyuan-ocr": (319, 1060, 574, 280),
    "qwen3-vl": (302, 1026, 566, 68),
    "mllama": (3202, 6404, 6404, 1601),
    "llama4": (727, 2467, 1452, 147),
    "smolvlm": (862, 1127, 332, 862),
    "idefics3-8b": (2227, 2912, 857, 2227),
    "smolvlm-2.2b": (1083, 1416, 417, 1083),
    "llava-1.5": (576, 576, 576, 576),
    "llava-1.6": (2340, 2928, 868, 1656),
    "internvl": (3330, 2562, 3330, 770),
    "lfm2-vl": (236, 1287, 2817, 68),
    "kimi-vl": (417, 1092, 867, 5),
    "minicpm-v": (198, 463, 330, 66),
    "minicpm-v-4.6": (209, 439, 312, 68),
    "gemma4": (268, 258, 258, 266),
    "gemma4-70": (65, 66, 66, 68),
    "gemma4-1120": (1066, 1091, 1034, 1082),
}
# What the picture is resized to before tiles are cut, the last step; and the arrangement of tiles.
RESIZED = {
    "gemma3": ("896x896",) * 4,
    "pixtral-12b": ("640x480", "1024x1024", "1024x80", "32x32"),
    "mistral3": ("644x504", "1036x1036", "1540x112", "56x28"),
    "lighton-ocr": ("644x504", "1036x1036", "1540x112", "56x28"),
    "janus-pro": ("384x288", "384x384", "384x26", "384x211"),
    "qwen2.5-vl": ("644x476", "1036x1036", "2996x196", "84x56"),
    "glm-4.1v": ("644x476", "1036x1036", "2996x196", "112x84"),
    "paddleocr-vl": ("644x476", "1036x1036", "2996x196", "532x308"),
    "hunyuan-ocr": ("640x480", "1024x1024", "3008x192", "704x384"),
    "qwen3-vl": ("640x480", "1024x1024", "3008x192", "352x192"),
    "mllama": ("640x480", "1024x1024", "2240x149", "560x307"),
    "llama4": ("640x480", "1024x1024", "3000x200", "336x184"),
    "smolvlm": ("2048x1536", "2048x2048", "2048x512", "2048x1536"),
    "idefics3-8b": ("1456x1092", "1456x1456", "1456x364", "1456x1092"),
    "smolvlm-2.2b": ("1536x1152", "1536x1536", "1536x384", "1536x1152"),
    "llava-1.5": ("336x336",) * 4,
    "llava-1.6": ("672x504", "672x672", "1008x68", "613x336"),
    "internvl": ("1792x1344", "1344x1344", "5376x448", "896x448"),
    "lfm2-vl": ("576x416", "1024x1024", "5120x512", "352x192"),
    "kimi-vl": ("640x480", "897x897", "3000x200", "31x17"),
    "minicpm-v": ("728x546", "1092x1092", "3472x224", "602x336"),
    "minicpm-v-4.6": ("784x560", "1008x1120", "3360x224", "616x336"),
    "gemma4": ("912x672", "768x768", "3072x192", "1056x576"),
}
PADDLE = ["2128x84", "56x2912", "196x840", "168x924", "476x336"]
KIMI = [
    ("31x17", "56x28"),
    ("1036x777", "1036x784"),
    ("7168x10", "7168x28"),
    ("21x7168", "28x7168"),
    ("904x905", "924x924"),
]
MINICPM = [(2, 2), (2, 3), (3, 2), (1, 2), (1, 5)]
TILES = {
    "mllama": ((1, 2), (2, 2), (1, 4), (1, 1)),
    "llama4": ((2, 2), (4, 4), (1, 9), (1, 1)),
    "smolvlm": ((3, 4), (4, 4), (1, 4), (3, 4)),
    "idefics3-8b": ((3, 4), (4, 4), (1, 4), (3, 4)),
    "smolvlm-2.2b": ((3, 4), (4, 4), (1, 4), (3, 4)),
    "llava-1.6": ((2, 2), (2, 2), (1, 3), (1, 2)),
    "internvl": ((3, 4), (3, 3), (1, 12), (1, 2)),
    "lfm2-vl": ((1, 1), (2, 2), (1, 10), (1, 1)),
    "minicpm-v": ((1, 2), (2, 3), (1, 4), (1, 1)),
}


def tokens(plan: ImagePlan) -> int:
    """Rows and markers of a prompt; texts that touch are one text."""
    if plan.cross:
        return plan.rows
    assert not any(
        isinstance(a, Text) and isinstance(b, Text)
        for a, b in zip(plan.pieces, plan.pieces[1:], strict=False)
    )
    texts = (piece.text for piece in plan.pieces if isinstance(piece, Text))
    return plan.rows + sum(len(MARKER.findall(text)) for text in texts)


def arrangement(plan: ImagePlan) -> tuple[int, int]:
    tiles = [view for view in plan.views if view.role != "overview"] or list(plan.views)
    return max(view.row for view in tiles) + 1, max(view.col for view in tiles) + 1


@pytest.mark.parametrize("family", FAMILIES)
def test_published_sizes(family: str) -> None:
    plans = [FAMILIES[family](size, FREE) for size in SIZES]
    assert tuple(map(tokens, plans)) == TOKENS[family]
    if family in RESIZED:
        tiles = [next((v for v in p.views if v.role == "tile"), p.views[0]) for p in plans]
        assert tuple(str(view.steps[-1]) for view in tiles) == RESIZED[family]
    if family in TILES:
        assert tuple(map(arrangement, plans)) == TILES[family]


def test_steps_before_the_last() -> None:
    """Idefics resizes twice, and makes its overview of the stretched picture."""
    plan = FAMILIES["smolvlm"](Size(3000, 200), FREE)
    assert plan.views[0].steps == ((2048, 136), (2048, 512))
    assert plan.views[-1].steps == ((2048, 136), (2048, 512), (512, 512))
    assert FAMILIES["smolvlm"](Size(31, 17), FREE).views[0].steps[0] == (2048, 1124)  # not 1123


def test_qwens_cap_in_rows() -> None:
    plan = FAMILIES["qwen2.5-vl"](Size(1024, 1024), Limits(rows=1280))
    assert (plan.views[0].size, plan.rows, plan.advance) == ((980, 980), 1225, 35)
    assert plan.notes == ("reduced from 1369 to 1225 rows by the limit",)
    assert FAMILIES["qwen2.5-vl"](Size(640, 480), Limits(rows=1280)).notes == ()


@pytest.mark.parametrize("size", [Size(10000, 40), Size(40, 10000), Size(201, 1)])
def test_qwen_refuses_long_pictures(size: Size) -> None:
    with pytest.raises(BadPicture, match="times the other; this model takes up to 200"):
        FAMILIES["qwen3-vl"](size, FREE)
    assert FAMILIES["qwen3-vl"](Size(200, 1), FREE).rows > 0


def test_paddles_small_pictures_are_enlarged_side_by_side() -> None:
    """By the published processor."""
    sizes = (Size(359, 12), Size(11, 621), Size(5, 25), Size(3, 16), Size(40, 27))
    views = [FAMILIES["paddleocr-vl"](size, FREE).views[0] for size in sizes]
    assert [str(view.size) for view in views] == PADDLE


def test_januss_pictures_lie_in_the_middle_and_keep_some_height() -> None:
    """By the published processor."""
    views = [FAMILIES["janus-pro"](size, FREE).views[0] for size in (Size(3000, 31), Size(7, 501))]
    placed = [(str(view.steps[-1]), view.offset) for view in views]
    assert placed == [("384x14", (0, 185)), ("14x384", (185, 0))]


def test_kimis_pictures_are_padded_to_whole_cells() -> None:
    """By the published processor, also where many or long patches are too many."""
    sizes = (Size(31, 17), Size(4000, 3000), Size(20000, 30), Size(27, 9000), Size(1300, 1301))
    views = [FAMILIES["kimi-vl"](size, FREE).views[0] for size in sizes]
    assert [(str(view.steps[-1]), str(view.size)) for view in views] == KIMI


def test_minicpms_slices_may_be_one_fewer_or_more_than_pixels_need() -> None:
    sizes = (Size(1000, 950), Size(1024, 1024), Size(900, 1500), Size(460, 440), Size(2000, 350))
    plans = [FAMILIES["minicpm-v"](size, FREE) for size in sizes]
    assert [arrangement(plan) for plan in plans] == MINICPM


def cell(view: View, row: int) -> Box:
    """The rectangle of a view that one of its rows stands for."""
    y, x = divmod(row - view.extras, view.grid.w)
    w, h = view.size.w / view.grid.w, view.size.h / view.grid.h
    return Box(x * w, y * h, (x + 1) * w, (y + 1) * h)


def area(box: Box) -> float:
    return max(box.right - box.left, 0) * max(box.bottom - box.top, 0)


def shared(a: Box, b: Box) -> float:
    return area(Box(*map(max, a[:2], b[:2]), *map(min, a[2:], b[2:])))


def check(plan: ImagePlan, size: Size) -> None:
    """What holds for every plan: each row of each view is in the prompt once, or is padding; one
    that stands for no place may end each line.
    """
    seen: Counter[tuple[int, int]] = Counter()
    for piece in plan.pieces:
        if isinstance(piece, Rows):
            assert piece.count > 0
            seen.update((piece.view, piece.first + k) for k in range(piece.count))
    learned = sum(isinstance(piece, Learned) for piece in plan.pieces)
    made = {(n, row) for n, view in enumerate(plan.views) for row in range(view.rows)}
    assert set(seen) <= made
    assert all(n == 1 or row < plan.views[view].extras for (view, row), n in seen.items())
    assert plan.cross or plan.rows == seen.total() + learned
    for n, row in made - set(seen):
        view = plan.views[n]
        if not plan.cross:  # a row that is left out may see the picture's edge, not more
            assert shared(cell(view, row), view.content) < 0.99 * area(cell(view, row))
    for view in plan.views:
        assert view.original == size
        assert min(*view.size, *(side for step in view.steps for side in step)) >= 1
        left, top, right, bottom = view.source
        assert 0 <= left <= right <= size.w
        assert 0 <= top <= bottom <= size.h


@pytest.mark.parametrize("family", FAMILIES)
def test_any_size(family: str) -> None:
    """1000 sizes: rows and pieces agree, and one view alone can be asked for."""
    draw = random.Random(family)
    sizes = [
        Size(round(2 ** draw.uniform(0, 13)), round(2 ** draw.uniform(0, 13))) for _ in range(1000)
    ]
    for number, size in enumerate((*ODD, *sizes)):
        try:
            plan = FAMILIES[family](size, FREE)
        except BadPicture:
            assert family.startswith(("qwen", "lfm2", "glm", "minicpm", "paddleocr", "hunyuan"))
            continue
        if number % 10 == 0:
            check(plan, size)
        assert plan.cross or plan.rows == sum(
            piece.count if isinstance(piece, Rows) else 1
            for piece in plan.pieces
            if not isinstance(piece, Text)
        )
        if not plan.causal:
            assert all(isinstance(piece, Rows | Text) for piece in plan.pieces)
        if plan.advance is not None:
            assert plan.advance == max(plan.views[0].grid)
        assert len(FAMILIES[family](size, Limits(one_view=True)).views) == 1


TILED = ("llama4", "smolvlm", "llava-1.6", "internvl")


@pytest.mark.parametrize("rows", [2400, 1000, 300])
@pytest.mark.parametrize(
    "family",
    ["pixtral-12b", "mistral3", "qwen2.5-vl", "hunyuan-ocr", "qwen3-vl", *TILED, "gemma4-1120"],
)
def test_limits_of_rows_hold(family: str, rows: int) -> None:
    """What a family can reduce is within the limit, and at least half of what it allows."""
    size = Size(1800, 1300)
    plan, free = FAMILIES[family](size, Limits(rows=rows)), FAMILIES[family](size, FREE)
    smallest = FAMILIES[family](size, Limits(rows=1)).rows
    assert plan.rows <= max(rows, smallest)
    if free.rows > rows >= smallest:
        assert plan.notes == (f"reduced from {free.rows} to {plan.rows} rows by the limit",)
        assert family in TILED or plan.rows > 0.7 * rows
    else:
        assert free.rows <= rows or plan.rows == smallest


def test_where_views_look() -> None:
    """The rectangle of the original that a view shows: tiles, padding, margins."""
    plan = FAMILIES["llava-1.6"](Size(640, 480), FREE)  # 672x504 in the middle of 672x672
    overview, first, second = plan.views[:3]
    assert overview.source == (0, 0, 640, 480)
    assert first.content == (0, 84, 336, 336)
    assert first.source == pytest.approx((0, 0, 320, 240))
    assert second.source == pytest.approx((320, 0, 640, 240))
    assert plan.pieces[1] == Rows(1, 6 * 24, 24)
    assert plan.pieces[2:4] == (Rows(2, 6 * 24, 24), Learned("image_newline"))
    view = FAMILIES["mllama"](Size(640, 480), FREE).views[1]
    assert view.offset == (-560, 0)
    assert view.source == (560, 0, 640, 480)
    assert (view.rows, view.extras, view.grid) == (1601, 1, (40, 40))
    view = FAMILIES["llava-1.5"](Size(200, 101), FREE).views[0]
    assert view.margin == (0, 49, 0, 50)
    assert view.content == pytest.approx((0, 49 * 1.68, 336, 150 * 1.68))
    assert view.source == pytest.approx((0, 0, 200, 101))


def test_halves_round_to_even() -> None:
    """A side of 70 is 2.5 cells of 28."""
    plan = FAMILIES["qwen2.5-vl"](Size(70, 98), FREE)
    assert plan.views[0].size == (56, 112)


def test_of_equally_near_aspects_the_larger_wins() -> None:
    """InternVL: a square takes 3x3 tiles from 2 x 3 x 3 x 448 x 448 / 4 pixels on."""
    grids = [
        arrangement(FAMILIES["internvl"](Size(side, side), FREE)) for side in (633, 634, 950, 951)
    ]
    assert grids == [(1, 1), (2, 2), (2, 2), (3, 3)]


def test_of_canvases_that_keep_all_pixels_the_smallest_wins() -> None:
    for canvases in ([Size(672, 672), Size(336, 672)], [Size(336, 672), Size(672, 672)]):
        plan = llava_next(Size(300, 300), FREE, edge=336, patch=14, canvases=canvases)
        assert arrangement(plan) == (2, 1)


def spelled(family: str, size: Size) -> str:
    """The pieces in order, rows as {view}."""
    plan = FAMILIES[family](size, FREE)
    return "".join(p.text if isinstance(p, Text) else f"{{{p.view}}}" for p in plan.pieces)


def test_markers_stand_where_the_families_have_them() -> None:
    start, image, end, x, y = (
        f"<|{name}|>"
        for name in ("image_start", "image", "image_end", "tile_x_separator", "tile_y_separator")
    )
    assert spelled("llama4", Size(300, 200)) == f"{start}{image}{{0}}{end}"
    assert spelled("llama4", Size(1000, 600)) == (
        f"{start}{{0}}{x}{{1}}{x}{{2}}{y}{{3}}{x}{{4}}{x}{{5}}{y}{image}{{6}}{end}"
    )
    fake = "<fake_token_around_image>"
    tiles = [f"{fake}<row_{r}_col_{c}>{{{r - 1}}}\n" for c in (1,) for r in (1, 2, 3, 4)]
    assert spelled("smolvlm", Size(20, 100)) == (f"{''.join(tiles)}\n{fake}<global-img>{{4}}{fake}")
    assert spelled("pixtral-12b", Size(40, 30)) == "{0}[IMG_BREAK]{0}[IMG_END]"
    assert spelled("internvl", Size(31, 17)) == "<img>{0}{1}{2}</img>"
    assert spelled("gemma3", Size(5, 5)) == "\n\n<start_of_image>{0}<end_of_image>\n\n"
    assert spelled("qwen3-vl", Size(5, 5)) == "<|vision_start|>{0}<|vision_end|>"
    assert spelled("mllama", Size(5, 5)) == image
