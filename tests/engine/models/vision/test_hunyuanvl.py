"""What HunyuanOCR's tower alone does: rows stand at column, row and the picture's number."""

from pathlib import Path

import numpy as np

from engine.images.plan import Limits, Size
from tests.engine.models.vision.prompts import prompt_of
from tests.engine.models.vision.test_goldens import tower_of
from tests.goldens.vision.store import load_cases


def test_rows_stand_at_column_row_and_number(tmp_path: Path) -> None:
    """The places that llama.cpp and the published code give them."""
    case = load_cases("hunyuanvl")["two"]
    places, is_row = prompt_of("hunyuanvl", case).places, case.ids < 0
    assert places is not None
    begins = np.flatnonzero(is_row & (np.roll(case.ids, 1) >= 0))
    with tower_of("hunyuanvl", tmp_path) as running:
        tower = running.built.tower
        for number, (begin, seen) in enumerate(zip(begins, case.seen, strict=True)):
            height, width = seen.picture.shape[:2]
            plan = tower.plan(Size(width, height), Limits())
            found = tower.places(plan, int(begin), number)
            np.testing.assert_array_equal(found, places[:, begin : begin + plan.rows])
