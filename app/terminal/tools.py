"""Tools of `cutaway run`: servers and calls, with consent from the terminal."""

import sys
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import TypeVar

import msgspec

from app.documents.document import Document
from app.terminal.answer import PrintedAnswer, answer
from app.terminal.engine import TICK, CommandEngine, Interrupt
from app.terminal.pictures import PicturesInWorker
from app.terminal.text import aside, interactive, note
from app.tools.arguments import arguments_problem
from app.tools.builtin import BUILT_IN, run_built_in
from app.tools.calling import (
    DENIED,
    MOST_CALLS,
    MOST_ROUNDS,
    STOPPED,
    CallState,
    ToolUse,
    with_results,
)
from app.tools.config import ServerConfig, read_servers, visible
from app.tools.consent import CallPermit, ConsentStore, Decision, StartPermit
from app.tools.host import ToolHost
from app.tools.results import LEFT_OUT, bounding, most_tokens
from app.tools.tool import BETWEEN, KnownTool, ToolResult, failure, without_clashes
from engine.errors import BadSetting, CutawayError
from engine.protocol import ChatMessage, CountTokens, Generate, Loaded, PicturePart, ToolCall, Tools

LINE = 1000  # characters of a line; longer ones would lose their middle
CHAT = "terminal"

CHOICES: dict[str, Decision] = {"o": "once", "once": "once", "c": "chat", "chat": "chat"}

T = TypeVar("T")


@dataclass
class TerminalTools:
    """Built-in tools by `names`, servers of the files `mcp`; `allow` are tools that need no
    question, by their whole names.
    """

    names: Sequence[str]
    mcp: Sequence[str]
    allow: Sequence[str]
    consent: ConsentStore = field(default_factory=ConsentStore)
    documents: Sequence[Document] = ()

    def __post_init__(self) -> None:
        for name in self.names:
            if name not in BUILT_IN:
                raise BadSetting("--tool", name, f"one of {', '.join(BUILT_IN)}")
        self._servers = [s for file in self.mcp for s in read_servers(Path(file).expanduser())]
        slugs = [server.slug for server in self._servers]
        for name in self.allow:
            if name.partition(BETWEEN)[0] not in slugs:
                raise BadSetting("--allow", name, f"SERVER{BETWEEN}TOOL of a server of --mcp")
        self._host = ToolHost()
        self._permits: list[StartPermit] = []
        self._tools: dict[str, KnownTool] = {}

    def start(self) -> None:
        """Start the servers that may run. Raises BadTools."""
        for server in self._servers:
            permit = self._start_permit(server)
            if permit is None:
                note(f"server {server.name} is not started: it was not allowed to run")
            else:
                self._permits.append(permit)
        self.list_tools()
        if self._tools:
            aside(f"tools: {', '.join(self._tools)}")

    def list_tools(self) -> None:
        """Ask the servers which tools they have now."""
        found = [BUILT_IN[name] for name in self.names]
        for permit in self._permits:
            found += self._host.tools(permit).result()
        kept, notes = without_clashes(found)
        if {tool.full for tool in kept} != set(self._tools):
            for text in notes:
                note(text)
        self._tools = {tool.full: tool for tool in kept}

    @property
    def offered(self) -> Tools:
        """The tools as the engine takes them."""
        return Tools([tool.offer for tool in self._tools.values()])

    def call(self, call: ToolCall, interrupt: Interrupt) -> tuple[ToolUse, tuple[bytes, ...]]:
        """Make one call, with consent; the result is not bounded yet."""
        began = monotonic()
        tool = self._tools.get(call.name)
        use = ToolUse(call.id, call.name, call.arguments)
        if tool is None:
            made = failure(f"there is no tool {call.name!r}")
            return _ended(use, "failed", made, began), ()
        problem = arguments_problem(tool.schema, call.arguments)
        if problem:
            return _ended(use, "failed", failure(problem), began), ()
        permit = self._call_permit(tool, call.arguments)
        if permit is None:
            note(f"{tool.full} was not allowed; --allow {tool.full} allows it")
            return _ended(use, "denied", failure(DENIED), began), ()
        began = monotonic()
        if tool.built_in:
            made = run_built_in(*permit.use(), self.documents)
        else:
            result = _wait(self._host.call(permit), interrupt)
            if result is None:
                return _ended(use, "stopped", failure(STOPPED), began), ()
            made = result
        return _ended(use, "failed" if made.failed else "done", made, began), made.pictures

    def close(self) -> None:
        """End the servers."""
        self._host.close()

    def _start_permit(self, server: ServerConfig) -> StartPermit | None:
        if any(name.partition(BETWEEN)[0] == server.slug for name in self.allow):
            return self.consent.allow_server(server, keep=False)
        permit = self.consent.may_start(server)
        if permit is not None or not interactive():
            return permit
        _print(f"The file starts the server {visible(server.name)} with your rights:")
        _print(server.shown, "  ")
        if _choice("Run it? [y/N] ") in ("y", "yes"):
            return self.consent.allow_server(server)
        return None

    def _call_permit(self, tool: KnownTool, arguments: str) -> CallPermit | None:
        if tool.full in self.allow and not tool.built_in:
            return self.consent.decide(tool, arguments, CHAT, "once")
        permit = self.consent.may_call(tool, arguments, CHAT)
        if permit is not None or not interactive():
            return permit
        _print(f"The model calls {tool.full} of the server {visible(tool.server)}:")
        _print(arguments or "{}", "  ")
        if tool.destructive:
            _print("This tool may destroy data.")
        chosen = _choice("Allow it? [o]nce, [c]hat: every call in this chat, [N]o ")
        return self.consent.decide(tool, arguments, CHAT, CHOICES.get(chosen, "deny"))


