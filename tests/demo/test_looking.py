"""Where the model that comes with the program looks, asked about one of two shapes of a picture."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray

from app.fetch import bundled
from engine.inside.token.library import look
from engine.protocol import Examined
from engine.runner import load
from engine.runner.api import Model
from tests.demo.scenes import COLOURS, SIDE, Shape, draw

SIDES = 4  # cells a side; a row of the context stands for one
LAYERS, HEADS = 6, 6
CELL = SIDE / SIDES
PLACES = ((0, 10), (5, 15), (10, 3), (15, 0), (3, 12), (12, 5))  # of the circle and the square


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    mmproj = str(bundled.projector())
    with load(bundled.model(), device="host", ctx=512, mmproj=mmproj) as model:
        yield model


def shape(form: str, colour: str, cell: int) -> Shape:
    """A small one in the middle of a cell, which holds all of it."""
    row, column = divmod(cell, SIDES)
    at = (column + 0.5) * CELL, (row + 0.5) * CELL
    return Shape(form, colour, "small", *at, 7.0, COLOURS[colour])


def asked(model: Model, form: str, places: tuple[int, int]) -> Examined:
    circle, square = shape("circle", "red", places[0]), shape("square", "blue", places[1])
    picture = draw([circle, square], Random(1))
    question = f"What colour is the {form}?"
    layers = [*range(LAYERS)]
    return look(model, question, images=[picture], lens=True, attention_layers=layers)


def over_cells(found: Examined) -> NDArray[np.float32]:
    """[layers, heads, cells]: how the word's heads look at each cell of the picture."""
    (rows,) = found.items.rows
    ids = np.frombuffer(found.items.ids, "<i4")
    assert (rows.view, rows.first, rows.count) == (0, 0, SIDES**2)
    assert np.flatnonzero(ids == -1).tolist() == [*range(rows.token, rows.token + rows.count)]
    assert found.attention is not None
    told = [np.frombuffer(found.attention.rows[i], "<f4") for i in range(LAYERS)]
    heads = np.stack(told).reshape(LAYERS, HEADS, -1)
    np.testing.assert_allclose(heads.sum(-1), 1, atol=1e-5)
    return heads[:, :, rows.token : rows.token + rows.count]


def test_a_head_looks_at_the_shape_that_is_asked_about(model: Model) -> None:
    """The same one, wherever that shape is and whichever of the two it is."""
    finds = np.ones((LAYERS, HEADS), bool)
    share, elsewhere = 0.0, 0.0
    for places in PLACES:
        for form, colour, cell in (("circle", "Red", places[0]), ("square", "Blue", places[1])):
            found = asked(model, form, places)
            assert found.lens is not None
            assert found.lens.texts[found.lens.wanted].strip() == colour
            cells = over_cells(found)
            finds &= cells.argmax(-1) == cell
            share += cells[..., cell].mean() / (2 * len(PLACES))
            elsewhere += cells.mean() / (2 * len(PLACES))
    print(f"found by (layer, head) {np.argwhere(finds).tolist()}; {share:.4f} of {elsewhere:.4f}")
    assert finds.any()
    assert share > 2 * elsewhere
