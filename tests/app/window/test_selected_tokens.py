"""Tokens and the one selection: chosen in an answer, by the legend and by the vitals, and shown."""

import re
from collections.abc import Callable

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.state.selection import Selected
from app.views.talk.message import MessageView
from app.widgets.tokens.text import TokenText
from app.window.main_window import MainWindow
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.helpers.seeing import until
from tests.app.window.selecting import LEFT, answer, press


def by_mouse(text: TokenText, index: int) -> None:
    QTest.mouseClick(text, LEFT, pos=text.token_rect(index).center().toPoint())


def by_keys(text: TokenText, index: int) -> None:
    text.setFocus()
    text.place = index - 1
    QTest.keyClick(text, Qt.Key.Key_Right)


@pytest.mark.parametrize("choose", [by_mouse, by_keys])
def test_a_token_is_selected_beside_a_place_and_found_again(
    window: MainWindow, client: ScriptedEngine, choose: Callable[[TokenText, int], None]
) -> None:
    selection, column = window.bench.selection, window.talk.chat.column
    message = window.bench.chat.path[1].id
    selection.select_layer(3)
    text = answer(window)
    choose(text, 390)
    assert selection.now == Selected((message, 390), layer=3)
    assert text.selected == 390
    assert "“word390” #391 › layer 3" in window.inspector.selection.caption.text()
    choose(text, 380)
    column.verticalScrollBar().setValue(0)
    press(window, Qt.Key.Key_Left)
    assert text.selected == 390
    area = text.token_rect(390)
    seen = text.mapTo(column.viewport(), area.center().toPoint())
    assert column.viewport().rect().contains(seen), "it is brought into view"
    press(window, Qt.Key.Key_Left)
    assert text.selected is None


@pytest.mark.parametrize("from_end", [False, True], ids=["from above", "from below"])
def test_all_of_a_token_is_brought_into_view(
    window: MainWindow, client: ScriptedEngine, from_end: bool
) -> None:
    column, message = window.talk.chat.column, window.bench.chat.path[1].id
    bar, text = column.verticalScrollBar(), answer(window)
    assert bar.maximum() > column.viewport().height() / 2
    bar.setValue(bar.maximum() if from_end else 0)
    seen = column.viewport().rect().translated(-text.mapTo(column.viewport(), QPoint(0, 0)))
    hidden = [n for n in range(400) if not seen.intersects(text.token_rect(n).toAlignedRect())]
    token = hidden[0] if from_end else hidden[-1]
    window.bench.selection.select_token(message, token)
    QApplication.processEvents()
    area = (
        text.token_rect(token)
        .toAlignedRect()
        .translated(text.mapTo(column.viewport(), QPoint(0, 0)))
    )
    assert column.viewport().rect().top() <= area.top()
    assert area.bottom() <= column.viewport().rect().bottom()


def by_band_mouse(window: MainWindow, band: int) -> None:
    scale = window.talk.chat.legend.scale
    QTest.mouseClick(scale, LEFT, pos=scale.area(band).center().toPoint())


def by_band_keys(window: MainWindow, band: int) -> None:
    scale = window.talk.chat.legend.scale
    scale.setFocus()
    for key in (Qt.Key.Key_Home, *[Qt.Key.Key_Right] * band, Qt.Key.Key_Return):
        QTest.keyClick(scale, key)


@pytest.mark.parametrize("choose", [by_band_mouse, by_band_keys])
def test_the_legend_of_tokens_goes_from_one_of_a_band_to_the_next(
    window: MainWindow, client: ScriptedEngine, choose: Callable[[MainWindow, int], None]
) -> None:
    assert window.bench.chat.send("More")
    for n in range(30):
        client.write(f" more{n}", chance=0.2 if n in (7, 21) else 0.95)
    client.end(n=30)
    until(lambda: 3 in window.talk.chat.column.live)
    message, found = window.bench.chat.path[3].id, []
    for _ in range(3):
        choose(window, 3)
        found.append(window.bench.selection.now.token)
    assert found == [(message, 7), (message, 21), (message, 7)]
    choose(window, 4)
    assert window.bench.selection.now.token == (message, 7), "there is none: it says so"


def test_vitals_select_the_answer_that_they_are_of(
    window: MainWindow, client: ScriptedEngine
) -> None:
    vitals, selection = window.top.vitals, window.bench.selection
    message, first = window.bench.chat.path[1].id, window.bench.chat.chat_id
    assert not vitals.marked
    QTest.mouseClick(vitals, LEFT)
    assert selection.now == Selected((message, 399))
    assert vitals.marked
    selection.clear()
    assert not vitals.marked
    window.bench.chat.open(None)
    vitals.setFocus()
    QTest.keyClick(vitals, Qt.Key.Key_Return)
    assert window.bench.chat.chat_id == first
    assert selection.now == Selected((message, 399))


SAID = """<think>
A cat is an animal.
</think>
# Cats

A **cat** is an [animal](https://cat.example/is-an-animal), &amp; a *pet*.

- It is `small`
- It is **not** a dog

```
cat = "animal"
```

| cat | dog |
|---|---|
| purrs | barks |

The last cat.
"""


@pytest.fixture
def said(window: MainWindow, client: ScriptedEngine) -> list[str]:
    """The tokens of an answer in Markdown that is shown as text."""
    window.bench.preferences.update(probabilities_shown=False)
    texts = re.findall(r"\s*\w+|\s*[^\w\s]+|\s+$", SAID)
    assert "".join(texts) == SAID
    assert window.bench.chat.send("What is a cat?")
    client.write(*texts)
    client.end(n=len(texts))
    QApplication.processEvents()
    return texts


def test_a_token_is_marked_in_its_message_where_that_is_shown_as_text(
    window: MainWindow, client: ScriptedEngine, said: list[str]
) -> None:
    message = window.bench.chat.path[3].id
    view = window.talk.chat.column.require(3)
    assert isinstance(view, MessageView)
    assert view.tokens is None
    assert view.body is not None
    assert view.thought is not None
    view.thought.toggle()
    QApplication.processEvents()
    after = said.index("\n</")  # the thought ends here
    unseen = [SAID.index(part) for part in ("<think>", "</think>", "(https://", "&amp;")]
    ends = [SAID.index(end, start) for start, end in zip(unseen, ">>);", strict=True)]
    begins, shown_words = 0, 0
    for n, text in enumerate(said):
        begins += len(text)
        marks = not text.strip().isalnum()
        if marks or any(a < begins <= b for a, b in zip(unseen, ends, strict=True)):
            continue  # not shown
        shown_words += 1
        window.bench.selection.select_token(message, n)
        shown = view.body if n > after else view.thought.text
        assert shown is not None
        assert shown.pointed_text == said[n].strip(), n
        other = view.thought.text if n > after else view.body
        assert other is not None
        assert other.pointed_text == ""
    assert shown_words == 30
    window.bench.selection.clear()
    assert view.body.pointed_text == ""
