"""How a preference reaches the engine's request, and how counts of drafts are shown."""

from pathlib import Path

from msgspec.structs import replace

from app.views.talk.statistics import details, summary
from engine.protocol import Generate
from engine.settings import AUTOMATIC
from tests.app.state.talk.test_saving import Window, window

__all__ = ["window"]


def test_requests_have_the_preference(window: Window) -> None:
    chat, preferences = window.bench.chat, window.bench.preferences
    for kind in ("auto", "none", "ngram"):
        preferences.update(speculation=kind)
        assert chat.send("Where?")
        (request,) = [one for one in window.engine.asked if isinstance(one, Generate)][-1:]
        assert request.speculation.type == kind
        window.engine.write("Here.")
        window.engine.end()


def test_requests_name_the_chat_unless_nothing_is_to_be_kept(window: Window) -> None:
    chat, preferences = window.bench.chat, window.bench.preferences
    for limit in (AUTOMATIC, 0, 5):
        preferences.update(kept_chats=limit)
        assert chat.send("Where?")
        (request,) = [one for one in window.engine.asked if isinstance(one, Generate)][-1:]
        assert request.chat == (str(chat.chat_id) if limit else None)
        window.engine.write("Here.")
        window.engine.end()


def test_an_answer_shows_what_was_drafted(window: Window, tmp_path: Path) -> None:
    chat = window.bench.chat
    assert chat.send("Where?")
    window.engine.write("Here.")
    window.engine.end()
    message = chat.path[1]
    assert message.stats is not None
    assert "draft" not in summary(message) + details(message)
    message.stats = replace(
        message.stats, n_generated=9, n_drafted=12, n_accepted=7, decode_s=2.0, saved_s=1.0
    )
    assert "7 of 12 drafted" in summary(message)
    assert "7 of 12 drafted tokens accepted, 1.50 times plain" in details(message)
