"""POST /api/chat and /api/generate, and errors as Ollama's clients read them."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic_ns
from typing import Any

import msgspec

import app.serve.ollama.bodies as bodies
from app.serve.answers import all_of
from app.serve.chat_fields import arguments_of_call, split_prefix
from app.serve.collected import Collected
from app.serve.web.body import decoded
from app.serve.web.refusal import Refusal
from app.serve.web.site import HttpCall
from app.serve.web.stream import FrameStream, Reply, json
from engine.protocol import ChatMessage, Finished, Generate, Infill, Piece, TokenInfo, ToolCall


def error(refusal: Refusal) -> bytes:
    """The body of an error."""
    return msgspec.json.encode({"error": refusal.message})


def error_line(refusal: Refusal) -> bytes:
    """An error in a stream."""
    return error(refusal) + b"\n"


LINES = "application/x-ndjson"
Wrap = Callable[[str, str, list[ToolCall]], dict[str, Any]]


@dataclass(frozen=True)
class OllamaStyle:
    """How one request is answered: `wrap` makes fields of text, thought and calls."""

    model: str
    began: int
    wrap: Wrap
    logprobs: bool
    top: int

    def line(self, text: str = "", thought: str = "", calls: list[ToolCall] = []) -> dict[str, Any]:  # noqa: B006
        """An unfinished line."""
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        return (
            {"model": self.model, "created_at": now}
            | self.wrap(text, thought, calls)
            | {"done": False}
        )

    def end(self, end: Finished) -> dict[str, Any]:
        """Return the additional fields of the last line; times in nanoseconds."""
        stats = end.stats
        ended = "stop" if end.reason in ("stop", "calls") else "length"
        return {
            "done": True,
            "done_reason": ended,
            "total_duration": monotonic_ns() - self.began,
            "load_duration": 0,
            "prompt_eval_count": stats.n_prompt,
            "prompt_eval_duration": int(stats.prefill_s * 1e9),
            "eval_count": stats.n_generated,
            "eval_duration": int(stats.decode_s * 1e9),
        }

    def probabilities(self, tokens: list[TokenInfo]) -> dict[str, Any]:
        """Log-probabilities, where they are wanted."""
        if not self.logprobs or not tokens:
            return {}
        return {
            "logprobs": [
                {
                    "token": token.text,
                    "logprob": token.logprob,
                    "top_logprobs": [
                        {"token": one.text, "logprob": one.logprob} for one in token.top[: self.top]
                    ],
                }
                for token in tokens
            ]
        }


async def chat(call: HttpCall) -> Reply:
    """Answer a chat; one without messages only asks whether the model is there."""
    body = decoded(call.body, bodies.ChatRequest)
    await call.model(body.model)
    request = bodies.generate_request(call, body)
    style = _style(body, _chat_fields)
    if not body.messages:
        return json(style.line() | {"done": True, "done_reason": "load"})
    messages, prefix = split_prefix(await bodies.chat(body, call.pictures))
    request = msgspec.structs.replace(
        request, messages=messages, prefix=prefix, tools=bodies.tools(body.tools)
    )
    return await _answered(call, body, request, style)


async def generate(call: HttpCall) -> Reply:
    """Answer a prompt: as a chat of one message, as it stands where it is `raw`, or what stands
    between it and a `suffix`.
    """
    body = decoded(call.body, bodies.GenerateRequest)
    await call.model(body.model)
    request = bodies.generate_request(call, body)
    style = _style(body, _generate_fields)
    if not body.prompt and not body.images and not body.suffix:
        return json(style.line() | {"done": True, "done_reason": "load"})
    if body.suffix:
        if body.images:
            raise Refusal(400, "suffix: expected no images")
        place = Infill(body.prompt, body.suffix, suffix_first=call.desk.settings.spm_infill)
        request = msgspec.structs.replace(request, infill=place, apart=False)
    elif body.raw:
        request = msgspec.structs.replace(request, prompt=body.prompt, apart=False)
    else:
        content = await bodies.shown(body.prompt, body.images, call.pictures)
        system = [ChatMessage("system", body.system)] if body.system else []
        messages = [*system, ChatMessage("user", content)]
        request = msgspec.structs.replace(request, messages=messages)
    return await _answered(call, body, request, style)


def _style(body: bodies.TextRequest, wrap: Wrap) -> OllamaStyle:
    top = body.top_logprobs or 0
    return OllamaStyle(body.model, monotonic_ns(), wrap, bool(body.logprobs), top)


async def _answered(
    call: HttpCall, body: bodies.TextRequest, request: Generate, style: OllamaStyle
) -> Reply:
    if body.stream is not False:
        return FrameStream(_lines(call, request, style), error_line, LINES, alive=b"")
    (made,) = await all_of(call.answers([request]))
    line = style.line(made.text, made.thought, made.calls) | style.end(made.end)
    return json(line | style.probabilities(made.tokens))


def _chat_fields(text: str, thought: str, calls: list[ToolCall]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if thought:
        message["thinking"] = thought
    if calls:
        message["tool_calls"] = [
            {"function": {"name": one.name, "arguments": arguments_of_call(one.arguments)}}
            for one in calls
        ]
    return {"message": message}


def _generate_fields(text: str, thought: str, calls: list[ToolCall]) -> dict[str, Any]:
    return {"response": text} | ({"thinking": thought} if thought else {})


async def _lines(call: HttpCall, request: Generate, style: OllamaStyle) -> AsyncIterator[bytes]:
    """A line for each piece; calls, which Ollama sends as a whole, in the last but one."""
    calls, held = Collected(), []
    async with call.answers([request]) as answers:
        while replies := await answers.batch():
            lines: list[dict[str, Any]] = []
            for _, reply in replies:
                if isinstance(reply, Piece):
                    held += reply.tokens
                    if reply.call is not None:
                        calls.take(reply)
                    elif reply.text:
                        thought = reply.kind == "thought"
                        texts = ("", reply.text) if thought else (reply.text, "")
                        lines.append(style.line(*texts) | style.probabilities(held))
                        held = []
                elif isinstance(reply, Finished):
                    calls.add(reply)
                    calls.drop_cut_call()
                    if calls.calls:
                        lines.append(style.line(calls=calls.calls))
                    lines.append(style.line() | style.end(reply))
            if lines:
                yield b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
