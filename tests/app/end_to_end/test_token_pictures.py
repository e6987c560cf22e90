"""A word about a picture, with the engine: patches of the shape asked about are lit in place."""

from pathlib import Path
from random import Random

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QColor
from PySide6.QtTest import QTest

from app.views.token.section import percent
from app.views.token.token import TokenView
from app.window.main_window import MainWindow
from tests.app.end_to_end.test_demo import ask, open_demo
from tests.app.helpers.seeing import until
from tests.demo.scenes import SIDE, draw
from tests.demo.test_looking import HEADS, LAYERS, SIDES, shape

CIRCLE, SQUARE = 6, 9  # their cells, counted from the top left


def apart(one: QColor, other: QColor) -> int:
    pairs = zip(one.getRgb()[:3], other.getRgb()[:3], strict=True)  # type: ignore[index]
    return max(abs(a - b) for a, b in pairs)


@pytest.mark.parametrize("form", ["circle", pytest.param("square", marks=pytest.mark.full)])
def test_the_patches_of_the_shape_asked_about_are_lit(
    first_window: MainWindow, tmp_path: Path, form: str
) -> None:
    window, bench, token = first_window, first_window.bench, first_window.bench.token
    shapes = {"circle": shape("circle", "red", CIRCLE), "square": shape("square", "blue", SQUARE)}
    mine, other = shapes.pop(form), next(iter(shapes.values()))
    picture = draw([mine, other], Random(1))
    picture.save(tmp_path / "shapes.png")
    open_demo(window)
    window.vision.add_files([tmp_path / "shapes.png"])
    until(lambda: bench.chat.attached.pictures)
    assert ask(window, f"What colour is the {form}?").strip(".") == mine.colour.capitalize()
    window.panes.show_tab("token")
    bench.selection.select_token(bench.chat.path[1].id, 0)
    until(lambda: token.inside is not None and token.inside.step is not None)
    inside, looked = token.inside, window.inspector.view(TokenView).looked_at
    assert inside is not None
    assert inside.context is not None
    assert inside.attention is not None

    # rows of the context
    (rows,) = inside.context.rows
    places = slice(rows.token, rows.token + rows.count)
    assert inside.context.ids[places].tolist() == [-1] * SIDES**2
    assert inside.lens is not None
    assert inside.lens.wanted_text.strip() == mine.colour.capitalize()
    heads = np.stack([inside.attention.rows[i] for i in range(LAYERS)])
    assert heads.shape[1] == HEADS
    cell = int(mine.y * SIDES // SIDE) * SIDES + int(mine.x * SIDES // SIDE)
    over = heads[:, :, places]
    finds = np.argwhere(over.argmax(-1) == cell)
    assert len(finds)
    layer, head = max(finds.tolist(), key=lambda found: over[found[0], found[1], cell])
    shares = over[layer, head]

    # the picture
    bench.selection.select_head(layer, head)
    until(lambda: token.head == head and looked.views.strengths)
    QTest.qWait(50)
    assert looked.isVisible()
    assert percent(float(shares.sum())) in looked.caption.text()
    strengths = looked.views.strengths
    assert strengths is not None
    assert len(strengths) == rows.count
    assert [strengths[0, n] for n in range(rows.count)] == pytest.approx(
        np.sqrt(shares / shares.max()), rel=1e-4
    )
    (area,) = looked.views.areas()
    grabbed = looked.views.grab().toImage()
    ratio = grabbed.devicePixelRatio()
    seen = {}
    for one in (mine, other):  # where it is drawn in the picture, that the tower sees stretched
        at = QPointF(
            area.left() + one.x / SIDE * area.width(), area.top() + one.y / SIDE * area.height()
        )
        colour = grabbed.pixelColor((at * ratio).toPoint())
        seen[one.form] = apart(colour, QColor(*one.rgb))
        row = round((strengths[0, looked.views.cell_at(at)[1]]) ** 2 * 1e6)  # type: ignore[index]
        own = int(one.y * SIDES // SIDE) * SIDES + int(one.x * SIDES // SIDE)
        assert row == pytest.approx(shares[own] / shares.max() * 1e6, abs=2)
        QTest.mouseMove(looked.views, at.toPoint() - QPoint(1, 1))
        QTest.mouseMove(looked.views, at.toPoint())
        column, line = own % SIDES + 1, own // SIDES + 1
        said = f"Patch {column} from the left, {line} from the top: {percent(shares[own])}"
        assert looked.views.accessibleDescription() == said
    assert seen[mine.form] < 24  # as it was drawn
    assert seen[other.form] > 24  # in the shade

    # the list of sources and the keyboard
    lines = window.inspector.view(TokenView).attention.list.lines
    named = [line for line in lines if line.text == "Picture 1"]
    assert [line.share for line in named] == [pytest.approx(float(shares.sum()), rel=1e-4)]
    looked.views.setFocus()
    QTest.keyClick(looked.views, Qt.Key.Key_Home)
    assert looked.views.accessibleDescription().startswith("Patch 1 from the left, 1 from the top")
