"""Parser of `/chat/completions` streams: chunks of several dialects as typed pieces.

Thoughts come as `reasoning_content` (llama-server, LM Studio, SGLang, Cutaway) or `reasoning`
(vLLM, Ollama). Within the answer they stand between think marks, as the models write
them.
"""

from collections.abc import Iterator
from typing import Any
from zlib import crc32

import msgspec

from app.remote.body import THOUGHT_BEGINS, THOUGHT_ENDS
from engine.protocol import Alternative, CallPart, Piece, TokenInfo

REASONS = {"stop": "stop", "length": "length", "tool_calls": "calls", "function_call": "calls"}


class Likely(msgspec.Struct, frozen=True):
    """A token with its log-probability; `id` where the server sends it (llama-server)."""

    token: str
    logprob: float | None = None
    bytes: list[int] | None = None
    id: int | None = None
    top_logprobs: "list[Likely] | None" = None


class LikelyTokens(msgspec.Struct, frozen=True):
    content: list[Likely] | None = None


class CalledFunction(msgspec.Struct, frozen=True):
    name: str | None = None
    arguments: str | None = None


class CallDelta(msgspec.Struct, frozen=True):
    index: int = 0
    id: str | None = None
    function: CalledFunction | None = None


class Delta(msgspec.Struct, frozen=True):
    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    tool_calls: list[CallDelta] | None = None


class Choice(msgspec.Struct, frozen=True):
    """A choice with `delta` in a stream and `message` in a single response."""

    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None
    logprobs: LikelyTokens | None = None


class ServerTimings(msgspec.Struct, frozen=True):
    """Times that the server measured (llama-server, Cutaway)."""

    cache_n: int | None = None
    prompt_ms: float | None = None
    predicted_per_second: float | None = None


class CachedTokens(msgspec.Struct, frozen=True):
    cached_tokens: int | None = None


class Usage(msgspec.Struct, frozen=True):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: CachedTokens | None = None


class ChatChunk(msgspec.Struct, frozen=True):
    choices: list[Choice] | None = None
    usage: Usage | None = None
    timings: ServerTimings | None = None
    error: Any = None
    system_fingerprint: str | None = None


read_chunk = msgspec.json.Decoder(ChatChunk).decode
"""A frame's data. Raises msgspec's errors, UnicodeDecodeError and RecursionError."""


class Reader:
    """Chunks in order become pieces of the request `id`, `apart` or with thoughts in marks. What
    the server `repeats` before it goes on with an answer is left out.
    """

    def __init__(self, id: int, apart: bool, logprobs: bool, repeats: str = "") -> None:
        self._id, self._apart, self._logprobs = id, apart, logprobs
        self._repeats, self._held = repeats, ""
        self._thinks = False
        self.reason = ""
        self.usage: Usage | None = None
        self.timings: ServerTimings | None = None
        self.n_frames = 0

    def read(self, chunk: ChatChunk) -> Iterator[Piece]:
        """Yield the pieces of a chunk; counts and the reason of the end are kept."""
        self.usage = chunk.usage or self.usage
        self.timings = chunk.timings or self.timings
        for choice in (chunk.choices or [])[:1]:
            yield from self._choice(choice)
            if choice.finish_reason:
                self.reason = REASONS.get(choice.finish_reason, "stop")

    def end(self) -> Iterator[Piece]:
        """Yield the text that was held back, and the end of an unfinished thought."""
        if self._held:
            held, self._held, self._repeats = self._held, "", ""
            yield Piece(self._id, held, [])
        if self._thinks and not self._apart:
            self._thinks = False
            yield Piece(self._id, f"\n{THOUGHT_ENDS}\n", [])

    def _choice(self, choice: Choice) -> Iterator[Piece]:
        delta = choice.delta or choice.message
        if delta is None:
            return
        thought = _text(delta.reasoning_content) or _text(delta.reasoning)
        content = self._new(_text(delta.content))
        likely = (choice.logprobs.content if choice.logprobs else None) or []
        tokens = [token_of(one) for one in likely] if self._logprobs else []
        if thought or content:
            self.n_frames += 1
        if thought:
            yield from self._piece(thought, tokens if not content else [], thinks=True)
        if content:
            yield from self._piece(content, tokens, thinks=False)
        for call in delta.tool_calls or []:
            made = call.function or CalledFunction()
            part = CallPart(call.index, call.id or "", made.name or "", made.arguments or "")
            yield Piece(self._id, "", [], "call", part)

    def _new(self, content: str) -> str:
        """Remove a repetition of the answer's start; held back while it may be one."""
        if not self._repeats or not content:
            return content
        seen = self._held + content
        if self._repeats.startswith(seen) and seen != self._repeats:
            self._held = seen
            return ""
        new = seen.removeprefix(self._repeats)
        self._repeats = self._held = ""
        return new

    def _piece(self, text: str, tokens: list[TokenInfo], thinks: bool) -> Iterator[Piece]:
        if self._apart:
            yield from _split(self._id, text, tokens, "thought" if thinks else "answer")
            return
        if thinks != self._thinks:
            mark = f"{THOUGHT_BEGINS}\n" if thinks else f"\n{THOUGHT_ENDS}\n\n"
            self._thinks = thinks
            yield Piece(self._id, mark, [TokenInfo(token_id(mark), None, mark)] if tokens else [])
            text = text if thinks else text.lstrip("\n")
        yield from _split(self._id, text, tokens, "answer")


def token_of(likely: Likely) -> TokenInfo:
    """A token with what else could have come, likeliest first."""
    top = [
        Alternative(_id(other), _shown(other), min(other.logprob, 0.0))
        for other in likely.top_logprobs or []
        if other.logprob is not None and other.logprob == other.logprob
    ]
    known = likely.logprob is not None and likely.logprob == likely.logprob
    chance = min(likely.logprob or 0.0, 0.0) if known else None
    return TokenInfo(_id(likely), chance, _shown(likely), top)


def token_id(text: str) -> int:
    """A number for a token whose id the server does not give: the same for the same text, and
    below 0, so that nobody takes it for the server's.
    """
    return ~(crc32(text.encode("utf-8", "surrogatepass")) & 0x7FFFFFFF)


def _id(likely: Likely) -> int:
    if likely.id is not None and 0 <= likely.id < 1 << 31:
        return likely.id
    return token_id(_shown(likely))


def _shown(likely: Likely) -> str:
    """Its text; of a part of a character the bytes."""
    if likely.bytes and "\ufffd" in likely.token:
        data = bytes(b & 0xFF for b in likely.bytes)
        return data.decode("utf-8", "backslashreplace")[:200]
    return likely.token[:200]


def _split(id: int, text: str, tokens: list[TokenInfo], kind: Any) -> Iterator[Piece]:
    """A piece a token, where their texts make the text; else one piece."""
    if len(tokens) > 1 and "".join(token.text for token in tokens) == text:
        for token in tokens:
            yield Piece(id, token.text, [token], kind)
    elif text or tokens:
        yield Piece(id, text, tokens, kind)


def _text(value: Any) -> str:
    """A text, or the texts of parts."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        parts = [part.get("text") for part in value if isinstance(part, dict)]
        return "".join(part for part in parts if isinstance(part, str))
    return ""
