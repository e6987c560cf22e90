"""Edits and their directions on disk: nothing lost, nothing half, nothing left behind."""

import json
import sqlite3
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import msgspec
import numpy as np
import pytest

from app.checks import row_sums
from app.state.talk.disk import database
from app.state.talk.disk.exchange import BadChatFile, as_json, as_markdown, import_chat
from app.state.talk.disk.store import ChatStore, StoreError
from app.state.talk.disk.vector_rows import pack, unpack
from app.state.talk.edits import NO_EDITS, ChatEdit, EditSet, Move
from app.state.talk.message import Message
from engine.errors import BadSetting
from engine.gguf.control_vector import read_directions
from engine.protocol import Change, Edit, Stats

ROWS = {1: np.arange(4, dtype=np.float32) - 1.5, 2: np.ones(4, np.float32)}
HASH, DATA = pack(ROWS)
OFF = ChatEdit(Edit.scale("heads", 5, by=0, head=3))
STEERED = ChatEdit(Edit("residual", [1, 2], "add", value=1.5), HASH, "happy")
BOTH = EditSet((OFF, STEERED))


@pytest.fixture
def chat(store: ChatStore) -> int:
    """A chat whose edits steer, with an answer that was written so."""
    chat = store.create("edited")
    store.update(chat, edits=BOTH, vectors={HASH: DATA})
    question = Message(0, chat, None, "user", "Hello")
    store.add(question)
    store.add(Message(0, chat, question.id, "assistant", "Hi", finish="stop", edits=BOTH))
    return chat


def rows(path: Path, statement: str, *values: object) -> list[tuple[object, ...]]:
    """What another program reads or writes in the database."""
    with sqlite3.connect(path) as connection:
        found = connection.execute(statement, values).fetchall()
    connection.close()
    return found


def hashes(path: Path) -> list[object]:
    return [row[0] for row in rows(path, "SELECT hash FROM vectors")]


def test_they_are_read_as_they_were_written(store: ChatStore, chat: int) -> None:
    row = store.chat(chat)
    assert row is not None
    assert row.edits == BOTH
    answer = store.tree(chat).path()[1]
    assert answer.edits == BOTH
    moved = msgspec.structs.replace(BOTH, moves=(Move(9, 5, 1, 2.0),))
    answer.edits = moved
    store.save(answer)
    assert store.tree(chat).path()[1].edits == moved


def test_a_request_has_the_vectors_of_its_layers(store: ChatStore, chat: int) -> None:
    sent = store.vectors.request(BOTH)
    assert sent[0] == OFF.edit
    assert [one.layers for one in sent[1:]] == [[1], [2]]
    assert [np.frombuffer(one.vector, "<f4").tolist() for one in sent[1:]] == [
        row.tolist() for row in ROWS.values()
    ]
    assert {one.value for one in sent[1:]} == {1.5}
    control = store.vectors.request(msgspec.structs.replace(BOTH, seed=4))
    for one, own in zip(control[1:], ROWS.values(), strict=True):
        drawn = np.frombuffer(one.vector, "<f4")
        assert abs(float(drawn @ own)) < 1e-5
        assert np.linalg.norm(drawn) == pytest.approx(float(np.linalg.norm(own)), rel=1e-6)


def test_directions_that_are_gone_or_damaged_are_refused(
    store: ChatStore, chat: int, tmp_path: Path
) -> None:
    rows(tmp_path / "chats.sqlite", "UPDATE vectors SET data = ?", DATA[:-4] + b"\0\0\0\0")
    with pytest.raises(StoreError, match="the directions of an edit are gone"):
        store.vectors.request(BOTH)


def test_chat_and_directions_are_written_together_or_not_at_all(
    store: ChatStore, tmp_path: Path
) -> None:
    path, chat = tmp_path / "chats.sqlite", store.create("before")
    rows(path, "CREATE TRIGGER no BEFORE UPDATE ON chats BEGIN SELECT RAISE(ABORT, 'no'); END")
    with pytest.raises(StoreError):
        store.update(chat, edits=BOTH, vectors={HASH: DATA})
    row = store.chat(chat)
    assert row is not None
    assert row.edits == NO_EDITS
    assert hashes(path) == []
    rows(path, "DROP TRIGGER no")


def test_directions_go_with_the_last_chat_that_has_them(tmp_path: Path) -> None:
    path = tmp_path / "chats.sqlite"
    store = ChatStore(path)
    first, second = store.create("one"), store.create("two")
    for chat in (first, second):
        store.update(chat, edits=BOTH, vectors={HASH: DATA})
    store.delete(first)
    store.close()
    store = ChatStore(path)
    assert hashes(path) == [HASH]
    store.delete(second)
    store.close()
    store = ChatStore(path)
    assert hashes(path) == []
    store.close()


