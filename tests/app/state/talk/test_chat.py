"""One chat with the real engine: every way to ask, and what is kept of it."""

import logging
from pathlib import Path

import pytest

from app.state.talk.disk.store import ChatStore
from app.state.talk.tokens import Tokens
from app.state.workbench import Workbench
from engine.protocol import Sampling
from tests.app.state.conftest import Until

pytestmark = pytest.mark.model_file
GREEDY = Sampling(temperature=0.0)


@pytest.fixture
def chat_bench(open_bench: Workbench) -> Workbench:
    open_bench.chat.details.set_system("")
    open_bench.chat.details.set_sampling(GREEDY)
    return open_bench


def ask(bench: Workbench, until: Until, text: str = "Say one word.", tokens: int = 8) -> None:
    """Ask, and stop after some tokens where the answer is not over by then."""
    assert bench.chat.send(text)
    until(lambda: not bench.chat.busy or bench.chat.path[-1].n_tokens >= tokens)
    bench.chat.stop()
    until(lambda: not bench.chat.busy)


def texts(bench: Workbench) -> list[str]:
    return [message.text for message in bench.chat.path]


def logprobs_of(tokens: Tokens) -> list[float | None]:
    return [tokens[n].logprob for n in range(len(tokens))]


def kept(bench: Workbench) -> list[str]:
    """The path as a window that opens the chat later sees it."""
    return [m.text for m in bench.chat.store.tree(bench.chat.chat_id or 0).path()]


def test_send(chat_bench: Workbench, until: Until) -> None:
    chat, heard = chat_bench.chat, []
    connections = [
        chat.message_added.connect(lambda row: heard.append(("added", row))),
        chat.tokens_appended.connect(lambda row, first: heard.append(("tokens", row, first))),
        chat.message_changed.connect(lambda row: heard.append(("changed", row))),
        chat.busy_changed.connect(lambda busy: heard.append(("busy", busy))),
    ]
    assert chat.send("What is the capital of France?\nOne word.")
    assert chat.answering == 1
    assert [m.role for m in chat.path] == ["user", "assistant"]
    until(lambda: not chat.busy)
    for connection in connections:
        chat.disconnect(connection)
    assert heard[:3] == [("added", 0), ("added", 1), ("busy", True)]
    appended = [event[2] for event in heard if event[0] == "tokens"]
    assert appended == sorted(set(appended))
    assert heard[-2:] == [("busy", False), ("changed", 1)]
    answer, tokens = chat.path[1], chat.tokens(1)
    assert "France" in answer.text
    assert (answer.finish, answer.model) == ("stop", chat_bench.session.model_name)
    assert answer.stats is not None
    assert answer.seed == answer.stats.seed
    assert len(tokens) == answer.n_tokens > 0
    assert "".join(answer.text[tokens.start(n) : tokens.end(n)] for n in range(len(tokens))) == (
        answer.text
    )
    for n in range(len(tokens)):
        assert tokens[n].text == answer.text[tokens.start(n) : tokens.end(n)]
        assert len(tokens[n].top) == 10
        assert tokens[n].top[0].token == tokens[n].token  # greedy
    assert (chat.details.title, chat.answering) == ("What is the capital of France?", None)
    assert kept(chat_bench) == texts(chat_bench)
    assert chat_bench.chats.rows[0].title == chat.details.title
    assert chat_bench.session.vitals.n_context == answer.stats.n_context
    assert chat.context.used == answer.stats.n_prompt + answer.n_tokens
    assert chat.context.counted
    assert chat_bench.session.model is not None
    assert chat.context.n_ctx == chat_bench.session.model.n_ctx


def test_regenerate_and_choose(chat_bench: Workbench, until: Until) -> None:
    chat, changed = chat_bench.chat, []
    ask(chat_bench, until)
    ask(chat_bench, until, "And another.")
    connection = chat.path_changed.connect(changed.append)
    first = chat.path[1].text
    chat.details.set_sampling(Sampling(temperature=2.0, seed=5))
    assert chat.regenerate(1)
    assert (len(chat.path), chat.path[1].place, chat.path[1].siblings) == (2, 1, 2)
    until(lambda: not chat.busy or chat.path[1].n_tokens > 8)
    chat.stop()
    until(lambda: not chat.busy)
    assert chat.path[1].seed == 5
    assert chat.path[1].text != first
    chat.choose_sibling(1, -1)
    assert (len(chat.path), chat.path[1].text) == (4, first)
    chat.choose_sibling(1, -1)  # there is none
    chat.choose_sibling(1, 1)
    assert (len(chat.path), chat.path[1].place) == (2, 1)
    assert changed == [1, 1, 1]
    chat.disconnect(connection)
    assert kept(chat_bench) == texts(chat_bench)


