"""Tokens painted by how sure the model was, and branches from them."""

from collections.abc import Callable
from math import exp, log

import numpy as np
import pytest
from msgspec.structs import replace
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.theme.theme import Theme
from app.theme.tokens import THEMES, contrast
from app.views.talk.message import MessageView
from app.views.talk.probabilities import TokenAnswer, band, entropy, visible
from app.widgets.tokens.bands import (
    BANDS,
    DRAFT_BANDS,
    LOOKS,
    band_colour,
    band_of_entropy,
    band_of_probability,
)
from engine.protocol import Alternative, Generate, Piece, TokenInfo
from tests.app.helpers.gui import Talk
from tests.app.helpers.painted import texts
from tests.app.helpers.scripted import ScriptedEngine, token

Ask = Callable[..., None]
DRAFTED_OTHER = {"source": "ngram", "drafted": " other"}


def tokens_of(talk: Talk, row: int) -> TokenAnswer:
    view = talk.chat.column.require(row)
    assert isinstance(view, MessageView)
    assert view.tokens is not None
    QApplication.processEvents()
    return view.tokens


@pytest.fixture
def painted(talk: Talk, engine: ScriptedEngine) -> TokenAnswer:
    """An answer of three tokens, painted."""
    talk.bench.chat.send("Q")
    engine.write("A", chance=0.99)
    engine.write(" cat", chance=0.4)
    engine.write("\nsat", chance=0.02)
    engine.end(n=3)
    talk.chat.toggle_probabilities()
    return tokens_of(talk, 1)


def test_entropy_is_shannons() -> None:
    shares = np.array([0.5, 0.2, 0.2])
    top = [Alternative(n, "x", log(p)) for n, p in enumerate(shares)]
    full = np.append(shares, 1 - shares.sum())
    assert entropy(top) == pytest.approx(float(-(full * np.log2(full)).sum()), abs=1e-9)
    assert entropy([Alternative(0, "x", 0.0)]) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("width", [300, 400, 700])
def test_each_band_of_the_legend_says_its_limits(
    talk: Talk, painted: TokenAnswer, width: int
) -> None:
    legend = talk.chat.legend
    for measure, count in (
        (legend.by_probability, len(BANDS)),
        (legend.by_entropy, len(BANDS)),
        (legend.by_draft, len(DRAFT_BANDS)),
    ):
        measure.click()
        talk.resize(width, 800)
        QApplication.processEvents()
        shown = texts(legend.scale)
        assert len(shown) == count
        for text, n in zip(shown, range(count), strict=True):
            assert legend.scale.area(n).adjusted(-1, -9, 1, 9).contains(text.area), (text, n)


def test_bands_cover_all_and_in_order() -> None:
    chances = np.linspace(1, 0, 200)
    found = [band_of_probability(float(p)) for p in chances]
    assert found == sorted(found)
    assert set(found) == set(range(len(BANDS)))
    bits = [band_of_entropy(float(b)) for b in np.linspace(0, 12, 200)]
    assert bits == sorted(bits)
    assert set(bits) == set(range(len(BANDS)))
    assert band(TokenInfo(1), "probability") is None


@pytest.mark.parametrize("name", THEMES)
def test_text_upon_every_band_is_legible_and_bands_differ_without_colour(
    theme: Theme, name: str
) -> None:
    theme.choose(name)
    for n in range(len(LOOKS)):
        assert contrast(THEMES[name].text, band_colour(n)) >= 4.5
    for bands in (range(len(BANDS)), DRAFT_BANDS):
        looks = [(LOOKS[n].width, LOOKS[n].dotted) for n in bands]  # of their underlines
        assert len(set(looks)) == len(bands)


def test_every_token_has_its_band(painted: TokenAnswer) -> None:
    painter = painted.painter
    assert painter.text == "A cat\nsat"
    assert painter.ends == [1, 5, 9]
    assert painter.bands == [band_of_probability(p) for p in (0.99, 0.4, 0.02)]


def test_the_mouse_finds_each_token(painted: TokenAnswer) -> None:
    painter = painted.painter
    for index in range(3):
        middle = painter.token_rect(index).center()
        assert painter.token_at(middle) == index
    assert painter.token_at(painter.token_rect(0).topLeft() - QPoint(0, 400)) is None


def test_alternatives_are_the_recorded_ones(talk: Talk, painted: TokenAnswer) -> None:
    place = painted.painter.token_rect(1).center().toPoint()
    QTest.mouseClick(painted.painter, Qt.MouseButton.LeftButton, pos=place)
    card = painted.card
    assert card is not None
    assert card.isVisible()
    assert card.title == "␣cat"
    recorded = talk.bench.chat.tokens(1)[1].top
    shown = {choice.text: choice.share for choice in card.choices}
    assert shown == {visible(a.text): pytest.approx(exp(a.logprob)) for a in recorded}
    shares = [choice.share for choice in card.choices]
    assert shares == sorted(shares, reverse=True)
    assert [choice.text for choice in card.choices if choice.taken] == ["␣cat"]
    assert "␣cat 40 %" in painted.painter.accessibleDescription()
    message = talk.bench.chat.path[1]
    assert talk.bench.selection.now.token == (message.id, 1)


