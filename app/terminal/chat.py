"""The chat in a terminal: reads lines, keeps the history, brings the engine back when it died."""

import contextlib
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from app.documents.document import Document, with_documents
from app.documents.reading import read_document
from app.terminal.answer import logprob_table, print_ending
from app.terminal.engine import CommandEngine
from app.terminal.pictures import PicturesInWorker, check_sees, described, question
from app.terminal.text import aside, note, whole
from app.terminal.tools import TerminalTools, answer_with_tools
from engine.errors import CutawayError, WorkerDied
from engine.protocol import ChatMessage, Generate, Loaded, PictureInfo

PROMPT = "> "
COMMAND = re.compile(r"/([a-z]+)(?:\s+(.*))?$", re.DOTALL)
HELP = """\
/system TEXT  set the system prompt (without TEXT: none)
/image PATH   add a picture to your next message
/file PATH    add the text of a file or folder to your next message
/regen        regenerate the last answer with another seed
/reset        start a new chat
/help         show this
/exit         leave, as Ctrl+D does
Ctrl+C stops an answer, drops a line, and leaves where there is neither."""


@dataclass
class Chat:
    """A conversation. `unanswered` is a message whose answer failed or was stopped unborn,
    `waiting` are pictures and `documents` texts for the next message.
    """

    engine: CommandEngine
    loaded: Loaded
    template: Generate
    system: str | None = None
    turns: list[tuple[ChatMessage, list[ChatMessage]]] = field(default_factory=list)
    unanswered: ChatMessage | None = None
    waiting: list[PictureInfo] = field(default_factory=list)
    documents: list[Document] = field(default_factory=list)
    tools: TerminalTools | None = None

    def __post_init__(self) -> None:
        self.pictures = PicturesInWorker(self.engine)

    def run(self) -> None:
        """Talks until the person leaves."""
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401  gives input() its line editing
        where = f"{self.loaded.device} {self.loaded.device_name}".strip()
        context = f", {self.loaded.n_ctx} tokens of context" if self.loaded.n_ctx else ""
        aside(f"{self.loaded.name} on {where}{context}; /help")
        while (line := _read_line()) is not None:
            command = COMMAND.match(line)
            if command and command[1] == "exit":
                return
            try:
                if command:
                    self._run_command(command[1], command[2] or "")
                elif line:
                    message = question(with_documents(line, self.documents), self.waiting)
                    self.waiting, self.documents = [], []
                    self._say(message, self.template)
            except WorkerDied as death:
                note(f"{death}; restarting it, the chat is kept")
                self.loaded = self.engine.start()
                if self.unanswered is not None:
                    note("your last message has no answer yet; /regen retries")
            except CutawayError as error:
                note(f"error: {error}")

    def _run_command(self, name: str, rest: str) -> None:
        if name == "help":
            print(HELP, file=sys.stderr)
        elif name == "system":
            self.system = rest or None
        elif name == "reset":
            self.turns, self.unanswered, self.waiting, self.documents = [], None, [], []
        elif name == "image":
            self._show(rest)
        elif name == "file":
            self._add_file(rest)
        elif name == "regen":
            self._answer_again()
        else:
            note(f"unknown command /{name}; /help lists the commands")

    def _show(self, path: str) -> None:
        if not path:
            note("/image needs the path of a picture")
        else:
            check_sees(self.loaded)
            info = self.pictures.send(Path(path).expanduser())
            self.waiting.append(info)
            aside(f"picture {described(info)}; added to your next message")

    def _add_file(self, path: str) -> None:
        if not path:
            note("/file needs the path of a file or folder")
            return
        document = read_document(Path(path).expanduser())
        self.documents.append(document)
        if self.tools is not None:
            self.tools.documents = [*self.tools.documents, document]
        notes = "".join(f" ({text})" for text in document.notes)
        aside(f"{document.name}{notes}; added to your next message")

    def _answer_again(self) -> None:
        if self.unanswered is None:
            if not self.turns:
                note("the chat is empty")
                return
            self.unanswered = self.turns.pop()[0]
        sampling = msgspec.structs.replace(self.template.sampling, seed=None)
        self._say(self.unanswered, msgspec.structs.replace(self.template, sampling=sampling))

    def _say(self, message: ChatMessage, template: Generate) -> None:
        self.unanswered = message
        history = [*self._history(), message]
        made, added, _ = answer_with_tools(
            self.engine, self.loaded, template, history, self.pictures, self.tools
        )
        if added:
            self.turns.append((message, added))
            self.unanswered = None
        if template.logprobs:
            whole("\n".join(logprob_table(made.tokens)))
        print_ending(made, self.loaded)

    def _history(self) -> list[ChatMessage]:
        before = [ChatMessage("system", self.system)] if self.system else []
        for message, replies in self.turns:
            before += [message, *replies]
        return before


def _read_line() -> str | None:
    """A line without the spaces around it; None when the person leaves."""
    try:
        line = input(PROMPT)
    except EOFError:
        print()
        return None
    except KeyboardInterrupt:
        print()
        return "" if _half_written() else None
    # What is not UTF-8 arrives as surrogates, which no message can carry.
    return line.encode("utf-8", "replace").decode().strip()


def _half_written() -> bool:
    if sys.platform == "win32":
        return False
    try:
        import readline
    except ImportError:
        return False
    return bool(readline.get_line_buffer())
