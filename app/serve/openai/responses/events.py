"""A response as it grows: its items, and the events that tell of them."""

import secrets
from dataclasses import dataclass, field
from time import time
from typing import Any

import msgspec

from app.serve.web.refusal import Refusal, error_value
from engine.protocol import Finished, Piece, Stats


@dataclass
class GrowingResponse:
    """One response; `given` are fields of the request that are told back."""

    model: str
    given: dict[str, Any]
    id: str = field(default_factory=lambda: f"resp_{secrets.token_hex(16)}")
    created: int = field(default_factory=lambda: int(time()))
    items: list[dict[str, Any]] = field(default_factory=list)
    status: str = "in_progress"
    reason: str | None = None
    stats: Stats | None = None

    def value(self) -> dict[str, Any]:
        """Return the response as a JSON value."""
        cut = self.status == "incomplete"
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "status": self.status,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "model": self.model,
            "output": self.items,
            "previous_response_id": None,
            "store": False,
            "truncation": "disabled",
            "usage": None if self.stats is None else _usage(self.stats),
            "metadata": {},
        } | self.given

    def end(self, end: Finished) -> None:
        """It has ended so."""
        self.stats = end.stats
        self.status = "incomplete" if end.reason in ("length", "context", "loop") else "completed"


def _usage(stats: Stats) -> dict[str, Any]:
    return {
        "input_tokens": stats.n_prompt,
        "input_tokens_details": {"cached_tokens": stats.n_cached, "cache_write_tokens": 0},
        "output_tokens": stats.n_generated,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": stats.n_prompt + stats.n_generated,
    }


class ResponseEvents:
    """Makes a response of pieces, and events of each step; `number` counts them."""

    def __init__(self, response: GrowingResponse) -> None:
        self.response = response
        self.number = 0
        self._open: tuple[str, int] | None = None

    def hear(self, reply: object) -> list[dict[str, Any]]:
        """The events of a reply."""
        told: list[dict[str, Any]] = []
        if not self.number:
            told += [self._whole("created"), self._whole("in_progress")]
        if isinstance(reply, Piece):
            told += self._piece(reply)
        elif isinstance(reply, Finished):
            told += self._close("completed" if reply.reason in ("stop", "calls") else "incomplete")
            self._drop_cut_call()
            self.response.end(reply)
            told.append(self._whole(self.response.status))
        return told

    def failed(self, refusal: Refusal) -> list[dict[str, Any]]:
        """Return the events that end a failed response."""
        error = error_value(refusal)["error"]
        value = self.response.value() | {"status": "failed", "error": error}
        return [self._event("response.failed", response=value)]

    def _drop_cut_call(self) -> None:
        """Leave a call without whole arguments out of the response: clients parse all it has."""
        last = self.response.items[-1] if self.response.items else {}
        if last.get("type") == "function_call" and last["status"] == "incomplete":
            try:
                msgspec.json.decode(last["arguments"])
            except msgspec.DecodeError:
                del self.response.items[-1]

    def _event(self, kind: str, **fields: Any) -> dict[str, Any]:
        self.number += 1
        return {"type": kind, "sequence_number": self.number - 1} | fields

    def _whole(self, word: str) -> dict[str, Any]:
        value = msgspec.to_builtins(self.response.value())
        return self._event(f"response.{word}", response=value)

    @property
    def _at(self) -> dict[str, Any]:
        items = self.response.items
        return {"item_id": items[-1]["id"], "output_index": len(items) - 1}

    def _piece(self, piece: Piece) -> list[dict[str, Any]]:
        if piece.call is not None:
            part = piece.call
            told = self._in_item(("call", part.index), _call_item(part.id, part.name))
            self.response.items[-1]["arguments"] += part.arguments
            kind = "response.function_call_arguments.delta"
            return [*told, self._event(kind, **self._at, delta=part.arguments)]
        if not piece.text:
            return []
        if piece.kind == "thought":
            told = self._in_item(("thought", 0), _thought_item())
            if not self.response.items[-1]["content"]:
                self.response.items[-1]["content"] = [{"type": "reasoning_text", "text": ""}]
            self.response.items[-1]["content"][0]["text"] += piece.text
            kind = "response.reasoning_text.delta"
            return [*told, self._event(kind, **self._at, content_index=0, delta=piece.text)]
        told = self._in_item(("answer", 0), _message_item())
        if not self.response.items[-1]["content"]:
            self.response.items[-1]["content"] = [_text_part()]
            event = self._event(
                "response.content_part.added", **self._at, content_index=0, part=_text_part()
            )
            told.append(event)
        self.response.items[-1]["content"][0]["text"] += piece.text
        more = {"content_index": 0, "delta": piece.text, "logprobs": []}
        return [*told, self._event("response.output_text.delta", **self._at, **more)]

    def _in_item(self, wanted: tuple[str, int], item: dict[str, Any]) -> list[dict[str, Any]]:
        if self._open == wanted:
            return []
        told = self._close("completed")
        self._open = wanted
        index = len(self.response.items)
        told.append(
            self._event(
                "response.output_item.added", output_index=index, item=msgspec.to_builtins(item)
            )
        )
        self.response.items.append(item)
        return told

    def _close(self, status: str) -> list[dict[str, Any]]:
        if self._open is None:
            return []
        (kind, _), self._open = self._open, None
        item, told = self.response.items[-1], []
        item["status"] = status
        if kind == "call":
            more = {"arguments": item["arguments"], "name": item["name"]}
            told.append(self._event("response.function_call_arguments.done", **self._at, **more))
        elif kind == "thought":
            text = item["content"][0]["text"]
            more = {"content_index": 0, "text": text}
            told.append(self._event("response.reasoning_text.done", **self._at, **more))
        else:
            part = dict(item["content"][0])
            more = {"content_index": 0, "text": part["text"], "logprobs": []}
            told.append(self._event("response.output_text.done", **self._at, **more))
            more = {"content_index": 0, "part": part}
            told.append(self._event("response.content_part.done", **self._at, **more))
        index = len(self.response.items) - 1
        told.append(
            self._event(
                "response.output_item.done", output_index=index, item=msgspec.to_builtins(item)
            )
        )
        return told


def _call_item(call_id: str, name: str) -> dict[str, Any]:
    return {
        "id": f"fc_{secrets.token_hex(16)}",
        "type": "function_call",
        "status": "in_progress",
        "call_id": call_id,
        "name": name,
        "arguments": "",
    }


def _thought_item() -> dict[str, Any]:
    number = f"rs_{secrets.token_hex(16)}"
    return {
        "id": number,
        "type": "reasoning",
        "status": "in_progress",
        "summary": [],
        "content": [],
    }


def _message_item() -> dict[str, Any]:
    number = f"msg_{secrets.token_hex(16)}"
    return {
        "id": number,
        "type": "message",
        "status": "in_progress",
        "role": "assistant",
        "content": [],
    }


def _text_part() -> dict[str, Any]:
    return {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
