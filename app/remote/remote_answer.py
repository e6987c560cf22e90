"""One answer of a server: requested, retried only before its first token, measured here.

Times are ours: from the question to the first byte, the first token, the last. Where the server
sends its own (`timings`), what is left of the wait is the network's and the queue's.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import httpx2
import msgspec

from app.remote import body as bodies
from app.remote.connection import ServedModel, ServerKind
from app.remote.frames import ChatChunk, Reader, read_chunk
from app.remote.link import MOST_BODY, ServerLink
from app.remote.problems import ServerFailed, no_interface, refused, stream_error, unreachable
from engine.protocol import Finished, Generate, Progress, Reply, Stats

MOST_EVENT = 4 << 20  # bytes of one event
MOST_ANSWER = 64 << 20  # bytes of all its events, which are mostly not text
WAITS = (0.5, 2.0)  # seconds before the second try and the third
LONGEST_WAIT = 30.0  # that a server may demand; else the person decides
DONE = "[DONE]"
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
BLIND = ("image", "vision", "multimodal", "picture", "mmproj")


@dataclass
class OpenedModel:
    """A model that is chatted with; `unknown` are fields that its server has refused."""

    link: ServerLink
    kind: ServerKind
    model: ServedModel
    others: list[str]
    unknown: set[str] = field(default_factory=set)

    async def refusal(self, answer: httpx2.Response) -> ServerFailed:
        """Convert an error response to a ServerFailed."""
        link, content = self.link, await self.link.error(answer)
        response = answer.status_code, answer.headers, content
        return refused(link.to, *response, link.key, self.model.id, self.others)


class RemoteAnswer:
    """A `Generate` that a server answers; `on_reply` gets all replies but the last."""

    def __init__(
        self,
        opened: OpenedModel,
        request: Generate,
        seed: int,
        pictures: Mapping[str, bytes],
        on_reply: Callable[[Reply], None],
    ) -> None:
        self._opened, self._request, self._seed, self._on_reply = opened, request, seed, on_reply
        fields = bodies.body(opened.model.id, opened.kind, request, seed, pictures)
        self._fields = {k: v for k, v in fields.items() if k not in opened.unknown}
        self._shows = any(message.pictures for message in request.messages)
        repeats = request.prefix if opened.kind in bodies.REPEATS else ""
        self._reader = Reader(request.id, request.apart, "logprobs" in self._fields, repeats)
        self._notes: list[str] = []
        self._n_tokens = 0
        self._began = monotonic()
        self._first: float | None = None  # when the first token came
        self._last = self._began
        self._has_begun = False

    async def run(self) -> Finished:
        """Send it, and pass on the replies. Raises ServerFailed; cancelled it ends as such."""
        try:
            await self._until_answered()
        except asyncio.CancelledError:
            return self._finished("cancelled")
        return self._finished(self._reader.reason or "stop")

    async def _until_answered(self) -> None:
        tries = 0
        while True:
            try:
                await self._send()
                return
            except ServerFailed as error:
                if self._has_begun:
                    raise
                if self._leave_out(error):
                    continue
                tries += 1
                await self._wait(error, tries)

    def _leave_out(self, error: ServerFailed) -> bool:
        """Fields that the server does not know; noted in the answer, and not sent again."""
        if error.status not in (400, 422):
            return False
        gone = [
            name for name in bodies.named(self._fields, error.server_text) if name in self._fields
        ]
        for name in gone:
            del self._fields[name]
        self._opened.unknown.update(gone)
        if gone:
            self._notes.append(f"Not supported by the server and left out: {', '.join(gone)}")
        return bool(gone)

    async def _wait(self, error: ServerFailed, tries: int) -> None:
        """Before another try; raises the error where none makes sense."""
        seconds = error.after if error.after is not None else WAITS[min(tries, len(WAITS)) - 1]
        if not error.again or tries > len(WAITS) or seconds > LONGEST_WAIT:
            raise self._with_pictures(error)
        text = f"{error}; retrying in {seconds:g} s ({tries} of {len(WAITS)})"
        self._notes.append(f"Retried after {seconds:g} s: {error.problem}")
        self._on_reply(Progress(self._request.id, "prefill", 0, 0, note=text))
        await asyncio.sleep(seconds)

    def _with_pictures(self, error: ServerFailed) -> ServerFailed:
        words = error.server_text.lower()
        if self._shows and error.status >= 400 and any(word in words for word in BLIND):
            status, text = error.status, error.server_text
            problem = f"its model does not accept pictures ({status}: {text}); remove them"
            return ServerFailed(error.name, problem, status=error.status)
        return error

    async def _send(self) -> None:
        opened, link = self._opened, self._opened.link
        try:
            async with link.send("POST", f"{link.to.api}/chat/completions", self._fields) as answer:
                if answer.status_code != 200:
                    raise await opened.refusal(answer)
                kind, _, _ = answer.headers.get("content-type", "").lower().partition(";")
                if kind.strip() == "text/event-stream":
                    await self._take_stream(answer)
                elif "json" in kind:
                    await self._take_whole(answer)
                else:
                    raise no_interface(link.to, answer.headers)
        except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError, OSError) as error:
            raise unreachable(link.to, error, self._has_begun) from error

    async def _take_stream(self, answer: httpx2.Response) -> None:
        name = self._opened.link.to.name
        done, size = False, 0
        async for event in httpx2.EventSource(answer, MOST_EVENT):
            if event.data.startswith(DONE):
                done = True
                break
            if event.data:
                self._take(event.data)
                size += len(event.data)
            if size > MOST_ANSWER:
                problem = (
                    f"its answer is larger than {MOST_ANSWER >> 20} MiB; the text so far is kept"
                )
                raise ServerFailed(name, problem)
            await asyncio.sleep(0)  # a cancel, also of a server that never pauses
        if not done and not self._reader.reason:
            what = "the text so far is kept" if self._has_begun else "nothing was received"
            problem = f"the connection closed during the answer; {what}"
            raise ServerFailed(name, problem, again=True)
        self._end()

    async def _take_whole(self, answer: httpx2.Response) -> None:
        """An answer in one piece, of a server that does not stream."""
        parts, size = [], 0
        async for part in answer.aiter_bytes():
            parts.append(part)
            size += len(part)
            if size > MOST_BODY:
                raise ServerFailed(self._opened.link.to.name, "its answer is larger than 16 MiB")
        self._take(b"".join(parts))
        if not self._has_begun and not self._reader.reason:
            raise ServerFailed(self._opened.link.to.name, "its response contains no answer")
        self._notes.append("The server does not stream: the answer arrived in one piece")
        self._end()

    def _take(self, data: str | bytes) -> None:
        name, key = self._opened.link.to.name, self._opened.link.key
        try:
            chunk: ChatChunk = read_chunk(data)
        except UNREADABLE:
            kept = "; the text so far is kept" if self._has_begun else ""
            raise ServerFailed(name, f"it sent an event that is not chat JSON{kept}") from None
        if chunk.error:
            raise stream_error(name, chunk.error, key)
        for piece in self._reader.read(chunk):
            self._has_begun, self._last = True, monotonic()
            if self._first is None:
                self._first = self._last
            self._n_tokens += len(piece.tokens)
            self._on_reply(piece)

    def _end(self) -> None:
        for piece in self._reader.end():
            self._on_reply(piece)

    def _finished(self, reason: str) -> Finished:
        self._end()
        reader, usage, timings = self._reader, self._reader.usage, self._reader.timings
        notes = list(self._notes)
        counted = usage.completion_tokens if usage is not None else None
        n = counted if counted is not None else self._n_tokens or reader.n_frames
        if counted is None and reader.n_frames:
            notes.append("The server reported no token count; it is estimated")
        details = usage.prompt_tokens_details if usage is not None else None
        cached = (timings.cache_n if timings else None) or (
            details.cached_tokens if details is not None else None
        )
        first = (self._first or self._last) - self._began
        prompt = (usage.prompt_tokens if usage is not None else None) or 0
        prefill = first
        if timings is not None and timings.prompt_ms is not None and self._first is not None:
            prefill = min(max(timings.prompt_ms / 1000, 0.0), first)
            apart = 1000 * (first - prefill)
            notes.append(f"Network and queue took {apart:.0f} ms of the wait for the first token")
        if timings is not None and timings.predicted_per_second:
            notes.append(f"The server measured {timings.predicted_per_second:.1f} tokens a second")
        decode = self._last - (self._first or self._last)
        stats = Stats(
            prompt, min(cached or 0, prompt), n, 0.0, prefill, first, decode, self._seed,
            prompt + n, notes=notes,
        )  # fmt: skip
        return Finished(self._request.id, reason, stats)


def unknown_seed(request: Generate, draw: Callable[[], int]) -> int:
    """The seed to send: the requested one, or a drawn one, so that it is known."""
    seed: Any = request.sampling.seed
    return draw() if seed is None else int(seed) % (1 << 53)