def answer_with_tools(
    engine: CommandEngine,
    loaded: Loaded,
    template: Generate,
    messages: Sequence[ChatMessage],
    pictures: PicturesInWorker,
    tools: TerminalTools | None,
    quiet: bool = False,
) -> tuple[PrintedAnswer, list[ChatMessage], list[ToolUse]]:
    """Answer, make the calls of the answer, and answer again, for MOST_ROUNDS at most. Returns the
    last answer, all messages that follow `messages`, and the calls. Raises as `answer`.
    """
    added: list[ChatMessage] = []
    every: list[ToolUse] = []
    for round in range(MOST_ROUNDS + 1):
        request = template
        if tools is not None and round < MOST_ROUNDS:
            request = msgspec.structs.replace(template, tools=tools.offered)
        made = answer(engine, request, [*messages, *added], quiet, pictures)
        calls = made.calls.calls
        if tools is None or made.finished is None or made.finished.reason != "calls":
            break
        uses, stopped = _call_all(engine, loaded, tools, calls, pictures, added, made.text)
        every += uses
        if stopped:
            made.finished = msgspec.structs.replace(made.finished, reason="cancelled")
            break
        if round + 1 == MOST_ROUNDS:
            note(f"tools were called {MOST_ROUNDS} times in a row; the answer ends without them")
        tools.list_tools()
    if made.text and (not added or added[-1].role == "tool"):
        added.append(ChatMessage("assistant", made.text))
    return made, added, every


def _call_all(
    engine: CommandEngine,
    loaded: Loaded,
    tools: TerminalTools,
    calls: Sequence[ToolCall],
    pictures: PicturesInWorker,
    added: list[ChatMessage],
    text: str,
) -> tuple[list[ToolUse], bool]:
    """Make the calls of one answer, and add them to the messages; True where they were stopped."""
    uses: list[ToolUse] = []
    shown: list[list[PicturePart]] = []
    with Interrupt() as interrupt:
        for call in calls[:MOST_CALLS]:
            use, files = tools.call(call, interrupt)
            parts = []
            result = use.result
            for file in files:
                if loaded.vision is None:
                    result += f"\n{LEFT_OUT}"
                    continue
                try:
                    parts.append(PicturePart(pictures.send_data(file).digest))
                except CutawayError as error:
                    result += f"\n[picture left out: {error}]"
            result = _bounded(engine, loaded, result)
            aside(f"{use.name}: {use.state}, {use.seconds:.1f} s")
            uses.append(msgspec.structs.replace(use, result=result))
            shown.append(parts)
    added += with_results(text, uses, shown)
    return uses, interrupt.interrupted


def _bounded(engine: CommandEngine, loaded: Loaded, text: str) -> str:
    cutting = bounding(text, most_tokens(loaded.n_ctx))
    try:
        shorter = next(cutting)
        while True:
            try:
                count = engine.get(CountTokens(engine.new_id(), loaded.path, shorter)).count
            except CutawayError:
                count = None
            shorter = cutting.send(count)
    except StopIteration as done:
        return str(done.value)


def _wait(future: "Future[T]", interrupt: Interrupt) -> T | None:
    """The result; None where Ctrl+C has stopped it."""
    while True:
        try:
            return future.result(TICK)
        except TimeoutError:
            if future.done():
                raise
            if interrupt.interrupted:
                future.cancel()
                return None


def _ended(use: ToolUse, state: CallState, made: ToolResult, began: float) -> ToolUse:
    return msgspec.structs.replace(
        use, state=state, result=made.text, seconds=round(monotonic() - began, 3)
    )


def _print(text: str, before: str = "") -> None:
    """Print all of a text, in lines that are not shortened."""
    for line in text.split("\n"):
        for at in range(0, max(1, len(line)), LINE):
            print(f"{before}{visible(line[at : at + LINE])}", file=sys.stderr)


def _choice(question: str) -> str:
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower()
