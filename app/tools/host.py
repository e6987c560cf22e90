"""Tool servers while they run: one thread with its own event loop, which nothing else enters.

Servers start by a `StartPermit` and calls run by a `CallPermit` alone. Futures are of
`concurrent.futures`: their callbacks run in that thread.
"""

import asyncio
import json
import logging
import os
import sys
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from app.tools.arguments import arguments_problem
from app.tools.config import BadTools, ServerConfig
from app.tools.consent import CallPermit, StartPermit
from app.tools.results import result_of
from app.tools.tool import MOST_TOOLS, KnownTool, ToolResult, failure, full_name
from app.tools.transport import (
    INHERITED,
    INHERITED_WINDOWS,
    ServerAddress,
    ServerProcess,
)
from app.version import version
from engine.errors import CutawayError

START_S = 30.0
LIST_S = 20.0
CALL_S = 60.0
CLOSE_S = 4.0
MOST_PAGES = 32
MISSING = "tools of servers need the MCP SDK: pip install 'cutaway[mcp]'"

T = TypeVar("T")
log = logging.getLogger("tools")


class _Running:
    """A server that was started, with the task that holds its connection open."""

    def __init__(self, config: ServerConfig, loop: asyncio.AbstractEventLoop) -> None:
        self.config = config
        self.server: ServerProcess | ServerAddress | None = None
        self.client: Any = None
        self.ready: asyncio.Future[None] = loop.create_future()
        self.stop = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    @property
    def alive(self) -> bool:
        """True while calls can be made."""
        gone = self.server is not None and self.server.ended
        return self.client is not None and not gone

    @property
    def why(self) -> str:
        """How it ended: the reason, and the end of what it wrote."""
        if self.server is None:
            return ""
        lines = self.server.last_words.decode("utf-8", "replace").strip().splitlines()
        parts = [self.server.problem, lines[-1][:300] if lines else ""]
        return "; ".join(part for part in parts if part)


