"""POST /v1/responses: requests for responses, a response as it grows, and its events."""

import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from time import time
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Raw, Struct

from app.serve import chat_fields
from app.serve import request_fields as fields
from app.serve.fetching import RequestPictures
from app.serve.web.body import NULL, decoded, raw_text
from app.serve.web.refusal import Refusal, error_value
from app.serve.web.site import HttpCall
from app.serve.web.stream import FrameStream, Reply, json
from engine.protocol import (
    AnswerForm,
    ChatMessage,
    Finished,
    Generate,
    JsonObject,
    PicturePart,
    Piece,
    Stats,
    TextPart,
    ToolCall,
    Tools,
)


class ItemPart(Struct):
    """A part of an item's content: text of several kinds, or a picture."""

    type: Literal["input_text", "output_text", "text", "refusal", "input_image"]
    text: str = ""
    refusal: str = ""
    image_url: str | None = None


class GivenItem(Struct):
    """A message, a call, what it gave, or a thought, by its `type`."""

    type: Literal["message", "function_call", "function_call_output", "reasoning"] = "message"
    role: Literal["system", "developer", "user", "assistant"] = "user"
    content: str | list[ItemPart] | None = None
    call_id: str = ""
    name: str = ""
    arguments: str = "{}"
    output: str | list[ItemPart] = ""


class GivenFunction(Struct):
    """A function that may be called."""

    name: str = ""
    type: Literal["function"] = "function"
    description: str | None = None
    parameters: Raw = NULL


class WantedFunction(Struct):
    """A function that must be called."""

    name: str
    type: Literal["function"] = "function"


class WantedFormat(Struct):
    """The requested response format."""

    type: Literal["text", "json_object", "json_schema"] = "text"
    schema: Raw = NULL
    name: str | None = None


class WantedText(Struct):
    """How the text is to be."""

    format: WantedFormat | None = None


class WantedReasoning(Struct):
    """How much it thinks."""

    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None


class ResponseBody(Struct):
    """A request."""

    input: str | list[GivenItem] = ""
    model: str | None = None
    instructions: str | None = None
    max_output_tokens: fields.Count | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: fields.Fraction | None = None
    tools: list[GivenFunction] | None = None
    tool_choice: Literal["none", "auto", "required"] | WantedFunction | None = None
    parallel_tool_calls: bool | None = None
    text: WantedText | None = None
    reasoning: WantedReasoning | None = None
    stream: bool | None = None
    previous_response_id: str | None = None


async def chat_of(body: ResponseBody, pictures: RequestPictures) -> list[ChatMessage]:
    """The messages. Raises `Refusal`."""
    messages = [ChatMessage("system", body.instructions)] if body.instructions else []
    if isinstance(body.input, str):
        return [*messages, ChatMessage("user", body.input)]
    if not body.input:
        raise Refusal(400, "input: at least one item is needed", param="input")
    for i, item in enumerate(body.input):
        messages += await _item(item, f"input[{i}]", pictures)
    return messages


async def _item(item: GivenItem, param: str, pictures: RequestPictures) -> list[ChatMessage]:
    if item.type == "reasoning":
        return []
    if item.type == "function_call":
        call = ToolCall(item.call_id, item.name, item.arguments)
        return [ChatMessage("assistant", "", calls=[call])]
    if item.type == "function_call_output":
        content = await _content(item.output, param, pictures)
        return [ChatMessage("tool", content, call_id=item.call_id)]
    role = "system" if item.role == "developer" else item.role
    return [ChatMessage(role, await _content(item.content, param, pictures))]


async def _content(
    content: str | list[ItemPart] | None, param: str, pictures: RequestPictures
) -> str | list[TextPart | PicturePart]:
    if content is None or isinstance(content, str):
        return content or ""
    parts: list[TextPart | PicturePart] = []
    for part in content:
        if part.type != "input_image":
            parts.append(TextPart(part.text or part.refusal))
        elif part.image_url is None:
            raise Refusal(400, f"{param}: a picture must be a data URL", param=param)
        else:
            parts.append(await pictures.from_url(part.image_url, param))
    return chat_fields.content(parts)


def tools_of(body: ResponseBody) -> Tools:
    """Return the requested tools. Raises `Refusal`."""
    known = [
        chat_fields.tool(one.name, one.description, raw_text(one.parameters))
        for one in body.tools or []
    ]
    choice = body.tool_choice
    only = choice.name if isinstance(choice, WantedFunction) else ""
    word: Any = "auto" if only else choice or "auto"
    return chat_fields.tools(known, word, only, body.parallel_tool_calls is not False)


def form_of(body: ResponseBody) -> AnswerForm | None:
    """Return the requested response format. Raises `Refusal`."""
    wanted = body.text.format if body.text is not None else None
    if wanted is None or wanted.type == "text":
        return None
    text = raw_text(wanted.schema)
    if wanted.type == "json_object" or text is None:
        return JsonObject()
    return fields.schema(text, "text.format.schema")


def template_of(body: ResponseBody) -> dict[str, Any]:
    """Variables of the chat template."""
    effort = body.reasoning.effort if body.reasoning is not None else None
    if effort is None:
        return {}
    return {"enable_thinking": False} if effort == "none" else {"reasoning_effort": effort}


