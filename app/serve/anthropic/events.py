"""Frames of a stream, usage and errors, as Anthropic's clients read them."""

from typing import Any

import msgspec

from app.serve.web.refusal import Refusal
from engine.protocol import Finished, Piece, Progress, Stats

KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "not_found_error",
    413: "request_too_large",
    415: "invalid_request_error",
    429: "rate_limit_error",
    501: "invalid_request_error",
    503: "overloaded_error",
}


def event(value: dict[str, Any]) -> bytes:
    """A frame, named by its type."""
    name: str = value["type"]
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(value) + b"\n\n"


def error(refusal: Refusal) -> bytes:
    """The body of an error."""
    return msgspec.json.encode(_error(refusal))


def error_frame(refusal: Refusal) -> bytes:
    """An error in a stream."""
    return event(_error(refusal))


def _error(refusal: Refusal) -> dict[str, Any]:
    kind = KINDS.get(refusal.status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": refusal.message}}


def reason(end: Finished) -> str:
    """Why an answer ended."""
    if end.matched is not None:
        return "stop_sequence"
    return {"stop": "end_turn", "calls": "tool_use"}.get(end.reason, "max_tokens")


def usage(stats: Stats) -> dict[str, Any]:
    """Tokens; those of the prompt that were cached are counted apart."""
    return {
        "input_tokens": stats.n_prompt - stats.n_cached,
        "output_tokens": stats.n_generated,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": stats.n_cached,
    }


class MessageStream:
    """One message's events: a block at a time, opened by its first piece."""

    def __init__(self, number: str, model: str) -> None:
        self._number, self._model = number, model
        self._begun = False
        self._index = -1
        self._open: tuple[str, int] | None = None  # the kind of the open block, and its call

    def frames(self, reply: object) -> bytes:
        """Convert a reply of the engine to event frames."""
        begin = b"" if self._begun else self._start(reply)
        if isinstance(reply, Piece):
            return begin + self._piece(reply)
        if isinstance(reply, Finished):
            return begin + self._close() + self._end(reply)
        return begin

    def _start(self, reply: object) -> bytes:
        self._begun = True
        read = reply.total if isinstance(reply, Progress) and reply.stage == "prefill" else 0
        message: dict[str, Any] = {
            "id": self._number,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": read, "output_tokens": 0},
        }
        return event({"type": "message_start", "message": message})

    def _piece(self, piece: Piece) -> bytes:
        if piece.call is not None:
            part = piece.call
            block = {"type": "tool_use", "id": part.id, "name": part.name, "input": {}}
            begin = self._in_block(("call", part.index), block)
            delta = {"type": "input_json_delta", "partial_json": part.arguments}
            return begin + (self._delta(delta) if part.arguments else b"")
        if not piece.text:
            return b""
        if piece.kind == "thought":
            block = {"type": "thinking", "thinking": "", "signature": ""}
            delta = {"type": "thinking_delta", "thinking": piece.text}
            return self._in_block(("thought", 0), block) + self._delta(delta)
        block = {"type": "text", "text": ""}
        begin = self._in_block(("answer", 0), block)
        return begin + self._delta({"type": "text_delta", "text": piece.text})

    def _in_block(self, wanted: tuple[str, int], block: dict[str, Any]) -> bytes:
        if self._open == wanted:
            return b""
        closed = self._close()
        self._open, self._index = wanted, self._index + 1
        value = {"type": "content_block_start", "index": self._index, "content_block": block}
        return closed + event(value)

    def _delta(self, delta: dict[str, Any]) -> bytes:
        return event({"type": "content_block_delta", "index": self._index, "delta": delta})

    def _close(self) -> bytes:
        if self._open is None:
            return b""
        thought, self._open = self._open[0] == "thought", None
        signed = self._delta({"type": "signature_delta", "signature": ""}) if thought else b""
        return signed + event({"type": "content_block_stop", "index": self._index})

    def _end(self, end: Finished) -> bytes:
        delta = {"stop_reason": reason(end), "stop_sequence": end.matched}
        body = {"type": "message_delta", "delta": delta, "usage": usage(end.stats)}
        return event(body) + event({"type": "message_stop"})
