"""POST /v1/responses."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from app.serve.openai.responses import bodies
from app.serve.openai.responses.events import GrowingResponse, ResponseEvents
from app.serve.web.body import decoded
from app.serve.web.refusal import Refusal
from app.serve.web.site import HttpCall
from app.serve.web.stream import FrameStream, Reply, json
from engine.protocol import Generate


async def responses(call: HttpCall) -> Reply:
    """Answer, without a memory of earlier responses."""
    body = decoded(call.body, bodies.ResponseBody)
    model = await call.model(body.model)
    if body.previous_response_id:
        text = "previous_response_id: responses are not kept; send the whole conversation"
        raise Refusal(400, text, param="previous_response_id")
    request = await _request(call, body)
    events = ResponseEvents(GrowingResponse(model.name, _given(body)))
    if body.stream:
        return FrameStream(_frames(call, request, events), lambda r: _framed(events.failed(r)))
    async with call.answers([request]) as answers:
        while said := await answers.batch():
            for _, reply in said:
                events.hear(reply)
    return json(events.response.value())


async def _request(call: HttpCall, body: bodies.ResponseBody) -> Generate:
    values, template = {"temperature": body.temperature, "top_p": body.top_p}, bodies.template(body)
    most = body.max_output_tokens
    return Generate(
        0,
        messages=await bodies.chat(body, call.pictures),
        sampling=call.sampling(values, template, openai=True),
        max_tokens=None if most is None or most < 0 else most,
        tools=bodies.tools(body),
        form=bodies.form(body),
        template=template,
        apart=True,
        when_full="stop",
    )


def _given(body: bodies.ResponseBody) -> dict[str, Any]:
    """Return the fields of a request that its response repeats."""
    choice = body.tool_choice
    if isinstance(choice, bodies.WantedFunction):
        told: Any = {"type": "function", "name": choice.name}
    else:
        told = choice or "auto"
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
        "tool_choice": told,
        "tools": tools,
        "top_p": body.top_p,
    }


async def _frames(
    call: HttpCall, request: Generate, events: ResponseEvents
) -> AsyncIterator[bytes]:
    async with call.answers([request]) as answers:
        while said := await answers.batch():
            frames = [one for _, reply in said for one in events.hear(reply)]
            if frames:
                yield _framed(frames)


def _framed(events: list[dict[str, Any]]) -> bytes:
    parts = []
    for one in events:
        kind: str = one["type"]
        parts.append(b"event: " + kind.encode() + b"\ndata: " + msgspec.json.encode(one) + b"\n\n")
    return b"".join(parts)
