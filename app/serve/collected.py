"""One answer put together from its pieces: its text and calls, usage, times, log-probabilities."""

from dataclasses import dataclass, field
from typing import Any, Self

import msgspec

from app.version import version
from engine.protocol import (
    Alternative,
    CallPart,
    Finished,
    Generate,
    Piece,
    Stats,
    TokenInfo,
    ToolCall,
)


@dataclass
class Collected:
    """The text, tokens and calls of one choice so far; `finished` is its end."""

    text: str = ""
    thought: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    tokens: list[TokenInfo] = field(default_factory=list)
    prompt_tokens: list[TokenInfo] = field(default_factory=list)
    finished: Finished | None = None
    waits_for_prompt: bool = False

    @classmethod
    def of(cls, request: Generate) -> Self:
        """The answer to this request, before its first text."""
        return cls(waits_for_prompt=request.prompt_logprobs is not None)

    def add(self, reply: object) -> None:
        """One more of the engine's replies."""
        if isinstance(reply, Piece):
            self.take(reply)
        elif isinstance(reply, Finished):
            self.finished = reply

    def take(self, piece: Piece) -> None:
        """One more piece; where the prompt's tokens were requested, the first is of these."""
        if self.waits_for_prompt:
            self.prompt_tokens, self.waits_for_prompt = piece.tokens, False
            return
        self.tokens += piece.tokens
        if piece.call is not None:
            self._call(piece.call)
        elif piece.kind == "thought":
            self.thought += piece.text
        else:
            self.text += piece.text

    @property
    def end(self) -> Finished:
        """How it ended."""
        assert self.finished is not None
        return self.finished

    def drop_cut_call(self) -> None:
        """Leave out a last call that the end of the answer has cut: its arguments are no JSON."""
        if self.calls and self.end.reason != "calls":
            try:
                msgspec.json.decode(self.calls[-1].arguments)
            except msgspec.DecodeError:
                del self.calls[-1]

    def _call(self, part: CallPart) -> None:
        while len(self.calls) <= part.index:
            self.calls.append(ToolCall("", "", ""))
        call = self.calls[part.index]
        self.calls[part.index] = ToolCall(
            call.id or part.id, call.name or part.name, call.arguments + part.arguments
        )


FINISH = {
    "stop": "stop",
    "length": "length",
    "context": "length",
    "loop": "length",
    "calls": "tool_calls",
}
FINGERPRINT = f"cutaway-{version()}"


def usage(choices: list[Collected]) -> dict[str, Any]:
    """Tokens of a prompt that was read once, and of all its answers."""
    stats = [choice.end.stats for choice in choices]
    prompt, made = stats[0].n_prompt, sum(one.n_generated for one in stats)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": made,
        "total_tokens": prompt + made,
        "prompt_tokens_details": {"cached_tokens": stats[0].n_cached},
    }


def timings(stats: Stats) -> dict[str, Any]:
    """The times of an answer under llama-server's names."""
    read, prompt_ms, predicted_ms = (
        stats.n_prompt - stats.n_cached,
        stats.prefill_s * 1e3,
        stats.decode_s * 1e3,
    )
    return {
        "cache_n": stats.n_cached,
        "prompt_n": read,
        "prompt_ms": round(prompt_ms, 3),
        "prompt_per_second": round(stats.prefill_rate, 3),
        "predicted_n": stats.n_generated,
        "predicted_ms": round(predicted_ms, 3),
        "predicted_per_second": round(stats.decode_rate, 3),
        "draft_n": stats.n_drafted,
        "draft_n_accepted": stats.n_accepted,
    }


def logprobs(tokens: list[TokenInfo], top: int) -> dict[str, Any]:
    """Tokens with the likeliest `top` in their places, as chats have them."""
    return {"content": [_entry(token) | {"top_logprobs": _top(token, top)} for token in tokens]}


def _top(token: TokenInfo, top: int) -> list[dict[str, Any]]:
    return [_entry(one) for one in token.top[:top]]


def _entry(token: TokenInfo | Alternative) -> dict[str, Any]:
    data = text_bytes(token)
    return {"token": token.text, "logprob": token.logprob, "bytes": list(data)}


def text_bytes(token: TokenInfo | Alternative) -> bytes:
    """A token's bytes; half a character has no text."""
    return token.data or token.text.encode()
