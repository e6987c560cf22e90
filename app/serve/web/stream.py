"""Answers on their way out: whole, or frame by frame, to a reader who may be slow or leave."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from app.serve.web.refusal import Refusal, error_value

Send = Callable[[Any], Any]
KEEP_ALIVE = 10.0  # seconds of silence
READER_SECONDS = 60.0  # that a reader may take nothing
NEVER_KEPT = {"cache-control": "no-cache", "x-accel-buffering": "no"}


@dataclass(frozen=True)
class Whole:
    """An answer in one piece."""

    body: bytes
    media: str = "application/json"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class FrameStream:
    """An answer in pieces, as they come; `alive` is sent in silence, and `failed` makes a frame of
    what goes wrong behind the first.
    """

    frames: AsyncIterator[bytes]
    failed: Callable[[Refusal], bytes]
    media: str = "text/event-stream; charset=utf-8"
    alive: bytes = b":\n\n"


Reply = Whole | FrameStream


def json(value: Any, status: int = 200) -> Whole:
    """An answer that is JSON."""
    return Whole(msgspec.json.encode(value), status=status)


def event(value: Any) -> bytes:
    """A server-sent event; JSON has no line ends inside."""
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


def error_event(refusal: Refusal) -> bytes:
    """An error in a stream of OpenAI's, behind which nothing comes."""
    return event(error_value(refusal))


async def send_whole(send: Send, whole: Whole) -> None:
    """Send it."""
    headers = {"content-type": whole.media, "content-length": str(len(whole.body))} | whole.headers
    await send({"type": "http.response.start", "status": whole.status, "headers": _raw(headers)})
    await send({"type": "http.response.body", "body": whole.body})


async def send_frames(
    send: Send, stream: FrameStream, a_bug: Callable[[Exception], Refusal]
) -> None:
    """Send frames as they come. An error before the first is raised, a later one is sent and
    the stream ends; a reader who takes nothing for a minute is left.
    """
    writer = _StreamWriter(send, stream)
    frames = aiter(stream.frames)
    try:
        while True:
            frame = await writer.wait(asyncio.ensure_future(_next(frames)))
            if frame is None:
                break
            await writer.write(frame)
    except Refusal as refusal:
        if not writer.begun:
            raise
        await writer.write(stream.failed(refusal))
    except (asyncio.CancelledError, TimeoutError):
        raise
    except Exception as error:  # noqa: BLE001  a bug: sent without its details
        if not writer.begun:
            raise
        await writer.write(stream.failed(a_bug(error)))
    finally:
        with contextlib.suppress(Exception):
            await stream.frames.aclose()  # type: ignore[attr-defined]
    await writer.write(b"", more=False)


async def _next(frames: AsyncIterator[bytes]) -> bytes | None:
    return await anext(frames, None)


class _StreamWriter:
    def __init__(self, send: Send, stream: FrameStream) -> None:
        self._send, self._stream = send, stream
        self.begun = False

    async def wait(self, coming: "asyncio.Future[bytes | None]") -> bytes | None:
        """The next frame; meanwhile comments keep the connection alive."""
        try:
            while not (await asyncio.wait({coming}, timeout=KEEP_ALIVE))[0]:
                await self.write(self._stream.alive)
            return coming.result()
        finally:
            if not coming.done():
                coming.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await coming

    async def write(self, frame: bytes, more: bool = True) -> None:
        async with asyncio.timeout(READER_SECONDS):
            if not self.begun:
                self.begun = True
                headers = {"content-type": self._stream.media} | NEVER_KEPT
                start = {"type": "http.response.start", "status": 200, "headers": _raw(headers)}
                await self._send(start)
            await self._send({"type": "http.response.body", "body": frame, "more_body": more})


def _raw(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