def test_edit(chat_bench: Workbench, until: Until) -> None:
    chat = chat_bench.chat
    ask(chat_bench, until, "one")
    ask(chat_bench, until, "two")
    assert chat.edit_and_resend(2, "three")
    until(lambda: not chat.busy or chat.path[3].n_tokens > 3)
    chat.stop()
    until(lambda: not chat.busy)
    assert [(m.text, m.place) for m in chat.path if m.role == "user"] == [("one", 0), ("three", 1)]
    assert chat.edit_and_resend(1, "my own words")
    assert [m.text for m in chat.path] == ["one", "my own words"]
    assert (chat.path[1].finish, len(chat.tokens(1)), chat.busy) == ("edited", 0, False)
    assert chat.continue_answer(1)  # a text without tokens goes on by its words
    until(lambda: not chat.busy or chat.path[1].n_tokens > 3)
    chat.stop()
    until(lambda: not chat.busy)
    tokens = chat.tokens(1)
    assert chat.path[1].text.startswith("my own words")
    assert (tokens.begin, tokens.start(0)) == (len("my own words"),) * 2
    assert kept(chat_bench) == texts(chat_bench)


def test_stopped_and_continued_is_as_never_stopped(
    chat_bench: Workbench, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    chat = chat_bench.chat
    assert chat.send("Write a sentence about the sea.")
    until(lambda: not chat.busy)
    chat.regenerate(
        1
    )  # the prompt's last token on its own, as below: other kernels round otherwise
    until(lambda: not chat.busy)
    whole, ids, logprobs = chat.path[1].text, chat.tokens(1).ids, logprobs_of(chat.tokens(1))
    assert len(ids) > 8
    chat.regenerate(1)
    until(lambda: chat.path[1].n_tokens >= 3)
    chat.stop()
    until(lambda: not chat.busy)
    assert chat.path[1].finish == "cancelled"
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]  # it is no failure
    assert 3 <= chat.path[1].n_tokens < len(ids)
    assert chat.continue_answer(1)
    assert chat.path[1].siblings == 3  # in its place
    until(lambda: not chat.busy)
    again = chat.tokens(1)
    alike = next((i for i, token in enumerate(again.ids) if [token] != ids[i : i + 1]), len(ids))
    # Another slot may read more of the prompt again, by kernels that round otherwise.
    assert logprobs_of(again)[:alike] == pytest.approx(logprobs[:alike], abs=0.05)
    if alike < len(ids):  # a near tie, which fell the other way
        shares = {choice.token: choice.logprob for choice in again[alike].top}
        assert shares[ids[alike]] == pytest.approx(shares[again.ids[alike]], abs=0.05)
    whole = chat.path[1].text
    assert chat.path[1].stats is not None
    assert chat.path[1].stats.n_cached > 0

    ask(chat_bench, until, "More.")
    assert chat.continue_answer(1)  # something follows: a copy goes on
    assert (len(chat.path), chat.path[1].siblings) == (2, 4)
    until(lambda: not chat.busy)
    assert chat.path[1].text.startswith(whole)
    assert kept(chat_bench) == texts(chat_bench)


def test_branch_from_a_token(chat_bench: Workbench, until: Until) -> None:
    chat = chat_bench.chat
    assert chat.send("Write a sentence about the sea.")
    until(lambda: not chat.busy)
    before, old = chat.path[1], chat.tokens(1)
    at = 3
    other = old[at].top[1]
    assert chat.branch_from_token(1, at, 1)
    assert (chat.path[1].siblings, chat.path[1].text) == (2, before.text[: old.start(at)])
    until(lambda: not chat.busy)
    new = chat.tokens(1)
    assert new.ids[: at + 1] == [*old.ids[:at], other.token]
    assert chat.path[1].text.startswith(before.text[: old.start(at)] + other.text)
    assert new[at].logprob == pytest.approx(other.logprob)
    assert new[at].top == old[at].top
    assert len(new) > at + 1
    for n in range(len(new)):
        assert new[n].text == chat.path[1].text[new.start(n) : new.end(n)]
    chat.choose_sibling(1, -1)
    assert chat.path[1] is before
    assert chat.tokens(1).ids == old.ids


def test_an_answer_goes_on_in_a_chat_that_is_not_shown(chat_bench: Workbench, until: Until) -> None:
    chat = chat_bench.chat
    assert chat.send("Tell a long story.")
    until(lambda: chat.path[1].n_tokens > 1)
    writing = chat.chat_id
    running = chat.answer
    assert running is not None
    chat.open(None)
    assert (chat.path, chat.answering, chat.busy) == ([], None, False)  # nothing is written here
    n = len(running.tokens)
    until(lambda: len(running.tokens) > n + 2)
    assert (chat.answer, chat.path) == (running, [])
    chat.stop()  # of what is shown: nothing
    n = len(running.tokens)
    until(lambda: len(running.tokens) > n + 2)
    chat.open(writing)
    assert (chat.answering, chat.busy) == (1, True)
    assert chat.path[1].n_tokens >= n + 2
    n = chat.path[1].n_tokens
    until(lambda: chat.path[1].n_tokens > n + 2)
    chat.stop()
    chat.open(None)
    until(lambda: chat.answer is None)  # it ends where nobody sees it
    chat.open(writing)
    assert chat.path[1].finish == "cancelled"
    assert len(chat.tokens(1)) == chat.path[1].n_tokens > n
    assert kept(chat_bench) == texts(chat_bench)