class ToolHost:
    """The servers of one program. All methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running: dict[str, _Running] = {}
        self._closed = False

    def tools(self, permit: StartPermit) -> "Future[list[KnownTool]]":
        """The tools of a server as it lists them now; it is started where it does not run.

        The future raises BadTools, NotAllowed.
        """
        return self._submit(self._tools(permit))

    def call(self, permit: CallPermit) -> "Future[ToolResult]":
        """The result of one call; errors of the server are results. Cancel it to stop the call.

        The future raises NotAllowed.
        """
        return self._submit(self._call(permit))

    def stop(self, server: ServerConfig) -> "Future[None]":
        """End a server."""
        return self._submit(self._stop(server.hash))

    @property
    def processes(self) -> list[int]:
        """The process ids of servers that run."""
        every = [one.server for one in list(self._running.values()) if one.alive]
        return [server.pid for server in every if server is not None and server.pid]

    def close(self) -> None:
        """End all servers, within CLOSE_S. Harmless when done twice."""
        with self._lock:
            self._closed = True
            thread, loop = self._thread, self._loop
        if thread is None or loop is None or not thread.is_alive():
            return
        done = asyncio.run_coroutine_threadsafe(self._stop_all(), loop)
        with suppress(Exception):
            done.result(CLOSE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(1.0)

    def _submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        with self._lock:
            if self._closed:
                work.close()
                raise BadTools("tools are closed")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="tools", daemon=True
                )
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _tools(self, permit: StartPermit) -> list[KnownTool]:
        server = await self._started(permit.check())
        config = server.config
        try:
            async with asyncio.timeout(LIST_S):
                listed = await _all_tools(server.client)
        except TimeoutError:
            problem = f"it did not list its tools within {LIST_S:g} s"
            raise BadTools(f"server {config.name}: {problem}") from None
        except Exception as error:  # noqa: BLE001  whatever the SDK makes of a broken server
            raise _broken(server, error) from None
        return [_known(config, tool) for tool in listed]

    async def _started(self, config: ServerConfig) -> _Running:
        server = self._running.get(config.hash)
        if server is not None and server.ready.done() and not server.alive:
            await self._stop(config.hash)
            server = None
        if server is None:
            server = _Running(config, asyncio.get_running_loop())
            self._running[config.hash] = server
            server.task = asyncio.create_task(self._hold(server))
        try:
            await asyncio.shield(server.ready)
        except CutawayError:
            self._running.pop(config.hash, None)
            raise
        return server

    async def _hold(self, server: _Running) -> None:
        """Keep the connection open until `stop`: the SDK wants it closed by the same task."""
        try:
            from mcp.client.client import Client
            from mcp_types import Implementation
        except ImportError:
            server.ready.set_exception(BadTools(MISSING))
            return
        config = server.config
        try:
            if config.url:
                headers = await asyncio.to_thread(config.http_headers)
                server.server = ServerAddress(config, headers)
            else:
                environment = await asyncio.to_thread(_environment, config)
                server.server = ServerProcess(config, environment)
            streams = server.server.streams()
            name = Implementation(name="cutaway", version=version())
            async with asyncio.timeout(START_S) as limit:
                async with Client(streams, client_info=name) as client:
                    limit.reschedule(None)
                    server.client = client
                    server.ready.set_result(None)
                    await server.stop.wait()
        except TimeoutError:
            _fail(server, BadTools(f"server {config.name}: not ready within {START_S:g} s"))
        except BaseException as error:
            _fail(server, _broken(server, error))
            if not isinstance(error, Exception):
                raise

    async def _call(self, permit: CallPermit) -> ToolResult:
        tool, arguments = permit.use()
        server = self._running.get(tool.owner)
        if server is None or not server.alive:
            why = f" ({server.why})" if server is not None and server.why else ""
            return failure(f"the server {tool.server} is not running{why}")
        problem = arguments_problem(tool.schema, arguments)
        if problem:
            return failure(problem)
        try:
            async with asyncio.timeout(CALL_S):
                answer = await server.client.call_tool(tool.name, json.loads(arguments or "{}"))
            return await asyncio.to_thread(result_of, answer)
        except TimeoutError:
            return failure(f"{tool.full} did not answer within {CALL_S:g} s")
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001  whatever the SDK makes of a broken server
            return failure(str(_broken(server, error)))

    async def _stop(self, key: str) -> None:
        server = self._running.pop(key, None)
        if server is None or server.task is None:
            return
        server.stop.set()
        if server.client is None:
            server.task.cancel()
        done, _ = await asyncio.wait([server.task], timeout=CLOSE_S)
        if not done:
            server.task.cancel()

    async def _stop_all(self) -> None:
        await asyncio.gather(*(self._stop(key) for key in list(self._running)))


async def _all_tools(client: Any) -> list[Any]:
    found: list[Any] = []
    cursor = None
    for _ in range(MOST_PAGES):
        page = await client.list_tools(cursor=cursor, cache_mode="refresh")
        found += page.tools
        cursor = page.next_cursor
        if not cursor or len(found) > MOST_TOOLS:
            break
    return found[: MOST_TOOLS + 1]


def _known(config: ServerConfig, tool: Any) -> KnownTool:
    hints = tool.annotations
    return KnownTool(
        config.name,
        config.hash,
        tool.name,
        full_name(config.slug, tool.name),
        tool.description or "",
        json.dumps(tool.input_schema, sort_keys=True),
        bool(hints is not None and hints.destructive_hint),
    )


def _environment(config: ServerConfig) -> dict[str, str]:
    names = INHERITED_WINDOWS if sys.platform == "win32" else INHERITED
    return {n: os.environ[n] for n in names if n in os.environ} | config.environment()


def _fail(server: _Running, error: CutawayError) -> None:
    server.client = None
    if not server.ready.done():
        server.ready.set_exception(error)
    else:
        log.warning("%s", error)


def _broken(server: _Running, error: BaseException) -> CutawayError:
    """The problem in one line, from whatever groups the SDK has put it into."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    if isinstance(error, CutawayError):
        return error
    problem = " ".join(str(error).split())[:300] or type(error).__name__
    parts = [problem, server.why]
    return BadTools(f"server {server.config.name}: {'; '.join(p for p in parts if p)}")
