"""Tools of the chats: which servers there are, what a person allows, calls while they run.

Nothing starts by itself: a server is started when a question is sent in a chat that names it, and
after its command was allowed.
"""

from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic

from msgspec.structs import replace
from PySide6.QtCore import QObject, QTimer, Signal

from app.documents.document import Document
from app.language import tr, tr_n
from app.state.problem import Problem
from app.tools.arguments import arguments_problem
from app.tools.builtin import BUILT_IN, run_built_in
from app.tools.calling import DENIED, MOST_CALLS, STOPPED, TOO_MANY, CallState, ToolUse
from app.tools.config import BadTools, ServerConfig, keep_secrets, read_servers, write_servers
from app.tools.consent import Allowance, CallPermit, ConsentStore, Decision
from app.tools.host import ToolHost
from app.tools.tool import KnownTool, ToolResult, failure, without_clashes
from app.work import Work
from engine.protocol import Tool, Tools

Keep = Callable[[ToolUse, ToolResult], ToolUse]


@dataclass
class _Prepared:
    """Tools that one answer may call. `waits` are names of servers that have not listed theirs."""

    names: tuple[str, ...]
    waits: set[str] = field(default_factory=set)
    found: list[KnownTool] = field(default_factory=list)
    tools: dict[str, KnownTool] = field(default_factory=dict)


@dataclass
class Calls:
    """The calls of one answer. `uses` has each with its state; `changed` is called after each
    change, `keep` makes a use of a result, and `done` is called once all have ended.
    """

    chat: Hashable
    uses: list[ToolUse]
    tools: dict[str, KnownTool]
    documents: Sequence[Document]
    changed: Callable[[], None]
    keep: Keep
    done: Callable[[], None]
    futures: dict[str, "Future[ToolResult]"] = field(default_factory=dict)
    began: dict[str, float] = field(default_factory=dict)
    over: bool = False

    def use(self, number: str) -> ToolUse | None:
        """The call of that id."""
        return next((use for use in self.uses if use.id == number), None)

    def set(self, use: ToolUse) -> None:
        """Replace a use, unless it has ended already."""
        self.uses[:] = [use if u.id == use.id and not u.ended else u for u in self.uses]