def test_drafts_and_details_are_kept(chat_bench: Workbench, until: Until) -> None:
    chat, drafts = chat_bench.chat, []
    ask(chat_bench, until, "first")
    first = chat.chat_id
    chat.details.set_system("Be brief.")
    chat.details.set_draft("half a")
    connection = chat.details.draft_changed.connect(drafts.append)
    chat.open(None)
    chat.details.set_draft("unsent")
    # The system prompt is usual for the model now; numbers are this chat's until they are saved.
    assert chat.details.system == "Be brief."
    assert chat.details.sampling == chat.details.suggested.sampling != GREEDY
    chat.open(first)
    assert chat.details.sampling == GREEDY
    chat.set_title("named")
    chat.open(None)
    chat.disconnect(connection)
    assert drafts == ["", "half a", "unsent"]
    assert chat_bench.preferences.value.draft == "unsent"
    chat.details.set_draft("")
    chat.open(first)
    assert (chat.details.title, chat.details.system, chat.details.draft) == (
        "named",
        "Be brief.",
        "half a",
    )
    assert chat_bench.chats.rows[0].title == "named"


def test_delete_message(chat_bench: Workbench, until: Until) -> None:
    chat = chat_bench.chat
    ask(chat_bench, until, "one")
    ask(chat_bench, until, "two")
    chat.edit_and_resend(1, "other")
    assert chat.delete_message(1)
    assert [m.text for m in chat.path if m.role == "user"] == ["one", "two"]
    assert chat.delete_message(2)
    assert chat.delete_message(0)
    assert (chat.path, kept(chat_bench)) == ([], [])
    ask(chat_bench, until, "three")
    assert texts(chat_bench)[0] == "three"


def test_the_open_chat_renamed_and_deleted_in_the_list(chat_bench: Workbench, until: Until) -> None:
    chat, chats = chat_bench.chat, chat_bench.chats
    ask(chat_bench, until)
    number = chat.chat_id
    assert number is not None
    chats.rename(number, "other")
    assert chat.details.title == "other"
    chats.delete(number)
    assert (chat.chat_id, chat.path) == (None, [])
    assert chats.undo_delete() == number
    chat.open(number)
    assert len(chat.path) == 2


def test_nothing_to_say(chat_bench: Workbench) -> None:
    assert not chat_bench.chat.send(" \n ")
    assert chat_bench.chat.path == []


def test_an_error_of_the_engine_stays_with_the_answer(chat_bench: Workbench, until: Until) -> None:
    chat = chat_bench.chat
    chat.details.set_sampling(Sampling(temperature=-5.0))
    assert chat.send("hi")
    until(lambda: not chat.busy)
    chat.details.set_sampling(GREEDY)
    assert chat.path[1].finish == "failed"
    assert "temperature" in chat.path[1].problem
    assert chat_bench.session.status == "ready"
    assert chat.regenerate(1)
    until(lambda: not chat.busy)
    assert chat.path[1].finish == "stop"


def test_text_is_saved_while_it_is_written(
    chat_bench: Workbench, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.state.talk.answering.EVERY_MS", 200)
    chat, saves = chat_bench.chat, []
    real = ChatStore.save
    monkeypatch.setattr(ChatStore, "save", lambda self, m: (saves.append(m.text), real(self, m))[1])
    assert chat.send("Tell a long story.")
    until(lambda: len(saves) > 2)
    n = chat.path[1].n_tokens
    assert kept(chat_bench)[1] == saves[-1] != ""
    assert len(saves) < n
    chat.stop()
    until(lambda: not chat.busy)


def test_closed_while_answering(
    bench: Workbench, smollm2_path: Path, until: Until, tmp_path: Path
) -> None:
    bench.open_model(smollm2_path)
    assert bench.chat.send("Tell a long story.")  # waits for the model
    until(lambda: bench.chat.path[1].n_tokens > 2)
    text = bench.chat.path[1].text
    bench.close()
    store = ChatStore(tmp_path / "data" / "chats.sqlite")
    (chat,) = store.chats()
    question, answer = store.tree(chat.id).path()
    assert (answer.finish, answer.text) == ("cancelled", text)
    assert len(store.tokens(answer)) == answer.n_tokens
    store.close()