def test_arrows_walk_over_tokens_and_enter_branches(
    talk: Talk, painted: TokenAnswer, engine: ScriptedEngine
) -> None:
    painter = painted.painter
    painter.setFocus(Qt.FocusReason.TabFocusReason)
    assert painter.place == 0
    for _ in range(5):
        QTest.keyClick(painter, Qt.Key.Key_Right)
    assert painter.place == 2
    QTest.keyClick(painter, Qt.Key.Key_Left)
    assert painter.place == 1
    card = painted.card
    assert card is not None
    QTest.keyClick(painter, Qt.Key.Key_Down)
    QTest.keyClick(painter, Qt.Key.Key_Down)
    wanted = card.choices[1].text
    QTest.keyClick(painter, Qt.Key.Key_Return)
    request = engine.last
    assert isinstance(request, Generate)
    assert not card.isVisible()
    message = talk.bench.chat.path[1]
    assert (message.siblings, message.place) == (2, 1)
    told = request.prefix_tokens[-1]
    named = [a.token for a in talk.bench.chat.tokens(1)[1].top if visible(a.text) == wanted]
    assert [told] == named
    assert request.prefix == "A"


def test_a_click_on_an_alternative_branches(
    talk: Talk, painted: TokenAnswer, engine: ScriptedEngine
) -> None:
    painted.painter.go_to(2)
    card = painted.card
    assert card is not None
    top = card.height() - 28 - 3 * card.line()
    QTest.mouseClick(card, Qt.MouseButton.LeftButton, pos=QPoint(60, top + 2 * card.line() + 8))
    request = engine.last
    assert isinstance(request, Generate)
    assert len(request.prefix_tokens) == 3


def test_by_entropy(talk: Talk, painted: TokenAnswer) -> None:
    talk.chat.legend.by_entropy.click()
    known = talk.bench.chat.tokens(1)
    expected = [band_of_entropy(entropy(known[n].top)) for n in range(3)]
    assert tokens_of(talk, 1).painter.bands == expected
    assert talk.chat.legend.by_entropy.isChecked()
    assert not talk.chat.legend.by_probability.isChecked()


def test_by_speculation(talk: Talk, engine: ScriptedEngine) -> None:
    """Accepted tokens have their source's look, also after a restart; the card says what was
    drafted where it was another token.
    """
    chat = talk.bench.chat
    chat.send("Q")
    told = [token("A", 0.9), token(" cat", 0.8), token(" sat", 0.7), token(" on", 0.6)]
    for info, marks in zip(
        told, ({}, {"source": "form"}, {"source": "ngram"}, DRAFTED_OTHER), strict=True
    ):
        engine.say(Piece(engine.last.id, info.text, [replace(info, **marks)]))
    engine.end(n=4)
    talk.chat.toggle_probabilities()
    talk.chat.legend.by_draft.click()
    assert tokens_of(talk, 1).painter.bands == list(DRAFT_BANDS)
    number = chat.chat_id
    chat.open(None)
    chat.open(number)
    answer = tokens_of(talk, 1)
    assert answer.painter.bands == list(DRAFT_BANDS)
    for index, words in ((1, "drafted by form, accepted"), (3, "n-gram drafted “␣other”, rank 3")):
        answer.painter.go_to(index)
        assert answer.card is not None
        assert words in answer.card.all_words


def test_tokens_are_painted_as_they_come(
    talk: Talk, painted: TokenAnswer, engine: ScriptedEngine
) -> None:
    talk.bench.chat.send("Again")
    engine.write("One", " two")
    shown = tokens_of(talk, 3)
    engine.write("\nthree", chance=0.05)
    assert shown.painter.text == "One two\nthree"
    assert shown.painter.bands[-1] == band_of_probability(0.05)
    engine.end()
    assert tokens_of(talk, 3).painter.ends == [3, 7, 13]


def test_the_answer_is_markdown_again_without_it(talk: Talk, painted: TokenAnswer) -> None:
    talk.chat.toggle_probabilities()
    view = talk.chat.column.require(1)
    assert isinstance(view, MessageView)
    assert view.tokens is None
    assert view.body is not None
    assert view.body.text == "A cat\nsat"
    assert talk.chat.legend.isHidden()


def test_wide_characters_keep_tokens_in_their_place(
    talk: Talk, engine: ScriptedEngine, qtbot: QtBot
) -> None:
    talk.bench.chat.send("Q")
    engine.write("😀", "é", " 你", "好", " end")
    engine.end()
    talk.chat.toggle_probabilities()
    painter = tokens_of(talk, 1).painter
    lefts = [painter.token_rect(n).left() for n in range(5)]
    assert lefts == sorted(lefts)
    assert len(set(lefts)) == 5


def test_a_branch_shows_the_chosen_token_by_itself_at_once(
    talk: Talk, painted: TokenAnswer, engine: ScriptedEngine
) -> None:
    chat = talk.bench.chat
    chosen = chat.tokens(1)[1].top[2]
    assert chat.branch_from_token(1, 1, 2)
    request = engine.last.id
    engine.say(Piece(request, chosen.text, []))  # what the chosen token says, in its own time
    engine.write(" dog")
    painter = tokens_of(talk, 1).painter
    assert painter.ends == [1, 1 + len(chosen.text), 5 + len(chosen.text)]
    assert painter.bands[1] == band_of_probability(exp(chosen.logprob))
    assert painter.token_at(painter.token_rect(1).center()) == 1
    talk.chat.toggle_probabilities()
    talk.chat.toggle_probabilities()
    again = tokens_of(talk, 1).painter
    assert (again.ends, again.bands) == (painter.ends, painter.bands)
