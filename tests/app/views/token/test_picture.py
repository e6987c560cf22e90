"""The patches of a picture are as bright as they were looked at, each at its place."""

from pathlib import Path

import msgspec
import numpy as np
import pytest
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.views.token.token import TokenView
from app.window.main_window import MainWindow
from engine.protocol import Examine, PlacedRows, ShowPicture
from tests.app.helpers import inside
from tests.app.helpers.seeing import attach, landscape, opened, show, whole

EXTRAS, PLACE = 1, 3  # of the view's embeddings those of no place; where the rows begin


def test_patches_are_lit_where_they_lie(window: MainWindow, tmp_path: Path) -> None:
    engine, bench = opened(window), window.bench
    (digest,) = attach(window, engine, landscape(tmp_path / "hills.png"), plan=whole)
    assert bench.chat.send("What is in the picture?")
    engine.write("A", " hill")
    engine.end(n=2)
    window.panes.show_tab("token")
    bench.selection.select_token(bench.chat.path[1].id, 1)
    bench.token.send()
    request = engine.last_of(Examine)
    assert isinstance(request, Examine)
    told = inside.examined(request)
    count = 257 + len(told.items.ids) // 4
    weights = np.full(count, 0.001, "<f4")
    weights[0] = 0.3
    for cell, share in ((37, 0.2), (200, 0.05)):
        weights[PLACE + EXTRAS + cell] = share
    assert told.attention is not None
    told = msgspec.structs.replace(
        told,
        items=_with_rows(told, PlacedRows(1, digest, 0, 0, 257, PLACE)),
        n_context=count,
        attention=msgspec.structs.replace(told.attention, mean=weights.tobytes()),
    )
    engine.say(told)
    asked = engine.last_of(ShowPicture)
    assert isinstance(asked, ShowPicture)
    assert asked.digest == digest
    show(engine, whole)
    shown = window.inspector.view(TokenView).looked_at
    assert shown.isVisible()
    assert "Picture 1 received" in shown.caption.text()
    strengths = shown.views.strengths
    assert strengths is not None
    assert max(strengths, key=lambda cell: strengths[cell]) == (0, 37)
    assert strengths[0, 37] == 1.0
    assert strengths[0, 200] == pytest.approx(0.5, rel=1e-4)
    picture = shown.views.grab().toImage()
    for cell in (37, 200):  # beside a patch that nobody looked at
        assert _light(shown, picture, cell) > 1.3 * _light(shown, picture, cell + 1)
    names = [line.text for line in window.inspector.view(TokenView).attention.list.lines]
    sources = window.inspector.view(TokenView).attention.list
    sources.picked.emit(names.index("Picture 1"))
    assert QApplication.focusWidget() is shown.views
    assert not shown.views.visibleRegion().isEmpty()
    bench.selection.select_token(bench.chat.path[1].id, 0)
    QTest.qWait(20)
    assert not shown.isVisible()


def test_the_windows_picture_of_the_view_has_all_of_it(window: MainWindow) -> None:
    window.panes.show_tab("token")
    view = window.inspector.view(TokenView)
    window.commands.run("view.copy_picture")
    copied = QGuiApplication.clipboard().image()
    own = view.picture()
    assert copied.size() == own.size()
    assert copied.height() > view.body.height()


def _with_rows(told: object, rows: PlacedRows) -> object:
    """The items with a picture's rows put in at their place; they stand for no text."""
    items = told.items  # type: ignore[attr-defined]
    ids, ends = np.frombuffer(items.ids, "<i4"), np.frombuffer(items.ends, "<i4")
    at = rows.token
    return msgspec.structs.replace(
        items,
        ids=np.insert(ids, at, [-1] * rows.count).astype("<i4").tobytes(),
        ends=np.insert(ends, at, [ends[at - 1]] * rows.count).astype("<i4").tobytes(),
        rows=[rows],
    )


def _light(shown: object, picture: object, cell: int) -> float:
    """How bright a patch is."""
    area = shown.views.cell_area((0, cell)).adjusted(2, 2, -2, -2).toRect()  # type: ignore[attr-defined]
    pixels = [
        picture.pixelColor(x, y).lightness()  # type: ignore[attr-defined]
        for x in range(area.left(), area.right())
        for y in range(area.top(), area.bottom())
    ]
    return sum(pixels) / len(pixels)
