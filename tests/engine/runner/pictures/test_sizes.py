"""Pictures of every size, from their files to an answer: seen as planned, or refused in words."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from engine.errors import BadPicture
from engine.images.plan import Limits, Size
from engine.protocol import PicturePart
from engine.runner.pictures.items import PictureRow
from tests.engine.images.files import saved
from tests.engine.runner.pictures.seeing import answer, noise, says, seeing, sequence_of, viewer_of

SIZES = (Size(1, 1), Size(31, 17), Size(4000, 3000), Size(10000, 40))
ROWS = {
    "gemma3": (16, 16, 16, 16),
    "idefics3": (4 * 17, 4 * 13, 4 * 13, 4 * 5),
    "qwen25vl": (2 * 2, 3 * 2, 18 * 13, "picture of 10000x40.* 200"),
    "llava_next": (16 + 4 * 5, 52, 70, 16),
    "mllama": (37, 37, 4 * 37, 4 * 37),
}
"""Of each size in turn, or what is said of one that the family cannot see."""


@cache
def file(size: Size) -> bytes:
    """A photo's file, or a small drawing's."""
    coarse = Image.fromarray(noise(size.w, *(min(side, 64) for side in size)))
    return saved(coarse.resize(size), "JPEG" if size.w == 4000 else "PNG")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("family", ROWS)
def test_a_picture_is_seen_as_planned_or_refused(family: str, tmp_path: Path) -> None:
    with seeing(tmp_path, family, is_single=family == "mllama") as model:
        viewer = viewer_of(model)
        for size, expected in zip(SIZES, ROWS[family], strict=True):
            picture = viewer.album.put(file(size))
            chat = [says(PicturePart(picture.digest), "what is it")]
            sequence = sequence_of(model)
            if isinstance(expected, str):
                with pytest.raises(BadPicture, match=expected):
                    answer(model, sequence, chat)
                continue
            _, end = answer(model, sequence, chat, n=2)
            plan = viewer.plan(size, Limits())
            (told,) = end.stats.pictures
            assert (told.width, told.height, told.n_rows) == (*size, expected)
            rows = [item for item in sequence.items if isinstance(item, PictureRow)]
            n_rows = 1 if plan.cross else plan.rows
            assert len(rows) == end.stats.n_image_rows == n_rows
            made = viewer.store.take(rows[0].picture).rows
            assert len(made) == sum(view.rows for view in plan.views)
            assert np.isfinite(made).all()
            assert made.any(axis=1).all()