def test_out_and_in_again(store: ChatStore, chat: int, tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_bytes(as_json(store, chat))
    assert json.loads(path.read_bytes())["version"] == 5
    other = ChatStore(tmp_path / "other.sqlite")
    made = import_chat(other, path)
    row = other.chat(made)
    assert row is not None
    assert row.edits == BOTH
    assert other.tree(made).path()[1].edits == BOTH
    assert other.vectors.request(BOTH) == store.vectors.request(BOTH)
    other.close()
    said = as_markdown(store, chat).decode()
    assert "(edited: Layer 5 · head 3 off; layers 1–2 + 1.5 × “happy”)" in said


def test_a_chat_without_edits_is_of_a_version_that_all_read(store: ChatStore) -> None:
    chat = store.create("plain")
    store.add(Message(0, chat, None, "user", "Hello"))
    told = json.loads(as_json(store, chat))
    assert told["version"] == 1
    assert "edits" not in told
    assert "vectors" not in told


@pytest.mark.parametrize(
    "spoil",
    [
        lambda told: told["vectors"].clear(),
        lambda told: told["vectors"].update({HASH: "AAAA"}),
        lambda told: told["edits"]["edits"][0]["edit"].update(site="a\x1bb"),
        lambda told: told["edits"]["edits"][0]["edit"].update(layers=[-1]),
        lambda told: told["edits"]["edits"][0]["edit"].update(positions="now"),
        lambda told: told["edits"].update(edits=told["edits"]["edits"] * 200),
        lambda told: told["messages"][1]["edits"]["edits"][1].update(directions="0" * 64),
    ],
)
def test_a_file_with_other_edits_is_refused(spoil, store: ChatStore, chat: int, tmp_path: Path):  # type: ignore[no-untyped-def]
    told = json.loads(as_json(store, chat))
    spoil(told)
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(told))
    before = len(store.chats())
    with pytest.raises(BadChatFile):
        import_chat(store, path)
    assert len(store.chats()) == before


def test_an_older_answer_of_a_changed_model_is_an_edited_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, older = tmp_path / "chats.sqlite", database.MIGRATIONS[:8]
    with monkeypatch.context() as patch:
        patch.setattr(database, "MIGRATIONS", older)
        patch.setattr(database, "VERSION", len(older))
        patch.setattr(database, "COLUMNS", {})
        patch.setattr(row_sums, "COLUMNS", {})
        database.Database(path).close()
    changes = [Change(3), Change(4, "attention", 2, 0.5)]
    stats = msgspec.json.encode(Stats(1, 0, 2, 0.1, 0.2, 0.3, 0.4, 1, 3, changes=changes))
    with sqlite3.connect(path) as connection:
        connection.execute(
            "INSERT INTO chats (id, title, created, changed, model, system, sampling, draft)"
            " VALUES (1, 'old', 0, 0, '', '', '', '')"
        )
        connection.execute(
            "INSERT INTO messages (id, chat, role, text, created, model, finish, problem, stats,"
            " n_tokens) VALUES (1, 1, 'assistant', 'x', 0, '', 'stop', '', ?, 2)",
            (stats.decode(),),
        )
    connection.close()
    store = ChatStore(path)
    (message,) = store.tree(1).path()
    first, second = (one.edit for one in message.edits.edits)
    assert first == Edit.of("scale", "residual", 3, 0, delta=True)
    assert second == Edit.scale("heads", 4, by=0.5, head=2)
    store.close()


def test_directions_from_anywhere_are_checked() -> None:
    assert sha256(DATA).hexdigest() == HASH
    assert list(unpack(DATA)) == [1, 2]
    for bad in (
        b"",
        b"\xc1",
        msgspec.msgpack.encode({}),
        msgspec.msgpack.encode({1: b"123"}),
        msgspec.msgpack.encode({1: bytes(4), 2: bytes(8)}),
        msgspec.msgpack.encode({1: np.array([np.nan], "<f4").tobytes()}),
    ):
        with pytest.raises(BadSetting):
            unpack(bad)


WRITES = """
import sys
from pathlib import Path
import numpy as np
from app.state.talk.disk.store import ChatStore
from app.state.talk.disk.vector_rows import pack
from app.state.talk.edits import ChatEdit, EditSet
from app.state.talk.message import Message
from engine.gguf.control_vector import write_directions
from engine.protocol import Edit
store = ChatStore(Path(sys.argv[1]))
chat = store.create("killed")
for n in range(1, 1 << 20):
    rows = {i: np.full(2048, n, np.float32) for i in range(1, 32)}
    hash, data = pack(rows)
    edits = EditSet((ChatEdit(Edit("residual", list(rows), "add", value=float(n)), hash, str(n)),))
    store.update(chat, edits=edits, vectors={hash: data})
    store.add(Message(0, chat, None, "assistant", str(n), finish="stop", edits=edits))
    write_directions(Path(sys.argv[2]), rows, "llama")
    print(n, flush=True)
"""


@pytest.mark.parametrize("after", [3, 11])
def test_a_kill_leaves_chats_and_files_whole(after: int, tmp_path: Path) -> None:
    """Killed in the middle of whatever follows so many rounds."""
    chats, file = tmp_path / "chats.sqlite", tmp_path / "v.gguf"
    words = [sys.executable, "-c", WRITES, str(chats), str(file)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(after):
            assert process.stdout.readline()
        process.kill()
    store = ChatStore(chats)
    assert store.notice == ""
    (chat,) = store.chats()
    found = [chat.edits, *(message.edits for message in store.tree(chat.id).messages.values())]
    assert len(found) > after
    for edits in found:
        sent = store.vectors.request(edits)
        assert {one.value for one in sent} == {edits.edits[0].edit.value}
        for one in sent:
            assert set(np.frombuffer(one.vector, "<f4").tolist()) == {one.value}
    store.close()
    written = {float(x) for row in read_directions(file).values() for x in row}
    assert len(written) == 1
    assert min(written) >= after
