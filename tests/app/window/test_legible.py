"""Nothing is cut off or lies over something else, at any size of text and of the window; what does
something has a name, and the keyboard comes to it.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from app.window.main_window import MainWindow
from tests.app.helpers.painted import faults, overlapping
from tests.app.rest import come_to_rest
from tests.app.window import test_screenshots as scenes
from tests.app.window.scenes.reached import nameless, unreached

SCALES = (0.75, 1.0, 2.0)
SIZES = ((640, 700), (1024, 640), (1280, 800), (1600, 1000), (2560, 1440))
ALL = tuple((scale, size) for scale in SCALES for size in SIZES)
SOME = ()
WALKED = (
    *("empty", "answered", "table", "file", "failed", "preferences", "chooser", "palette"),
    *("word", "words_as_tables", "placed", "placed_table", "graph", "graph_table", "graph_source"),
    *("texts", "axes", "numbers", "numbers_stored", "attached", "pictured", "edited", "viewer"),
    "seen",
)
"""Scenes through which Tab goes; all others look alike to the keyboard."""
FULLEST = "|".join(
    (
        *("failed", "table", "file", "chooser", "preferences", "placed", "numbers", "pictured"),
        *("word", "graph", "measured", "texts", "report_gathered", "discover"),
    )
)
"""The scene of each view with most in it; the others run with `-m full`."""
TIGHTEST, *OTHERS = zip((2.0, 1.0, 1.0, 0.75, 1.0), SIZES, strict=True)


@pytest.mark.styled
@pytest.mark.full_cases(rf"\[(?!({FULLEST})-)")
@pytest.mark.parametrize(
    "looks", [SOME, pytest.param(ALL, marks=pytest.mark.full)], ids=["some", "all"]
)
@pytest.mark.parametrize("scene", scenes.SCENES, ids=lambda scene: scene.__name__)
def test_legible(
    window: MainWindow,
    scene: Callable[[MainWindow], None],
    looks: Sequence[tuple[float, tuple[int, int]]],
    tiny_path: Path,
    tmp_path: Path,
) -> None:
    window.setProperty("tiny", str(tiny_path))
    window.setProperty("folder", str(tmp_path))
    scene(window)
    come_to_rest(window, window.bench)
    found = [f"{name} has no name" for name in nameless(window)]
    if scene.__name__ in WALKED or looks:
        found += [f"the keyboard does not come to {widget}" for widget in unreached(window)]
    for scale, (width, height) in looks or _some(scenes.SCENES.index(scene)):
        window.bench.preferences.update(font_scale=scale)
        window.resize(width, height)
        come_to_rest(window, window.bench)
        wrong = {*faults(window), *overlapping(window)}
        found += [f"{scale} {width}: {text}" for text in sorted(wrong)]
    assert found == []


def _some(number: int) -> list[tuple[float, tuple[int, int]]]:
    """The tightest for each scene; for every third in turn one of the others."""
    turn, left = divmod(number, 3)
    return [TIGHTEST] if left else [TIGHTEST, OTHERS[turn % len(OTHERS)]]
