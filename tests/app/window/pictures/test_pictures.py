"""Pictures in the window: given in every way, put in order, sent, kept, and looked at."""

from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFWriter
from PIL import Image
from PySide6.QtCore import QMimeData, QPoint, Qt, QUrl
from PySide6.QtGui import QGuiApplication, QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFileDialog

from app.fetch import bundled
from app.library import Stored
from app.state.problem import Problem
from app.state.talk.attached import MOST_PICTURES
from app.state.workbench import Workbench
from app.views.talk.pictures.attachments import NAMED
from app.widgets.overlays import Banner
from app.window.main_window import MainWindow
from engine.errors import WorkerDied
from engine.protocol import (
    Cancel,
    ChatMessage,
    Failed,
    Generate,
    Load,
    PicturePart,
    PlanPictures,
    PutPicture,
    TextPart,
)
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.helpers.seeing import (
    attach,
    bring,
    landscape,
    load_seeing,
    opened,
    price,
    three,
    tiled,
    until,
    whole,
)
from tests.app.window.test_drops import drag, drop, files
from tests.app.window.test_window import open_model

CONTROL, NONE = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.NoModifier


@pytest.fixture
def engine(window: MainWindow) -> ScriptedEngine:
    """A model is open, and sees."""
    return opened(window)


def names(window: MainWindow) -> list[str]:
    return [picture.name for picture in window.bench.chat.attached.pictures]


def generate(engine: ScriptedEngine) -> Generate:
    asked = engine.last_of(Generate)
    assert isinstance(asked, Generate)
    return asked


def test_files_and_folders_are_dropped_anywhere(
    window: MainWindow, engine: ScriptedEngine, tmp_path: Path
) -> None:
    paths = three(tmp_path)
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("2.jpg", "1.png", "notes.txt"):
        landscape(folder / "x.png").replace(folder / name)
    data = files(*paths[:2], folder)
    assert drag(window, data).isAccepted()
    assert window.drops.shade.isVisible()
    assert drop(window, data).isAccepted()
    until(lambda: len(names(window)) == 4)
    assert names(window) == ["a.png", "b.png", "1.png", "2.jpg"]
    bring(engine, tiled, 2)  # equal pictures are brought once
    composer = window.talk.composer
    cards = composer.attachments.strip.cards
    until(lambda: "tokens" in cards[3].accessibleName())
    assert cards[0].accessibleName() == (
        "a.png, picture 1 of 4, 320 × 240  ·  5 views, 95 tokens  ·  about 1.8 s"
    )
    assert "4 pictures  ·  " in composer.attachments.caption.text()
    assert composer.send_button.isEnabled()
    (share,) = window.bench.chat.context.shares
    assert share.draft
    assert share.counted
    assert share.tokens == window.bench.chat.pictures_in_engine.tokens(
        window.bench.chat.attached.pictures
    )


def test_what_is_dropped_without_a_file(window: MainWindow, engine: ScriptedEngine) -> None:
    data = QMimeData()
    image = QImage(5, 4, QImage.Format.Format_RGB32)
    image.fill(0xFF3366CC)
    data.setImageData(image)
    assert drag(window, data).isAccepted()
    assert drop(window, data).isAccepted()
    until(lambda: names(window))
    (info,) = bring(engine, tiled)
    assert (info.width, info.height) == (5, 4)
    web = QMimeData()
    web.setUrls([QUrl("https://example.org/cat.png")])
    assert not drag(window, web).isAccepted()


