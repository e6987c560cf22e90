"""Pixels of views against Pillow used by hand, and against the definition of the numbers."""

import numpy as np
import pytest
from PIL import Image

from engine.images.decode import Picture
from engine.images.plan import Limits, Size, View
from engine.images.resize import Resizer, Rule, normalised
from tests.engine.images.families import FAMILIES

FREE = Limits()
PLAIN = Rule("bicubic", (0.0, 0.0, 0.0), (1 / 255, 1 / 255, 1 / 255), fill=(1, 2, 3))


def picture(w: int, h: int) -> Picture:
    return Picture(np.random.default_rng(w * h).integers(0, 256, (h, w, 3), dtype=np.uint8))


def plain(view: View, shown: Picture) -> np.ndarray:
    """Levels of a view: what normalising leaves when it does nothing."""
    return np.rint(Resizer(shown, PLAIN).pixels(view)).astype(np.uint8)


def test_numbers() -> None:
    rule = Rule("bilinear", (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.2613, 0.2757))
    rgb = np.arange(256 * 3, dtype=np.uint8).reshape(16, 16, 3)
    exact = (rgb / 255 - np.array(rule.mean)) / np.array(rule.std)
    found = normalised(rgb, rule)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, exact.astype(np.float32))


def test_no_resize_changes_nothing() -> None:
    shown = picture(64, 48)
    view = FAMILIES["pixtral-12b"](shown.size, FREE).views[0]
    np.testing.assert_array_equal(plain(view, shown), shown.rgb)


@pytest.mark.parametrize("filter", ["bilinear", "bicubic", "lanczos"])
def test_one_resize_of_uint8(filter: str) -> None:
    shown = picture(61, 47)
    view = FAMILIES["gemma3"](shown.size, FREE).views[0]
    rule = Rule(filter, PLAIN.mean, PLAIN.std)  # type: ignore[arg-type]
    found = np.rint(Resizer(shown, rule).pixels(view)).astype(np.uint8)
    made = Image.fromarray(shown.rgb).resize((896, 896), Image.Resampling[filter.upper()])
    np.testing.assert_array_equal(found, np.asarray(made))


def test_tiles_are_cut_from_one_resized_picture() -> None:
    shown = picture(90, 40)
    plan = FAMILIES["llama4"](Size(90, 40), FREE)
    assert len(plan.views) == 1
    assert (plain(plan.views[0], shown)[149:] == (1, 2, 3)).all()  # 336x149 in the corner
    shown = picture(900, 400)
    plan = FAMILIES["llama4"](shown.size, FREE)  # 2 x 3 tiles, not resized
    tiles = [plain(view, shown) for view in plan.views[:6]]
    canvas = np.concatenate([np.concatenate(tiles[:3], 1), np.concatenate(tiles[3:], 1)])
    np.testing.assert_array_equal(canvas[:400, :900], shown.rgb)
    assert (canvas[400:] == (1, 2, 3)).all()
    assert (canvas[:, 900:] == (1, 2, 3)).all()
    small = Image.fromarray(shown.rgb).resize((336, 336), Image.Resampling.BICUBIC)
    np.testing.assert_array_equal(plain(plan.views[6], shown), np.asarray(small))


def test_two_steps() -> None:
    shown = picture(31, 17)
    plan = FAMILIES["smolvlm"](shown.size, FREE)
    bicubic = Image.Resampling.BICUBIC
    made = Image.fromarray(shown.rgb).resize((2048, 1124), bicubic).resize((2048, 1536), bicubic)
    found = plain(plan.views[6], shown)  # row 1, column 2
    np.testing.assert_array_equal(found, np.asarray(made)[512:1024, 1024:1536])
    overview = np.asarray(made.resize((512, 512), bicubic))
    np.testing.assert_array_equal(plain(plan.views[-1], shown), overview)


def test_margin_is_resized_with_the_picture() -> None:
    shown = picture(50, 31)
    view = FAMILIES["llava-1.5"](shown.size, FREE).views[0]
    square = Image.new("RGB", (50, 50), (1, 2, 3))
    square.paste(Image.fromarray(shown.rgb), (0, 9))
    made = square.resize((336, 336), Image.Resampling.BICUBIC)
    np.testing.assert_array_equal(plain(view, shown), np.asarray(made))


def test_picture_in_the_middle_of_its_canvas() -> None:
    shown = picture(640, 480)
    plan = FAMILIES["llava-1.6"](shown.size, FREE)
    resized = Image.fromarray(shown.rgb).resize((672, 504), Image.Resampling.BICUBIC)
    canvas = Image.new("RGB", (672, 672), (1, 2, 3))
    canvas.paste(resized, (0, 84))
    tile = np.asarray(canvas)[336:, :336]
    np.testing.assert_array_equal(plain(plan.views[3], shown), tile)


def test_tiles_in_a_row_cost_one_resize(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[int, int]] = []
    resize = Image.Image.resize

    def counted(image: Image.Image, size: tuple[int, int], *rest: object) -> Image.Image:
        made.append(size)
        return resize(image, size, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Image.Image, "resize", counted)
    shown = picture(40, 30)
    plan = FAMILIES["smolvlm"](shown.size, FREE)
    resizer = Resizer(shown, PLAIN)
    for view in plan.views:
        resizer.pixels(view)
    assert made == [(2048, 1536), (2048, 1536), (2048, 1536), (2048, 1536), (512, 512)]