@dataclass
class GrowingResponse:
    """One response; `given` are fields of the request that it repeats."""

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

    def events_of(self, reply: object) -> list[dict[str, Any]]:
        """The events of a reply."""
        events: list[dict[str, Any]] = []
        if not self.number:
            events += [self._whole("created"), self._whole("in_progress")]
        if isinstance(reply, Piece):
            events += self._piece(reply)
        elif isinstance(reply, Finished):
            events += self._close(
                "completed" if reply.reason in ("stop", "calls") else "incomplete"
            )
            self._drop_cut_call()
            self.response.end(reply)
            events.append(self._whole(self.response.status))
        return events

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
            begin = self._in_item(("call", part.index), _call_item(part.id, part.name))
            self.response.items[-1]["arguments"] += part.arguments
            kind = "response.function_call_arguments.delta"
            return [*begin, self._event(kind, **self._at, delta=part.arguments)]
        if not piece.text:
            return []
        if piece.kind == "thought":
            begin = self._in_item(("thought", 0), _thought_item())
            if not self.response.items[-1]["content"]:
                self.response.items[-1]["content"] = [{"type": "reasoning_text", "text": ""}]
            self.response.items[-1]["content"][0]["text"] += piece.text
            kind = "response.reasoning_text.delta"
            return [*begin, self._event(kind, **self._at, content_index=0, delta=piece.text)]
        begin = self._in_item(("answer", 0), _message_item())
        if not self.response.items[-1]["content"]:
            self.response.items[-1]["content"] = [_text_part()]
            event = self._event(
                "response.content_part.added", **self._at, content_index=0, part=_text_part()
            )
            begin.append(event)
        self.response.items[-1]["content"][0]["text"] += piece.text
        more = {"content_index": 0, "delta": piece.text, "logprobs": []}
        return [*begin, self._event("response.output_text.delta", **self._at, **more)]

    def _in_item(self, wanted: tuple[str, int], item: dict[str, Any]) -> list[dict[str, Any]]:
        if self._open == wanted:
            return []
        events = self._close("completed")
        self._open = wanted
        index = len(self.response.items)
        events.append(
            self._event(
                "response.output_item.added", output_index=index, item=msgspec.to_builtins(item)
            )
        )
        self.response.items.append(item)
        return events

    def _close(self, status: str) -> list[dict[str, Any]]:
        if self._open is None:
            return []
        (kind, _), self._open = self._open, None
        item, events = self.response.items[-1], []
        item["status"] = status
        if kind == "call":
            more = {"arguments": item["arguments"], "name": item["name"]}
            events.append(self._event("response.function_call_arguments.done", **self._at, **more))
        elif kind == "thought":
            text = item["content"][0]["text"]
            more = {"content_index": 0, "text": text}
            events.append(self._event("response.reasoning_text.done", **self._at, **more))
        else:
            part = dict(item["content"][0])
            more = {"content_index": 0, "text": part["text"], "logprobs": []}
            events.append(self._event("response.output_text.done", **self._at, **more))
            more = {"content_index": 0, "part": part}
            events.append(self._event("response.content_part.done", **self._at, **more))
        index = len(self.response.items) - 1
        events.append(
            self._event(
                "response.output_item.done", output_index=index, item=msgspec.to_builtins(item)
            )
        )
        return events


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


async def responses(call: HttpCall) -> Reply:
    """Answer, without a memory of earlier responses."""
    body = decoded(call.body, ResponseBody)
    model = await call.model(body.model)
    if body.previous_response_id:
        text = "previous_response_id: responses are not kept; send the whole conversation"
        raise Refusal(400, text, param="previous_response_id")
    request = await _request(call, body)
    events = ResponseEvents(GrowingResponse(model.name, _given(body)))
    if body.stream:
        return FrameStream(_frames(call, request, events), lambda r: _framed(events.failed(r)))
    async with call.answers([request]) as answers:
        while replies := await answers.batch():
            for _, reply in replies:
                events.events_of(reply)
    return json(events.response.value())


async def _request(call: HttpCall, body: ResponseBody) -> Generate:
    values, template = {"temperature": body.temperature, "top_p": body.top_p}, template_of(body)
    most = body.max_output_tokens
    return Generate(
        0,
        messages=await chat_of(body, call.pictures),
        sampling=call.sampling(values, template, openai=True),
        max_tokens=None if most is None or most < 0 else most,
        tools=tools_of(body),
        form=form_of(body),
        template=template,
        apart=True,
        when_full="stop",
    )


def _given(body: ResponseBody) -> dict[str, Any]:
    """Return the fields of a request that its response repeats."""
    choice = body.tool_choice
    if isinstance(choice, WantedFunction):
        tool_choice: Any = {"type": "function", "name": choice.name}
    else:
        tool_choice = choice or "auto"
    tools = [
        {"type": "function", "name": one.name, "description": one.description, "strict": True}
        | {"parameters": msgspec.json.decode(one.parameters)}
        for one in body.tools or []
    ]
    return {
        "instructions": body.instructions,
        "max_output_tokens": body.max_output_tokens,
        "parallel_tool_calls": body.parallel_tool_calls is not False,
        "temperature": body.temperature,
        "tool_choice": tool_choice,
        "tools": tools,
        "top_p": body.top_p,
    }


async def _frames(
    call: HttpCall, request: Generate, events: ResponseEvents
) -> AsyncIterator[bytes]:
    async with call.answers([request]) as answers:
        while replies := await answers.batch():
            frames = [one for _, reply in replies for one in events.events_of(reply)]
            if frames:
                yield _framed(frames)


def _framed(events: list[dict[str, Any]]) -> bytes:
    parts = []
    for one in events:
        kind: str = one["type"]
        parts.append(b"event: " + kind.encode() + b"\ndata: " + msgspec.json.encode(one) + b"\n\n")
    return b"".join(parts)
