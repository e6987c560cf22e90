"""How many tokens a picture may take, chosen on its card."""

from pathlib import Path

import msgspec
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QMenu

from app.state.talk.message import Message
from app.views.talk.statistics import details
from app.widgets.pictures.card import Card
from app.window.main_window import MainWindow
from engine.protocol import (
    PictureLimits,
    PicturePart,
    PicturePlan,
    PictureStats,
    PutPicture,
    ShowPicture,
    Stats,
    TextPiece,
)
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.helpers.seeing import (
    attach,
    landscape,
    limited,
    opened,
    price,
    show,
    three,
    tiled,
    until,
    whole,
)
from tests.app.window.pictures.test_pictures import generate


@pytest.fixture
def engine(window: MainWindow) -> ScriptedEngine:
    """A model is open, and sees."""
    return opened(window)


def menu_of(card: Card) -> QMenu:
    """What a card offers, opened with the keyboard."""
    card.more_button.setFocus()
    QTest.keyClick(card.more_button, Qt.Key.Key_Return)
    (menu,) = (m for m in card.findChildren(QMenu) if m.isVisible())
    return menu


def test_a_picture_is_given_fewer_tokens(
    window: MainWindow, engine: ScriptedEngine, tmp_path: Path
) -> None:
    """What it costs follows at once; it stays with the message, and with the model."""
    path = landscape(tmp_path / "big.png", 960, 640)
    (digest,) = attach(window, engine, path)
    strip = window.talk.composer.attachments.strip
    assert not strip.cards[0].more_button.isVisible()  # not known yet
    price(engine)
    card = strip.cards[0]
    assert strip.stops() == [card, card.more_button, card.close_button]
    assert "Tokens of big.png: 475 tokens" in card.more_button.accessibleName()
    menu = menu_of(card)
    lines = [action.text().split("\t") for action in menu.actions()]
    assert lines == [
        ["Model default", "475 tokens"],
        ["At most 256 tokens", "133 tokens"],
        ["At most 64 tokens", "57 tokens"],
        ["Without tiles", "19 tokens"],
    ]
    assert [action.isChecked() for action in menu.actions()] == [True, False, False, False]
    QTest.keyClick(menu, Qt.Key.Key_Down)
    QTest.keyClick(menu, Qt.Key.Key_Return)
    half = PictureLimits(256)
    assert window.bench.chat.attached.pictures[0].limits == half
    assert "133 tokens" in card.accessibleName()
    assert window.bench.chat.pictures_in_engine.tokens(window.bench.chat.attached.pictures) == 133
    assert window.bench.chat.send("What is it?")
    assert generate(engine).messages[0].pictures == [PicturePart(digest, half)]
    engine.write("Hills.")
    engine.end()
    window.bench.chat.regenerate(1)
    assert generate(engine).messages[0].pictures == [PicturePart(digest, half)]
    engine.end()
    assert window.bench.chat.edit_and_resend(0, "And what is that?")
    assert generate(engine).messages[0].pictures == [PicturePart(digest, half)]
    engine.end()
    window.bench.chat.open(None)
    window.vision.add_files([landscape(tmp_path / "next.png", 960, 640, "#AA2222")])
    until(lambda: window.bench.chat.attached.pictures)
    assert window.bench.chat.attached.pictures[0].limits == half
    until(lambda: isinstance(engine.last_of(PutPicture), PutPicture))
    until(lambda: engine.last_of(PutPicture).limits == half)  # type: ignore[attr-defined]


def test_a_model_of_one_size_offers_nothing(
    window: MainWindow, engine: ScriptedEngine, tmp_path: Path
) -> None:
    attach(window, engine, three(tmp_path)[0], plan=whole)
    price(engine, lambda w, h, limits: whole(w, h))
    card = window.talk.composer.attachments.strip.cards[0]
    assert "260 tokens" in card.accessibleName()
    assert not card.more_button.isVisible()


def test_what_was_chosen_is_seen_so(
    window: MainWindow, engine: ScriptedEngine, tmp_path: Path
) -> None:
    attach(window, engine, three(tmp_path)[0])
    window.bench.chat.attached.limit(0, PictureLimits(one_view=True))
    window.commands.run("chat.seen")
    asked = engine.last_of(ShowPicture)
    assert isinstance(asked, ShowPicture)
    assert asked.limits == PictureLimits(one_view=True)
    show(engine, lambda w, h: limited(w, h, asked.limits))
    assert "without tiles" in window.sheets.viewer.seen.facts.text()


def test_what_cross_attention_holds_is_not_of_the_context(
    window: MainWindow, engine: ScriptedEngine, tmp_path: Path
) -> None:
    def crossed(width: int, height: int) -> PicturePlan:
        plan, only = tiled(width, height), [TextPiece("<|image|>")]
        return msgspec.structs.replace(plan, pieces=only, n_tokens=1, cross=True, seconds=None)

    attach(window, engine, three(tmp_path)[0], plan=crossed)
    card = window.talk.composer.attachments.strip.cards[0]
    assert "1 token  ·  80 embeddings outside the context" in card.accessibleName()
    assert window.bench.chat.pictures_in_engine.tokens(window.bench.chat.attached.pictures) == 1
    window.commands.run("chat.seen")
    show(engine, crossed)
    assert "80 embeddings of 320 patches outside the context" in (
        window.sheets.viewer.seen.facts.text()
    )
    seen = window.sheets.viewer.seen
    seen.strip.setFocus()
    QTest.keyClick(seen.strip, Qt.Key.Key_End)
    assert "Embedding 80 of 80, for other layers, outside the context" in seen.here.text()


def test_statistics_tell_tokens_and_what_is_beside_them() -> None:
    def told(tokens: int, rows: int, in_prompt: int) -> str:
        picture = PictureStats(1, "d", 9, 9, tokens, rows, [(9, 9)], 0.5)
        stats = Stats(
            9, 0, 1, 0, 0, 0, 0, 7, 9, encode_s=0.5, n_image_rows=in_prompt, pictures=[picture]
        )
        text = details(Message(1, 1, None, "assistant", stats=stats))
        return next(line for line in text.splitlines() if line.startswith("Encoded"))

    assert told(1, 6404, 1).endswith(": 1 token, and 6\u2009404 embeddings outside the context")
    assert told(260, 256, 256).endswith(": 256 tokens")