class ToolsState(QObject):
    """`servers` are those of the file at `path`, `in_question` the server whose start needs
    consent, `problems` why servers could not be used, by their names.
    """

    changed = Signal()  # servers, questions, what is prepared
    problem = Signal(object)  # Problem

    def __init__(self, config: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.path = config / "mcp.json"
        self.consent = ConsentStore(config / "tools.json")
        self.host = ToolHost()
        self.servers: list[ServerConfig] = []
        self.in_question: ServerConfig | None = None
        self.problems: dict[str, str] = {}
        self.known: dict[str, KnownTool] = {}  # all that were listed in this run, by name
        self._prepared: dict[int, _Prepared] = {}
        self._waiting: list[ServerConfig] = []
        self._calls: list[Calls] = []

    def refresh(self) -> None:
        """Read the file of servers."""
        self._read()
        self.changed.emit()

    def _read(self) -> None:
        try:
            self.servers = read_servers(self.path)
        except BadTools as error:
            self.servers = []
            self.problem.emit(Problem("BadTools", str(error)))

    def import_servers(self, path: Path) -> None:
        """Add the servers of another program's file; none is started by that."""
        try:
            found = read_servers(path)
            known = {server.slug for server in read_servers(self.path)}
            new = [server for server in found if server.slug not in known]
            write_servers(self.path, [*read_servers(self.path), *new])
        except (BadTools, OSError) as error:
            self.problem.emit(Problem("BadTools", str(error)))
            return
        plain = sum(len(server.secrets) for server in new)
        if plain:
            text = tr_n(
                "{n} key is written out in mcp.json; the tools menu moves it to the keyring",
                "{n} keys are written out in mcp.json; the tools menu moves them to the keyring",
                plain,
            )
            self.problem.emit(Problem("PlainKeys", text))
        if not new:
            text = tr("{path} names no server that is not here already", path=path)
            self.problem.emit(Problem("BadTools", text))
        self.refresh()

    @property
    def plain_keys(self) -> int:
        """How many keys of servers are written out in the file."""
        return sum(len(server.secrets) for server in self.servers)

    def keep_secrets(self) -> None:
        """Move these keys into the system's keyring."""
        job = Work(keep_secrets, self.path).then(lambda _: self.refresh())
        job.fail(lambda why: self.problem.emit(Problem("BadTools", why))).start(self)

    # Before an answer

    def prepare(self, answer: int, names: tuple[str, ...]) -> bool:
        """True once the tools of these built-in tools and servers are known for an answer, which
        has this message's id; `changed` is emitted until then.
        """
        if answer not in self._prepared:
            self._begin(answer, names)
        return not self._prepared[answer].waits

    def offered(self, answer: int) -> Tools:
        """The prepared tools as the engine takes them."""
        made = self._prepared.get(answer)
        offers: list[Tool] = [tool.offer for tool in made.tools.values()] if made else []
        return Tools(offers)

    def forget(self, answer: int) -> None:
        """The answer is over before its calls."""
        gone = self._prepared.pop(answer, None)
        if gone is not None and self.in_question is not None:
            still = {name for one in self._prepared.values() for name in one.waits}
            if self.in_question.name not in still:
                self.in_question = None
                self._question_next()

    def allow_start(self, server: ServerConfig, allowed: bool) -> None:
        """The person has read the command of `in_question` and decided."""
        if server is not self.in_question:
            return  # a second click, or a question that is over
        self.in_question = None
        if allowed:
            self.consent.allow_server(server)
            self._list(server)
        else:
            self._listed(server, [], tr("{name} was not allowed to run", name=server.name))
        self._question_next()

    def revoke(self, allowance: Allowance) -> None:
        """Withdraw a permission; a server that may no longer start is ended."""
        self.consent.revoke(allowance)
        server = next((one for one in self.servers if one.hash == allowance.owner), None)
        if server is not None and not allowance.tool:
            self.host.stop(server)
        self.changed.emit()

    def _begin(self, answer: int, names: tuple[str, ...]) -> None:
        made = self._prepared[answer] = _Prepared(names)
        self._read()
        made.found += [BUILT_IN[name] for name in names if name in BUILT_IN]
        wanted = [server for server in self.servers if server.name in names]
        made.waits = {server.name for server in wanted}
        for server in wanted:
            if self.consent.may_start(server) is not None:
                self._list(server)
            elif server not in self._waiting and server != self.in_question:
                self._waiting.append(server)
        if not wanted:
            self._finish(made)
        QTimer.singleShot(
            0, self, self._question_next
        )  # `changed` must not arrive before the reply

    def _question_next(self) -> None:
        needed = {name for one in self._prepared.values() for name in one.waits}
        self._waiting = [server for server in self._waiting if server.name in needed]
        if self.in_question is None and self._waiting:
            self.in_question = self._waiting.pop(0)
        self.changed.emit()

    def _list(self, server: ServerConfig) -> None:
        permit = self.consent.may_start(server)
        if permit is None:
            return
        job = Work(lambda: self.host.tools(permit).result())
        job.then(lambda tools: self._listed(server, tools, ""))
        job.fail(lambda why: self._listed(server, [], why)).start(self)

    def _listed(self, server: ServerConfig, tools: list[KnownTool], problem: str) -> None:
        self.problems.pop(server.name, None)
        if problem:
            self.problems[server.name] = problem
            self.problem.emit(Problem("BadTools", problem))
        for tool in self.consent.review(tools):
            text = tr("{full} has a new description; it needs your consent again", full=tool.full)
            self.problem.emit(Problem("ToolChanged", text))
        self.known = {n: t for n, t in self.known.items() if t.owner != server.hash}
        self.known |= {tool.full: tool for tool in tools}
        for made in self._prepared.values():
            if server.name in made.waits:
                made.waits.discard(server.name)
                made.found += tools
                if not made.waits:
                    self._finish(made)
        self.changed.emit()

    def _finish(self, made: _Prepared) -> None:
        kept, notes = without_clashes(made.found)
        made.tools = {tool.full: tool for tool in kept}
        for text in notes:
            self.problem.emit(Problem("ToolLeftOut", text))

    # After an answer

    def run(self, answer: int, calls: Calls) -> None:
        """Make the calls of an answer: those that are allowed at once, others once a person has
        decided.
        """
        prepared = self._prepared.pop(answer, None)
        calls.tools = prepared.tools if prepared is not None else {}
        self._calls.append(calls)
        for place, use in enumerate(list(calls.uses)):
            tool = calls.tools.get(use.name)
            if place >= MOST_CALLS:
                self._end(calls, use.id, "failed", failure(TOO_MANY))
            elif tool is None:
                problem = tr("there is no tool {name!r}", name=use.name[:80])
                self._end(calls, use.id, "failed", failure(problem))
            elif problem := arguments_problem(tool.schema, use.arguments):
                self._end(calls, use.id, "failed", failure(problem))
            elif permit := self.consent.may_call(tool, use.arguments, calls.chat):
                self._call(calls, use, permit)
            else:
                calls.set(replace(use, state="asking"))
        calls.changed()
        self._end_if_over(calls)

    def decide(self, uses: Sequence[ToolUse], number: str, decision: Decision) -> None:
        """The person has read a requested call and decided."""
        calls = next((c for c in self._calls if any(u in c.uses for u in uses)), None)
        use = calls.use(number) if calls is not None else None
        if calls is None or use is None or use.state != "asking":
            return  # a second click
        tool = calls.tools[use.name]
        permit = self.consent.decide(tool, use.arguments, calls.chat, decision)
        if permit is None:
            self._end(calls, number, "denied", failure(DENIED))
        else:
            self._call(calls, use, permit)
        if decision == "chat":
            self._call_allowed(calls)
        calls.changed()
        self._end_if_over(calls)

    def tool_of(self, uses: Sequence[ToolUse], number: str) -> KnownTool | None:
        """The tool of a call under way, as its server describes it."""
        for calls in self._calls:
            use = calls.use(number) if any(u in calls.uses for u in uses) else None
            if use is not None and use.name in calls.tools:
                return calls.tools[use.name]
        return None

    def stop(self, uses: Sequence[ToolUse]) -> None:
        """End the calls of an answer at once."""
        for calls in [c for c in self._calls if any(u in c.uses for u in uses)]:
            for future in calls.futures.values():
                future.cancel()
            for use in list(calls.uses):
                self._end(calls, use.id, "stopped", failure(STOPPED))
            calls.changed()
            self._end_if_over(calls)

    def close(self) -> None:
        """End all servers."""
        self.host.close()

    def _call_allowed(self, calls: Calls) -> None:
        """Make the other calls that the decision allows as well."""
        for use in [u for u in calls.uses if u.state == "asking"]:
            tool = calls.tools[use.name]
            if permit := self.consent.may_call(tool, use.arguments, calls.chat):
                self._call(calls, use, permit)

    def _call(self, calls: Calls, use: ToolUse, permit: CallPermit) -> None:
        calls.set(replace(use, state="running"))
        calls.began[use.id] = monotonic()
        if permit.tool.built_in:
            self._ended(calls, use.id, run_built_in(*permit.use(), calls.documents))
            return
        future = calls.futures[use.id] = self.host.call(permit)
        job = Work(_result, future).then(partial(self._ended, calls, use.id))
        job.fail(lambda why: self._ended(calls, use.id, failure(why))).start(self)

    def _ended(self, calls: Calls, number: str, result: ToolResult | None) -> None:
        if result is None or calls.over:
            return  # it was stopped
        self._end(calls, number, "failed" if result.failed else "done", result)
        calls.changed()
        self._end_if_over(calls)

    def _end(self, calls: Calls, number: str, state: CallState, result: ToolResult) -> None:
        use = calls.use(number)
        if use is None or use.ended:
            return
        began = calls.began.get(number)
        seconds = 0.0 if began is None else round(monotonic() - began, 3)
        ended = calls.keep(replace(use, seconds=seconds), result)
        calls.set(replace(ended, state=state))

    def _end_if_over(self, calls: Calls) -> None:
        if not calls.over and all(use.ended for use in calls.uses):
            calls.over = True
            self._calls.remove(calls)
            calls.done()


def _result(future: "Future[ToolResult]") -> ToolResult | None:
    try:
        return future.result()
    except CancelledError:
        return None
