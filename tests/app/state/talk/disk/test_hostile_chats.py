"""Chat files that somebody made to do harm: refused with a sentence, or taken in and harmless."""

import base64
import json
import os
import random
import sqlite3
import threading
from array import array
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.state.talk.answer import Answer
from app.state.talk.chats import ChatList
from app.state.talk.context import context_use
from app.state.talk.disk import exchange
from app.state.talk.disk.chat_file import BadChatFile, read_chat_file
from app.state.talk.disk.exchange import as_json, as_markdown, import_chat
from app.state.talk.disk.store import ChatStore
from app.views.talk.chat_rows import period
from app.widgets.numbers import duration, local_time, mib
from engine.errors import Cancelled
from tests.app.helpers.mutate import mutated
from tests.app.state.conftest import Until

Json = dict[str, Any]


def column(code: str, *numbers: float) -> str:
    return base64.b64encode(array(code, [int(n) if code == "i" else n for n in numbers])).decode()


def good() -> Json:
    """A chat that has everything a file may have."""
    return {
        "format": "cutaway-chat",
        "version": 1,
        "title": "Cats",
        "system": "Be brief.",
        "sampling": {"temperature": 0.5, "top_k": 5, "seed": 7},
        "messages": [
            {"role": "user", "text": "What?", "created": 1.7e9},
            {
                "role": "assistant",
                "text": "A cat.",
                "parent": 0,
                "chosen": True,
                "created": 1.7e9,
                "model": "m",
                "finish": "stop",
                "stats": {
                    "n_prompt": 3, "n_cached": 0, "n_generated": 2, "tokenize_s": 0.1,
                    "prefill_s": 0.1, "first_token_s": 0.1, "decode_s": 0.1, "seed": 5,
                    "n_context": 5, "notes": ["a picture was left out"],
                    "pictures": [{
                        "number": 1, "digest": "0f", "width": 64, "height": 48, "n_tokens": 258,
                        "n_rows": 256, "views": [[64, 48]], "encode_s": 0.1,
                    }],
                },
                "tokens": {
                    "begin": 0, "k": 1, "ids": column("i", 4, 5), "ends": column("i", 2, 6),
                    "logprobs": column("f", -0.5, -1.0), "top_ids": column("i", 4, -1),
                    "top_logprobs": column("f", -0.5, 0), "texts": {"4": "A ", "5": "cat."},
                },
            },
            {"role": "assistant", "text": "A pet.", "parent": 0},
            {"role": "user", "text": "More?", "parent": 1},
        ],
    }  # fmt: skip


def changed(*keys: str | int, to: Any) -> Json:
    """A good chat with one thing in it replaced."""
    chat = good()
    place: Any = chat
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = to
    return chat