def test_pictures_are_pasted(window: MainWindow, engine: ScriptedEngine, tmp_path: Path) -> None:
    field = window.talk.composer.field
    picture = QImage(6, 4, QImage.Format.Format_ARGB32)
    for colour in (0xFF3366CC, 0xFFCC6633):  # two screenshots of one name are two pictures
        picture.fill(colour)
        QGuiApplication.clipboard().setImage(picture.copy())
        field.paste()
    until(lambda: len(names(window)) == 2)
    QGuiApplication.clipboard().setMimeData(files(*three(tmp_path)[:2]))
    field.paste()
    until(lambda: len(names(window)) == 4)
    assert names(window) == ["Pasted picture.png", "Pasted picture.png", "a.png", "b.png"]
    assert len({picture.hash for picture in window.bench.chat.attached.pictures}) == 4
    bring(engine, tiled, 4)


def test_several_are_chosen_in_a_dialog(
    window: MainWindow, engine: ScriptedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = [str(path) for path in three(tmp_path)]
    monkeypatch.setattr(QFileDialog, "getOpenFileNames", lambda *_: (chosen, ""))
    QTest.mouseClick(window.talk.composer.add, Qt.MouseButton.LeftButton)
    until(lambda: len(names(window)) == 3)
    bring(engine, tiled, 3)
    window.commands.run("chat.pictures")
    until(lambda: len(names(window)) == 6)


def test_another_order_and_fewer(
    window: MainWindow, engine: ScriptedEngine, tmp_path: Path
) -> None:
    attach(window, engine, *three(tmp_path))
    strip = window.talk.composer.attachments.strip
    strip.cards[0].setFocus()
    QTest.keyClick(strip.cards[0], Qt.Key.Key_Right, CONTROL)
    assert names(window) == ["b.png", "a.png", "c.png"]
    assert strip.cards[1].hasFocus()
    QTest.keyClick(strip.cards[1], Qt.Key.Key_Right)
    assert strip.cards[2].hasFocus()
    QTest.keyClick(strip.cards[2], Qt.Key.Key_Left, CONTROL)
    assert names(window) == ["b.png", "c.png", "a.png"]
    first, last = strip.cards[0], strip.cards[2]
    start = first.rect().center()
    QTest.mousePress(first, Qt.MouseButton.LeftButton, NONE, start)
    for share in (0.2, 0.6, 1.0):  # the pointer goes from the first card to the last
        way = last.geometry().center() - first.geometry().center()
        QTest.mouseMove(first, start + QPoint(round(way.x() * share), round(way.y() * share)))
    assert strip.cards[0] is not first  # the others have made room
    QTest.mouseRelease(first, Qt.MouseButton.LeftButton, NONE, first.rect().center())
    assert sorted(names(window)) == ["a.png", "b.png", "c.png"]
    assert names(window) != ["b.png", "c.png", "a.png"]
    order = names(window)
    strip.cards[1].setFocus()
    QTest.keyClick(strip.cards[1], Qt.Key.Key_Delete)
    assert names(window) == [order[0], order[2]]
    QTest.mouseClick(strip.cards[0].close_button, Qt.MouseButton.LeftButton)
    assert names(window) == [order[2]]
    assert not window.sheets.viewer.isVisible()


def test_sent_in_order_kept_and_found_again(
    window: MainWindow, engine: ScriptedEngine, tmp_path: Path
) -> None:
    digests = attach(window, engine, *three(tmp_path)[:2])
    strip = window.talk.composer.attachments.strip
    strip.cards[0].setFocus()
    QTest.keyClick(strip.cards[0], Qt.Key.Key_Right, CONTROL)
    field = window.talk.composer.field
    field.set_text("Which is larger?")
    QTest.keyClick(field, Qt.Key.Key_Return)
    (message,) = generate(engine).messages
    parts = [PicturePart(digests[1]), PicturePart(digests[0]), TextPart("Which is larger?")]
    assert message == ChatMessage("user", parts)
    assert names(window) == []
    assert not window.talk.composer.attachments.isVisible()
    until(lambda: window.talk.chat.column.widget(0) is not None)
    view = window.talk.chat.column.widget(0)
    tiles = [card.accessibleName().split(",")[0] for card in view.pictures.cards]  # type: ignore[union-attr]
    assert tiles == ["b.png", "a.png"]
    engine.write("The first.")
    engine.end()
    chat = window.bench.chat.chat_id
    bench = Workbench(ScriptedEngine())  # as after a restart
    bench.chat.open(chat)
    question, answer = bench.chat.path
    assert [picture.name for picture in question.pictures] == ["b.png", "a.png"]
    assert answer.text == "The first."
    sizes = [Image.open(bench.chat.pictures_in_engine.path(p)).size for p in question.pictures]
    assert sizes == [(240, 320), (320, 240)]
    bench.close()


def test_a_picture_alone_is_a_question(
    window: MainWindow, engine: ScriptedEngine, tmp_path: Path
) -> None:
    (digest,) = attach(window, engine, three(tmp_path)[0])
    QTest.keyClick(window.talk.composer.field, Qt.Key.Key_Return)
    assert generate(engine).messages == [ChatMessage("user", [PicturePart(digest)])]
    assert window.bench.chat.details.title == "a.png"
    engine.end()
    assert window.bench.chat.edit_and_resend(0, "What is it?")
    parts = [PicturePart(digest), TextPart("What is it?")]
    assert generate(engine).messages == [ChatMessage("user", parts)]


def test_what_the_engine_lost_is_brought_again(
    window: MainWindow, engine: ScriptedEngine, tmp_path: Path
) -> None:
    (digest,) = attach(window, engine, three(tmp_path)[0])
    assert window.bench.chat.send("What is it?")
    asked = generate(engine)
    engine.say(Failed(asked.id, "UnknownPicture", f"no picture {digest}", [digest]))
    (info,) = bring(engine, tiled)
    assert info.digest != digest
    again = generate(engine)
    assert again.id != asked.id
    assert again.messages[0].pictures == [PicturePart(info.digest)]
    engine.say(Failed(again.id, "UnknownPicture", "not again", [info.digest]))
    assert window.bench.chat.path[1].finish == "failed"  # it is not asked for ever


def test_a_fresh_engine_is_brought_them_too(
    window: MainWindow, engine: ScriptedEngine, tmp_path: Path
) -> None:
    attach(window, engine, three(tmp_path)[0])
    assert window.bench.chat.send("What is it?")
    engine.die(WorkerDied(None, "it was killed"))
    assert window.bench.chat.path[1].finish == "died"
    assert window.bench.chat.regenerate(1)
    load_seeing(engine)
    (info,) = bring(engine, tiled)
    assert generate(engine).messages[0].pictures == [PicturePart(info.digest)]


def test_stopped_before_the_engine_has_them(
    window: MainWindow, engine: ScriptedEngine, tmp_path: Path
) -> None:
    attach(window, engine, three(tmp_path)[0])
    window.bench.session.restart()
    load_seeing(engine)
    n = len(engine.asked)
    assert window.bench.chat.send("What is it?")
    stage = window.bench.session.stage
    assert stage is not None
    assert stage.name == "decode"
    assert window.talk.composer.send_button.text() == "Stop"
    window.commands.run("chat.stop")
    assert window.bench.chat.path[1].finish == "cancelled"
    until(lambda: any(isinstance(r, PutPicture) for r in engine.asked[n:]))
    bring(engine, tiled)
    assert not any(isinstance(r, Generate | Cancel) for r in engine.asked[n:])


def test_another_model_counts_anew(
    window: MainWindow, engine: ScriptedEngine, tmp_path: Path
) -> None:
    attach(window, engine, three(tmp_path)[0])
    (picture,) = window.bench.chat.attached.pictures
    # The engine stays: it holds the picture still.
    window.bench.session.unload()
    window.bench.open_model(Path("/models/gemma.gguf"))
    load_seeing(engine, "Gemma 3")
    assert window.bench.chat.pictures_in_engine.plan(picture) is None
    asked = [r for r in engine.asked if isinstance(r, PlanPictures) and engine.waits_for(r.id)]
    assert {size for request in asked for size in request.sizes} == {(320, 240)}
    price(engine, lambda w, h, limits: whole(w, h))
    assert window.bench.chat.pictures_in_engine.choices(picture)[1:] == []
    assert window.bench.chat.pictures_in_engine.tokens([picture]) == 260
    assert "260 tokens" in window.talk.composer.attachments.strip.cards[0].accessibleName()


def banner(window: MainWindow) -> Banner:
    return next(
        b
        for b in window.talk.notices.findChildren(Banner)
        if "pictures" in b.text or "vision model" in b.text
    )


def test_a_model_that_cannot_see_offers_what_lies_beside(
    window: MainWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, beside = tmp_path / "Seer.gguf", tmp_path / "mmproj-Seer.gguf"
    engine = open_model(window, path)
    asks = len(engine.asked)
    assert not drag(window, files(landscape(tmp_path / "cat.png"))).isAccepted()
    (text,) = window.talk.notices.texts
    assert text.startswith(
        "Seer does not support pictures: no vision file is loaded. cat.png was not"
    )
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (str(beside), ""))
    press(banner(window), "Choose a vision file (mmproj)…")
    until(lambda: len(engine.asked) > asks or window.talk.notices.texts)
    window.bench.session.cancel_load()
    stored = Stored("seer", (path,), 5, "own", False, "llama", "F16", projector=beside)
    window.bench.library.models = [stored]
    QGuiApplication.clipboard().setImage(QImage(4, 4, QImage.Format.Format_RGB32))
    window.talk.composer.field.paste()
    assert "without its vision file" in banner(window).text
    heard: list[tuple[Path, object]] = []
    monkeypatch.setattr(window.bench, "open_model", lambda *a: heard.append(a))
    press(banner(window), "Load mmproj-Seer.gguf")
    ((opened, options),) = heard
    assert (opened, options.mmproj) == (path, str(beside))  # type: ignore[attr-defined]
    assert names(window) == []


def press(banner: Banner, words: str) -> None:
    from app.widgets.basics import Button

    (button,) = (b for b in banner.findChildren(Button) if b.text() == words)
    button.click()


def gguf(path: Path, architecture: str) -> Path:
    """A file that says what it is, and no more."""
    writer = GGUFWriter(path, architecture)
    writer.add_uint32(f"{architecture}.block_count", 1)
    writer.add_tensor("v.post_ln.weight", np.zeros(32, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_vision_file_dropped_is_loaded_with_the_model(
    window: MainWindow, tiny_path: Path, tmp_path: Path
) -> None:
    projector = gguf(tmp_path / "any name.gguf", "clip")
    drag(window, files(projector))
    drop(window, files(projector))
    until(lambda: window.talk.notices.texts)
    assert "is a vision file. Open the model it belongs to" in window.talk.notices.texts[0]
    engine = open_model(window, tiny_path)
    drag(window, files(projector))
    drop(window, files(projector))
    load = engine.last_of(Load)
    until(lambda: engine.last_of(Load) is not load)
    load = engine.last_of(Load)
    assert isinstance(load, Load)
    assert (load.path, load.options.mmproj) == (str(tiny_path), str(projector))
    assert window.bench.options_for(tiny_path).mmproj == str(projector)  # also the next time
    load_seeing(engine)
    assert window.vision.sees


def test_a_bad_file_says_why(window: MainWindow, engine: ScriptedEngine, tmp_path: Path) -> None:
    bad = tmp_path / "cut.png"
    bad.write_bytes(landscape(tmp_path / "whole.png").read_bytes()[:200])
    window.vision.add_files([bad])
    until(lambda: any(isinstance(r, PutPicture) for r in engine.asked))
    put = engine.last_of(PutPicture)
    engine.say(Failed(put.id, "BadPicture", "picture: the file is cut off; send it again"))
    composer = window.talk.composer
    text = "cut.png: the file is cut off; send it again. Remove it to send the message."
    assert composer.attachments.caption.text() == text
    composer.field.set_text("What is it?")
    assert not composer.send_button.isEnabled()
    QTest.keyClick(composer.field, Qt.Key.Key_Return)
    assert window.bench.chat.path == []
    composer.attachments.strip.cards[0].removed.emit()
    assert composer.send_button.isEnabled()
    (tmp_path / "empty.png").write_bytes(b"")
    window.vision.add_files([tmp_path / "empty.png", tmp_path / "gone.png"])
    until(lambda: "gone.png" in " ".join(window.talk.notices.texts))
    (told,) = window.talk.notices.texts
    assert "empty.png" in told, "the reason of each"
    assert names(window) == []


def test_every_bad_picture_has_its_reason(
    window: MainWindow, engine: ScriptedEngine, tmp_path: Path
) -> None:
    whole = landscape(tmp_path / "whole.png").read_bytes()
    for name, size in (("cut.png", 200), ("short.png", 300)):
        (tmp_path / name).write_bytes(whole[:size])
    window.vision.add_files([tmp_path / "cut.png", tmp_path / "short.png"])
    for count, reason in ((1, "the file is cut off"), (2, "the file is damaged")):
        until(lambda: len([r for r in engine.asked if isinstance(r, PutPicture)]) == count)  # noqa: B023
        put = engine.last_of(PutPicture)
        engine.say(Failed(put.id, "BadPicture", f"picture: {reason}"))
    says = window.talk.composer.attachments.caption.text()
    assert "cut.png: the file is cut off" in says
    assert "short.png: the file is damaged" in says
    assert says.endswith("Remove them to send the message.")


def test_the_welcome_page_offers_a_model_that_sees(
    window: MainWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only where its files came with the program."""
    engine = window.bench.engine
    assert isinstance(engine, ScriptedEngine)
    model, projector = tmp_path / "shapes.gguf", tmp_path / "mmproj-shapes.gguf"
    monkeypatch.setattr(bundled, "model", lambda: model)
    monkeypatch.setattr(bundled, "projector", lambda: projector)
    welcome = window.talk.welcome
    welcome.refresh()
    assert not welcome.demo.isVisible()
    for path in (model, projector):
        path.write_bytes(b"")
    welcome.refresh()
    assert welcome.demo.isVisible()
    drag(window, files(landscape(tmp_path / "cat.png")))
    press(banner(window), "Try a vision model")
    load = engine.last_of(Load)
    assert isinstance(load, Load)
    assert (load.path, load.options.mmproj) == (str(model), "")  # it lies beside
    window.bench.session.cancel_load()


def test_a_message_takes_a_hundred_pictures_and_says_so(
    window: MainWindow, engine: ScriptedEngine, tmp_path: Path
) -> None:
    """Of those on their way a few are named; none is lost without a word."""
    paths = [tmp_path / f"{n}.png" for n in range(MOST_PICTURES + 20)]
    for path in paths:
        Image.new("RGB", (8, 8), "#9CC7E8").save(path)
    attached, problems = window.bench.chat.attached, list[Problem]()
    attached.problem.connect(problems.append)
    attached.add_files(paths)
    cards = window.talk.composer.attachments.strip.cards
    assert len(cards) == NAMED + 1
    assert cards[-1].accessibleName().startswith(f"{MOST_PICTURES - NAMED} more")
    until(lambda: not attached.arriving)
    assert names(window) == [path.name for path in paths[:MOST_PICTURES]]
    assert len(window.talk.composer.attachments.strip.cards) == MOST_PICTURES
    attached.add_data("pasted", paths[0].read_bytes)
    assert [problem.text for problem in problems] == [
        "a message takes at most 100 pictures; 20 left out",
        "a message takes at most 100 pictures; 1 left out",
    ]
