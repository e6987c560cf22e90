"""What GLM's tower alone does: a picture with a side below a cell is enlarged to one first."""

from pathlib import Path

import pytest

from engine.images.plan import Limits, Size
from tests.engine.models.vision.test_goldens import tower_of


@pytest.mark.parametrize(
    ("size", "rows"), [(Size(1, 100), 100), (Size(140, 3), 47), (Size(98, 70), 35)]
)
def test_thin_pictures_are_enlarged_first(size: Size, rows: int, tmp_path: Path) -> None:
    """Sides of cells of 14 pixels; the rows follow from the published processor's arithmetic."""
    with tower_of("glm4v", tmp_path) as tower:
        assert tower.built.tower.plan(size, Limits()).rows == rows