M, T, S = "messages", "tokens", "stats"
REFUSED = {
    "a time after all calendars": changed(M, 0, "created", to=1e308),
    "a time in nanoseconds": changed(M, 0, "created", to=1e18),
    "a time before them": changed(M, 0, "created", to=-1.0),
    "a time too large for JSON": json.dumps(changed(M, 0, "created", to=0)).replace(
        '"created": 0', '"created": 1e999'
    ),
    "a seed of 65 bits": changed("sampling", "seed", to=1 << 64),
    "a seed below 0": changed("sampling", "seed", to=-1),
    "a temperature": changed("sampling", "temperature", to=1e300),
    "a seed that drew an answer": changed(M, 1, S, "seed", to=1 << 64),
    "a count below 0": changed(M, 1, S, "n_prompt", to=-1),
    "a count of 70 bits": changed(M, 1, S, "n_generated", to=1 << 70),
    "seconds without end": changed(M, 1, S, "decode_s", to=1e300),
    "a picture's width of 70 bits": changed(M, 1, S, "pictures", 0, "width", to=1 << 70),
    "a picture's view below 0": changed(M, 1, S, "pictures", 0, "views", to=[[64, -1]]),
    "a parent of 70 bits": changed(M, 1, "parent", to=1 << 70),
    "a parent that comes later": changed(M, 1, "parent", to=3),
    "a long title": changed("title", to="x" * 1001),
    "a long name of a model": changed(M, 1, "model", to="x" * 1001),
    "a message of 5 MB": changed(M, 0, "text", to="x" * (5 << 20)),
    "a surrogate": json.dumps(changed(M, 0, "text", to="@")).replace("@", r"\ud800"),
    "tokens beyond the text": changed(M, 1, T, "ends", to=column("i", 2, 99)),
    "tokens that go back": changed(M, 1, T, "ends", to=column("i", 6, 2)),
    "tokens before the text": changed(M, 1, T, "begin", to=-1),
    "tokens that begin behind their end": changed(M, 1, T, "begin", to=5),
    "a token below 0": changed(M, 1, T, "ids", to=column("i", -4, 5)),
    "alternatives below -1": changed(M, 1, T, "top_ids", to=column("i", -2, 5)),
    "a chance above 1": changed(M, 1, T, "logprobs", to=column("f", 3e38, 0)),
    "an alternative's chance": changed(M, 1, T, "top_logprobs", to=column("f", float("nan"), 0)),
    "a negative k": changed(M, 1, T, "k", to=-1),
    "a k of 80 bits": changed(M, 1, T, "k", to=1 << 80),
    "a text of no token": changed(M, 1, T, "texts", to={str(1 << 70): "x"}),
    "a token of a megabyte": changed(M, 1, T, "texts", to={"4": "x" * (1 << 20)}),
    "deep in something unknown": '{"x": ' + "[" * 100_000,
    "deep in a message": json.dumps(good())[:-2] + ', {"x": ' + '{"a":' * 100_000,
    "deep in the list": '{"format": "cutaway-chat", "version": 1, "messages": ' + "[" * 100_000,
    "closed deep in a message": json.dumps(changed(M, 0, "x", to="@")).replace(
        '"@"', "[" * 50_000 + "]" * 50_000
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(what: str, store: ChatStore, tmp_path: Path) -> None:
    path, value = tmp_path / "chat.json", REFUSED[what]
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    with pytest.raises(BadChatFile) as caught:
        import_chat(store, path)
    assert "is not a Cutaway chat (" in str(caught.value)
    assert len(str(caught.value)) < 400
    assert rows(tmp_path) == (0, 0)


def test_the_good_one_is_taken_in(store: ChatStore, tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(good()))
    assert_harmless(store, import_chat(store, path))
    assert [m.text for m in store.tree(1).path()] == ["What?", "A cat.", "More?"]


@pytest.mark.timeout(30)
def test_what_is_no_file(store: ChatStore, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    for path, problem in (
        (tmp_path / "pipe.json", "not a regular file"),
        (Path("/dev/zero"), "not a regular file"),
        (tmp_path / "a\0b.json", "null"),
    ):
        with pytest.raises(BadChatFile, match=problem):
            import_chat(store, path)


def assert_harmless(store: ChatStore, chat_id: int) -> None:
    """What the window and the engine do with a chat can be done with this one."""
    chat, tree = store.chat(chat_id), store.tree(chat_id)
    assert chat is not None
    chat.sampling.check()
    path = tree.path()
    for message in tree.messages.values():
        local_time(message.created)
        tokens = store.tokens(message)
        for n in range(len(tokens)):
            assert 0 <= tokens.start(n) <= tokens.end(n) <= len(message.text)
            assert tokens[n].token >= 0
        request = Answer(message, tokens, tree, by_ids=True).request(chat.system, chat.sampling)
        msgspec.msgpack.encode(request)
    context_use(path, chat.system, 2048)
    as_markdown(store, chat_id)
    again = json.loads(as_json(store, chat_id))
    assert len(again["messages"]) == len(tree.messages)


def fuzz(store: ChatStore, path: Path, seeds: range) -> tuple[int, int]:
    """How many were refused, and how many taken in."""
    refused = 0
    for seed in seeds:
        content = mutated(good(), random.Random(seed))
        path.write_bytes(content)
        try:
            chat_id = import_chat(store, path)
        except BadChatFile:
            refused += 1
            continue
        except Exception as error:
            raise AssertionError(f"seed {seed}: {content[:500]!r}") from error
        assert_harmless(store, chat_id)
    return refused, len(seeds) - refused


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "PAUSE_S", 0.0)


@pytest.mark.usefixtures("unhurried")
def test_mutated_chats(store: ChatStore, tmp_path: Path) -> None:
    refused, taken = fuzz(store, tmp_path / "chat.json", range(300))
    assert refused > 100
    assert taken > 30


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("unhurried")
def test_many_mutated_chats(store: ChatStore, tmp_path: Path) -> None:
    fuzz(store, tmp_path / "chat.json", range(300, 30_000))


@pytest.mark.parametrize("seconds", [1e308, 1e18, -1e18, float("nan"), float("inf"), -1.0, 0.0])
def test_no_time_or_number_is_too_much_to_show(seconds: float) -> None:
    assert period(seconds, date.today())
    assert duration(seconds)
    assert mib(None if seconds != seconds else seconds)  # type: ignore[arg-type]


def chain(n: int) -> bytes:
    messages = [
        {"role": "user", "text": f"message {i}", "parent": i - 1 if i else None} for i in range(n)
    ]
    return json.dumps({"format": "cutaway-chat", "version": 1, "messages": messages}).encode()


def test_an_import_that_is_stopped_leaves_nothing(store: ChatStore, tmp_path: Path) -> None:
    path, asked = tmp_path / "chat.json", []
    path.write_bytes(chain(1500))

    def stopped() -> bool:
        asked.append(None)
        return len(asked) > 14

    with store.elsewhere() as other, pytest.raises(Cancelled):
        import_chat(other, path, stopped=stopped)
    assert store.chats() == []
    assert store.chats("message") == []
    assert rows(tmp_path) == (0, 0)


def rows(folder: Path) -> tuple[int, int]:
    """Chats and messages in the file, hidden ones included."""
    with sqlite3.connect(folder / "chats.sqlite") as connection:
        (found,) = connection.execute(
            "SELECT (SELECT count(*) FROM chats), (SELECT count(*) FROM messages)"
        )
    connection.close()
    return int(found[0]), int(found[1])


def test_a_failure_in_the_middle_leaves_nothing(
    store: ChatStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "chat.json"
    path.write_bytes(chain(500))
    add_all, calls = ChatStore.add_all, []

    def fails(self: ChatStore, new: Any) -> None:
        calls.append(None)
        if len(calls) == 3:
            raise OSError(28, "No space left on device")
        add_all(self, new)

    monkeypatch.setattr(ChatStore, "add_all", fails)
    with store.elsewhere() as other, pytest.raises(OSError, match="No space"):
        import_chat(other, path)
    assert store.chats() == []
    assert rows(tmp_path) == (0, 0)


def test_the_window_goes_on_while_a_chat_is_imported(
    store: ChatStore, tmp_path: Path, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file's reading waits for ever; the call returns, others are served, and it is stopped."""
    path, go_on, chats = tmp_path / "chat.json", threading.Event(), ChatList(store)
    path.write_bytes(chain(300))
    arrived: list[int] = []
    chats.arrived.connect(arrived.append)

    def waits(*args: Any) -> Any:
        assert go_on.wait(60)
        return read_chat_file(*args)

    monkeypatch.setattr(exchange, "read_chat_file", waits)
    chats.import_file(path)
    assert chats.transfer is not None
    assert chats.transfer.what == "Importing chat.json"
    store.create("written meanwhile")
    chats.cancel_transfer()
    assert chats.transfer is None
    go_on.set()
    totals: list[int] = []
    chats.transfer_changed.connect(
        lambda: totals.append(chats.transfer.total if chats.transfer else 0)
    )
    chats.import_file(path)
    until(lambda: arrived)
    assert 300 in totals
    assert [row.title for row in chats.rows] == ["New chat", "written meanwhile"]
    assert len(store.tree(arrived[0]).path()) == 300


def test_each_transaction_of_an_import_is_small(
    store: ChatStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the window, which writes as well, never waits long."""
    sizes: list[tuple[int, int]] = []
    add_all: Callable[..., None] = ChatStore.add_all

    def counts(self: ChatStore, new: Any) -> None:
        sizes.append((len(new), sum(len(message.text) for message, _, _ in new)))
        add_all(self, new)

    monkeypatch.setattr(ChatStore, "add_all", counts)
    content = json.loads(chain(250))
    for n, message in enumerate(content["messages"]):
        message["text"] = "x" * (50_000 if n % 50 == 0 else 10)
    (tmp_path / "chat.json").write_text(json.dumps(content))
    import_chat(store, tmp_path / "chat.json")
    assert sum(n for n, _ in sizes) == 250
    assert max(n for n, _ in sizes) <= exchange.BATCH
    assert max(text for _, text in sizes) <= exchange.BATCH_TEXT


def test_chats_in_memory_can_be_imported_to(tmp_path: Path) -> None:
    """Where the file cannot be used the job shares the window's connection."""
    store = ChatStore(tmp_path)  # a folder
    (tmp_path / "chat.json").write_text(json.dumps(good()))
    made: list[int] = []

    def work() -> None:
        with store.elsewhere() as here:
            made.append(import_chat(here, tmp_path / "chat.json"))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)
    assert_harmless(store, made[0])
    assert [row.title for row in store.chats()] == ["Cats"]
    store.close()


def test_a_byte_order_mark_is_no_damage(store: ChatStore, tmp_path: Path) -> None:
    """Editors of other systems write one before the text of an exported chat."""
    path = tmp_path / "chat.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(good()).encode())
    with_mark = import_chat(store, path)
    path.write_text(json.dumps(good()))
    without = import_chat(store, path)
    one, other = (store.tree(number) for number in (with_mark, without))
    assert [m.text for m in one.path()] == [m.text for m in other.path()] != []
