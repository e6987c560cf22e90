"""Chats in a window with a scripted engine: everything that a person can do with a message."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image
from PySide6.QtCore import QCoreApplication

from app.state.talk.answering import AnswerSaver
from app.state.talk.chat import ChatState
from app.state.talk.disk.store import ChatStore
from app.state.workbench import Workbench
from engine.errors import CutawayError
from tests.app.helpers.scripted import ScriptedEngine
from tests.failing.sweep import Operation, refused

QUESTION, ANSWER = "Where is the needle?", ("In ", "the ", "haystack.")
os.environ["QT_QPA_PLATFORM"] = "offscreen"


class _Window:
    """The state behind a window; `said` are the problems that it shows."""

    def __init__(self, root: Path) -> None:
        self.app = QCoreApplication.instance() or QCoreApplication([])
        self.engine = ScriptedEngine()
        self.bench = Workbench(self.engine, root / "config", root / "data")
        self.said: list[str] = [f"at the start: {notice}" for notice in self.bench.notices]
        self.engine.deliver = self.bench.client.drain
        for part in (self.bench.chat, self.bench.chats):
            part.problem.connect(lambda problem: self.said.append(problem.text))
        self.bench.open_model(root / "model.gguf")
        self.engine.load_done()

    @property
    def chat(self) -> ChatState:
        return self.bench.chat

    def show(self, title: str) -> None:
        """Open the chat of that title."""
        row = next((row for row in self.bench.chats.rows if row.title == title), None)
        if row is None:
            raise CutawayError(f"no chat {title}: {self.said}")
        self.chat.open(row.id)

    def ask(self, text: str, *pieces: str, end: bool = True) -> None:
        """Send a question; where that is refused, again, as somebody would who reads why."""
        self.attempt(lambda: self._send(text))
        self.take(*pieces, end=end)

    def _send(self, text: str) -> bool:
        path = self.chat.path
        if path and path[-1].role == "user" and path[-1].text == text:
            return self.chat.regenerate(len(path) - 1)
        return self.chat.send(text)

    def take(self, *pieces: str, end: bool = True) -> None:
        """The engine answers."""
        for piece in pieces:
            self.engine.write(piece)
            self.chat.findChild(AnswerSaver).save()  # as if seconds had gone by
        if end:
            self.engine.end(n=len(pieces))

    def attempt(self, do: Callable[[], object]) -> None:
        """Do something, and once more where it is refused. Raises CutawayError."""
        for _ in range(2):
            done = do()
            if done is not False and not self.said:
                return
            assert self.said, "refused without a word"
            refused(self.said.pop())
            self.said.clear()
        raise CutawayError("it was refused twice")

    def wait(self) -> None:
        """Until a chat is in or out."""
        deadline = time.monotonic() + 60
        while self.bench.chats.transfer is not None or self.chat.attached.arriving:
            assert time.monotonic() < deadline, "a job never ended"
            self.app.processEvents()
            time.sleep(0.001)


@contextmanager
def _window(root: Path) -> Iterator[_Window]:
    window = _Window(root)
    try:
        if window.said:
            raise CutawayError(window.said[0])
        yield window
    finally:
        window.bench.close()
    if window.said:
        raise CutawayError(window.said[-1])


def _setup(root: Path) -> None:
    root.mkdir()
    with _window(root) as window:
        window.ask("first", "one ", "two ", "three")
        window.ask("second", "four ", "five")
        window.chat.open(None)
        window.ask("other", "six ", "seven")


def state(root: Path) -> Any:
    """All chats with all their messages, as the next start reads them."""
    store = ChatStore(root / "data" / "chats.sqlite")
    assert not store.notice, store.notice
    found = []
    for chat in store.chats():
        tree = store.tree(chat.id)
        messages = []
        for message in tree.messages.values():
            for picture in message.pictures:
                data = store.pictures.files.read(picture.hash, picture.name)
                assert sha256(data).hexdigest() == picture.hash, "a picture has other bytes"
            about = message.finish, len(message.pictures), len(store.tokens(message))
            messages.append([message.role, message.text, *about])
        path = [message.text for message in tree.path()]
        pictures = store.pictures.of_draft(chat.id)
        assert all(store.pictures.files.has(picture.hash) for picture in pictures)
        drafted = chat.draft, [picture.name for picture in pictures]
        found.append([chat.title, chat.system, drafted, messages, path])
        if messages:
            assert store.find([messages[0][1].split()[0].casefold()]), "the search finds nothing"
    problem = store.db.read("PRAGMA integrity_check")[0][0]
    assert problem == "ok", problem
    store.close()
    outs = {path.name: path.read_text() for path in sorted(root.glob("out*"))}
    return [sorted(found), outs]


def _grows(before: Any, after: Any, now: Any) -> bool:
    """Nothing that was there is gone, and what is new is a beginning of what comes to be."""
    was, will, has = (_messages(one) for one in (before, after, now))
    kept = [one for one in was if one in will]
    if any(one not in has for one in kept) or now[1] not in (before[1], after[1]):
        return False
    rest = list(will)
    for one in sorted(has, key=lambda one: -len(one[2])):
        whole = [w for w in rest if w[:2] == one[:2] and w[2].startswith(one[2])]
        if one in rest:
            rest.remove(one)
        elif whole:
            rest.remove(whole[0])
        elif one not in was:
            return False
    return True


def _messages(one: Any) -> list[Any]:
    return [[title, *message[:2]] for title, _, _, messages, _ in one[0] for message in messages]


def _in_first(act: Callable[[_Window], object]) -> Callable[[Path], None]:
    def do(root: Path) -> None:
        with _window(root) as window:
            window.show("first")
            act(window)

    return do


def _in_new(root: Path) -> None:
    with _window(root) as window:
        window.ask(QUESTION, *ANSWER)


def _stop(window: _Window) -> None:
    window.ask(QUESTION, *ANSWER[:2], end=False)
    window.chat.stop()
    window.engine.end("cancelled")


def _picture(window: _Window) -> None:
    file = BytesIO()
    Image.new("RGB", (64, 64), "red").save(file, "PNG")
    if not window.chat.attached.pictures:
        window.attempt(lambda: _attach(window, file.getvalue()))


def _attach(window: _Window, data: bytes) -> None:
    window.chat.attached.add_data("red.png", lambda: data)
    window.wait()


def _answered(do: Callable[[ChatState], bool], window: _Window) -> None:
    window.attempt(lambda: do(window.chat))
    window.take(*ANSWER)


def _branch(chat: ChatState) -> bool:
    while len(chat.tokens(1)) < 2:
        chat.choose_sibling(1, -1)  # from one that has another token to take
    return chat.branch_from_token(1, 1, 1)


def _typed(window: _Window) -> None:
    window.chat.details.set_draft("half a thought")
    window.chat.details.save_draft()


def _transfer(do: Callable[[_Window], object], window: _Window) -> None:
    def attempt() -> None:
        do(window)
        window.wait()

    window.attempt(attempt)


def _setup_import(root: Path) -> None:
    _setup(root)
    with _window(root) as window:
        window.show("first")
        _transfer(lambda w: w.bench.chats.export(w.chat.chat_id or 0, root / "chat.json"), window)
        window.bench.chats.rename(window.chat.chat_id or 0, "before")
    # the chat of the file has the name "first"; the one that is there no longer does


def _import(root: Path) -> None:
    with _window(root) as window:
        _transfer(lambda w: w.bench.chats.import_file(root / "chat.json"), window)


def _first(window: _Window) -> int:
    return window.chat.chat_id or 0


def _export(name: str, window: _Window) -> None:
    out = Path(window.bench.preferences.path).parent.parent / name
    _transfer(lambda w: w.bench.chats.export(_first(w), out), window)


ACTS: dict[str, Callable[[_Window], object]] = {
    "ask": lambda w: w.ask(QUESTION, *ANSWER),
    "stop": _stop,
    "edit": partial(_answered, lambda chat: chat.edit_and_resend(0, "first, but better")),
    "edit-answer": lambda w: w.attempt(lambda: w.chat.edit_and_resend(1, "I mean four")),
    "regenerate": partial(_answered, lambda chat: chat.regenerate(3)),
    "branch": partial(_answered, _branch),
    "continue": partial(_answered, lambda chat: chat.continue_answer(3)),
    "delete-message": lambda w: w.attempt(lambda: w.chat.delete_message(2)),
    "delete-chat": lambda w: w.attempt(lambda: w.bench.chats.delete(_first(w))),
    "rename": lambda w: w.attempt(lambda: w.bench.chats.rename(_first(w), "renamed")),
    "system-prompt": lambda w: w.attempt(lambda: w.chat.details.set_system("Be brief.")),
    "draft": _typed,
    "picture": _picture,
    "duplicate": partial(_transfer, lambda w: w.bench.chats.duplicate(_first(w))),
    "export-json": partial(_export, "out.json"),
    "export-markdown": partial(_export, "out.md"),
}
PREFERENCES = (".preferences.json.*",)
OPERATIONS = (
    Operation("chat-new", _setup, _in_new, state, _grows, keeps=PREFERENCES),
    Operation("chat-import", _setup_import, _import, state, keeps=PREFERENCES),
    *(
        Operation(f"chat-{name}", _setup, _in_first(act), state, _grows, keeps=PREFERENCES)
        for name, act in ACTS.items()
    ),
)
