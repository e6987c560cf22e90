"""Connections to tool servers for the SDK: a process whose output is bounded, or HTTP.

A process leads a group of its own. It ends with its input, else its group is ended, within
3 * GRACE_S; on Linux also when the program that started it is killed.
"""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from app.tools.config import BadTools, ServerConfig, is_loopback, visible
from engine.system import end_group, end_with_parent, program_file
from engine.units import MIB

GRACE_S = 1.0
LONGEST_LINE = 48 * MIB  # 16 MiB as text and once more as structured content, escaped
MOST_NOISE = 1000  # lines in a row that are no messages
MOST_BODY = 64 * MIB
TAIL = 2000  # bytes of stderr that an error shows
INHERITED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "TMPDIR")
INHERITED_WINDOWS = (
    *("APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT"),
    *("PROCESSOR_ARCHITECTURE", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE"),
)


class ServerProcess:
    """A server's process as the SDK's transport. `problem` says why it was ended, `last_words` is
    the end of what it wrote to stderr.
    """

    def __init__(self, config: ServerConfig, environment: dict[str, str]) -> None:
        self._config, self._environment = config, environment
        self.problem, self.last_words = "", b""
        self.pid: int | None = None
        self.ended = False

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[Any]:
        """Start it; the streams of messages. Raises BadTools where it cannot be started."""
        import anyio

        process = await self._started()
        self.pid = process.pid
        into, messages = anyio.create_memory_object_stream[Any](0)
        outgoing, out_of = anyio.create_memory_object_stream[Any](0)
        tasks = [
            asyncio.create_task(self._read(process, into)),
            asyncio.create_task(self._write(process, out_of)),
            asyncio.create_task(self._listen(process)),
        ]
        try:
            yield messages, outgoing
        finally:
            ending = asyncio.ensure_future(self._end(process, tasks))
            while not ending.done():  # also where this task is cancelled
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.shield(ending)
            for stream in (into, messages, outgoing, out_of):
                stream.close()

    async def _started(self) -> asyncio.subprocess.Process:
        config = self._config
        options: dict[str, Any] = {"start_new_session": True, "preexec_fn": end_with_parent}
        if sys.platform == "win32":
            options = {"creationflags": subprocess.CREATE_NO_WINDOW}
        try:
            return await asyncio.create_subprocess_exec(
                program_file(config.command, self._environment.get("PATH")),
                *config.args,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=self._environment,
                cwd=config.cwd or None,
                limit=LONGEST_LINE,
                **options,
            )
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            command = visible(config.command)
            raise BadTools(f"server {config.name}: {command} cannot be started: {why}") from None

    async def _read(self, process: asyncio.subprocess.Process, into: Any) -> None:
        from mcp.shared.message import SessionMessage
        from mcp_types import jsonrpc_message_adapter

        assert process.stdout is not None
        noise = 0
        try:
            while line := await process.stdout.readline():
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:  # a program that prints to stdout
                    noise += 1
                    if noise > MOST_NOISE:
                        self.problem = f"it wrote {noise} lines that are not messages"
                        break
                    continue
                noise = 0
                await into.send(SessionMessage(message))
        except ValueError:  # of readline, for its limit
            self.problem = f"it wrote a line of more than {LONGEST_LINE // MIB} MiB"
        except Exception as error:  # noqa: BLE001  the session has closed the stream
            self.problem = self.problem or type(error).__name__
        finally:
            self.ended = True
            if self.problem:
                end_group(process.pid, force=True)
            into.close()

    async def _write(self, process: asyncio.subprocess.Process, out_of: Any) -> None:
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            async for message in out_of:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(f"{text}\n".encode())
                await process.stdin.drain()

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        while data := await process.stderr.read(1 << 16):
            self.last_words = (self.last_words + data)[-TAIL:]

    async def _end(
        self, process: asyncio.subprocess.Process, tasks: list["asyncio.Task[None]"]
    ) -> None:
        """Close its input and wait; then end the group, which a child of it may survive."""
        assert process.stdin is not None
        process.stdin.close()
        for force in (False, True):
            if await _exits(process):
                break
            end_group(process.pid, force)
        await _exits(process)
        end_group(process.pid, force=True)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _exits(process: asyncio.subprocess.Process) -> bool:
    """Wait GRACE_S at most. Not by `wait`, which also waits for children that keep the pipes."""
    for _ in range(100):
        if process.returncode is not None:
            return True
        await asyncio.sleep(GRACE_S / 100)
    return process.returncode is not None


class ServerAddress:
    """A server at an address as the SDK's transport: streamable HTTP with bounded responses, and
    no proxy for this machine.
    """

    pid: int | None = None
    ended = False

    def __init__(self, config: ServerConfig, headers: dict[str, str]) -> None:
        self._url, self._headers = config.url, headers
        self.problem, self.last_words = "", b""

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[Any]:
        """The streams of messages."""
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        client = httpx2.AsyncClient(
            headers=self._headers,
            timeout=httpx2.Timeout(30.0, read=300.0),
            trust_env=not is_loopback(urlsplit(self._url).hostname or ""),
            event_hooks={"response": [self._take]},
        )
        async with (
            client,
            streamable_http_client(
                self._url, http_client=client, max_sse_event_size=LONGEST_LINE
            ) as streams,
        ):
            yield streams

    async def _take(self, response: Any) -> None:
        if response.status_code == 401:
            self.problem = 'it needs a sign-in, which is not supported; set its key in "headers"'
        response.stream = _bounded(response.stream)


def _bounded(stream: Any) -> Any:
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            left = MOST_BODY
            async for part in stream:
                left -= len(part)
                if left < 0:
                    raise httpx2.ReadError(f"more than {MOST_BODY // MIB} MiB in one response")
                yield part

        async def aclose(self) -> None:
            await stream.aclose()

    return Bounded()
