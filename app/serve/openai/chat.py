"""POST /v1/chat/completions."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from msgspec import Meta

from app.serve import request_fields as fields
from app.serve.answers import all_of
from app.serve.chat_fields import split_prefix
from app.serve.collected import FINISH, Collected, logprobs, timings, usage
from app.serve.flow import choices
from app.serve.openai.messages import (
    Message,
    ResponseStyle,
    Tool,
    ToolChoice,
    messages,
    tools,
)
from app.serve.web.body import decoded
from app.serve.web.refusal import Refusal
from app.serve.web.site import HttpCall
from app.serve.web.stream import FrameStream, Reply, error_event, event, json
from engine.protocol import Finished, Generate, Piece, TokenInfo

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]


class ChatBody(fields.TextRequest):
    """A request; see `serving` for what each field means."""

    messages: list[Message] = []
    max_completion_tokens: fields.Count | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    tools: list[Tool] | None = None
    tool_choice: Literal["none", "auto", "required"] | ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: Effort | None = None
    chat_template_kwargs: dict[str, Any] | None = None


@dataclass
class ChatStyle(ResponseStyle):
    """How a chat is answered."""

    prefix = "chatcmpl-"

    n: int
    kind: str = "chat.completion"


async def chat(call: HttpCall) -> Reply:
    """Answer a chat."""
    body = decoded(call.body, ChatBody)
    model = await call.model(body.model)
    n = fields.n_choices(body, call.gate.turns.slots)
    request = await _request(call, body)
    wants_usage = bool(body.stream_options and body.stream_options.include_usage)
    style = ChatStyle(model.name, _top(body), wants_usage, n)
    if body.stream:
        return FrameStream(_frames(call, choices(request, n), style), error_event)
    return json(await _whole(call, choices(request, n), style))


async def _request(call: HttpCall, body: ChatBody) -> Generate:
    listed_tools = tools(body.tools, body.tool_choice, body.parallel_tool_calls)
    template = dict(body.chat_template_kwargs or {})
    if body.reasoning_effort == "none":
        template.setdefault("enable_thinking", False)
    elif body.reasoning_effort is not None:
        template.setdefault("reasoning_effort", body.reasoning_effort)
    top = _top(body)
    most = body.max_completion_tokens if body.max_tokens is None else body.max_tokens
    chat, so_far = split_prefix(await messages(body.messages, call.pictures))
    return Generate(
        0,
        messages=chat,
        prefix=so_far,
        sampling=call.sampling(fields.sampling(body), template, openai=True),
        max_tokens=fields.limit(most),
        stop=fields.stops(body.stop),
        form=fields.form(body),
        tools=listed_tools,
        template=template,
        bias=fields.bias(body.logit_bias),
        edits=body.edits or [],
        endless=bool(body.ignore_eos),
        apart=True,
        logprobs=0 if top is None else max(1, top),
        when_full="stop",
        speculation=fields.speculation(body),
        lora=fields.lora(body.lora),
    )


def _top(body: ChatBody) -> int | None:
    if not body.logprobs:
        if body.top_logprobs:
            raise Refusal(400, "top_logprobs: needs logprobs", param="top_logprobs")
        return None
    return body.top_logprobs or 0


async def _whole(call: HttpCall, requests: list[Generate], style: ChatStyle) -> dict[str, Any]:
    made = await all_of(call.answers(requests))
    return style.head | {
        "object": style.kind,
        "choices": [_choice(i, one, style) for i, one in enumerate(made)],
        "usage": usage(made),
        "timings": timings(made[0].end.stats),
    }


def _choice(index: int, made: Collected, style: ChatStyle) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": made.text}
    if made.thought:
        message["reasoning_content"] = made.thought
    if made.calls:
        message["content"] = made.text or None
        message["tool_calls"] = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
            for c in made.calls
        ]
    return {
        "index": index,
        "message": message,
        "finish_reason": FINISH[made.end.reason],
        "logprobs": None if style.top is None else logprobs(made.tokens, style.top),
    }


async def _frames(
    call: HttpCall, requests: list[Generate], style: ChatStyle
) -> AsyncIterator[bytes]:
    """Frames of a stream, all that wait together as one piece."""
    streams = [ChoiceStream(i, style) for i in range(len(requests))]
    async with call.answers(requests) as answers:
        while replies := await answers.batch():
            frames = [frame for place, reply in replies for frame in streams[place].frames(reply)]
            if frames:
                yield b"".join(frames)
    made = [stream.made for stream in streams]
    last = style.head | {"object": f"{style.kind}.chunk", "choices": []}
    if style.usage:
        yield event(last | {"usage": usage(made), "timings": timings(made[0].end.stats)})
    yield b"data: [DONE]\n\n"


class ChoiceStream:
    """One choice's chunks. Tokens whose text is held back come with the text they become."""

    def __init__(self, index: int, style: ChatStyle) -> None:
        self._index, self._style = index, style
        self.made = Collected()
        self._begun = False
        self._held: list[TokenInfo] = []

    def frames(self, reply: object) -> list[bytes]:
        """Convert a reply of the engine to event frames."""
        frames = []
        if not self._begun:
            self._begun = True
            frames.append(self._chunk({"role": "assistant", "content": None}))
        if isinstance(reply, Piece):
            frames += self._piece(reply)
        elif isinstance(reply, Finished):
            self.made.finished = reply
            frames.append(self._chunk({}, FINISH[reply.reason], self._times(reply)))
        return frames

    def _piece(self, piece: Piece) -> list[bytes]:
        self._held += piece.tokens
        if piece.call is not None:
            part = piece.call
            function = {"arguments": part.arguments}
            fields: dict[str, Any] = {"index": part.index}
            if part.id:
                fields |= {"id": part.id, "type": "function"}
                function = {"name": part.name} | function
            delta: dict[str, Any] = {"tool_calls": [fields | {"function": function}]}
        elif piece.text:
            key = "reasoning_content" if piece.kind == "thought" else "content"
            delta = {key: piece.text}
        else:
            return []
        tokens, self._held = self._held, []
        return [self._chunk(delta, tokens=tokens)]

    def _times(self, finished: Finished) -> dict[str, Any]:
        alone = not self._style.usage and self._style.n == 1
        return {"timings": timings(finished.stats)} if alone else {}

    def _chunk(
        self,
        delta: dict[str, Any],
        reason: str | None = None,
        more: dict[str, Any] | None = None,
        tokens: list[TokenInfo] | None = None,
    ) -> bytes:
        style = self._style
        choice: dict[str, Any] = {"index": self._index, "delta": delta, "finish_reason": reason}
        if tokens and style.top is not None:
            choice["logprobs"] = logprobs(tokens, style.top)
        chunk = style.head | {"object": f"{style.kind}.chunk", "choices": [choice]}
        if style.usage:
            chunk["usage"] = None
        return event(chunk | (more or {}))
