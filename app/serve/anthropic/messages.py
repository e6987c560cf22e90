"""POST /v1/messages, and /v1/messages/count_tokens."""

import secrets
from collections.abc import AsyncIterator
from typing import Any

import app.serve.anthropic.bodies as bodies
from app.serve.answers import all_of
from app.serve.anthropic.events import MessageStream, error_frame, event, reason, usage
from app.serve.chat_fields import arguments_of_call, split_prefix
from app.serve.collected import Collected
from app.serve.web.body import decoded
from app.serve.web.site import HttpCall
from app.serve.web.stream import FrameStream, Reply, json
from engine.protocol import Generate, Render

PING = event({"type": "ping"})


async def messages(call: HttpCall) -> Reply:
    """Answer a chat."""
    body = decoded(call.body, bodies.MessagesBody)
    model = await call.model(body.model)
    request = await _request(call, body)
    number = f"msg_{secrets.token_hex(12)}"
    if body.stream:
        stream = MessageStream(number, model.name)
        return FrameStream(_frames(call, request, stream), error_frame, alive=PING)
    (made,) = await all_of(call.answers([request]))
    return json(_whole(made, number, model.name))


async def count_tokens(call: HttpCall) -> Reply:
    """How many tokens a chat has."""
    body = decoded(call.body, bodies.CountBody)
    await call.model(body.model)
    chat = await bodies.chat(body, call.pictures)
    request = Render(0, chat, bodies.tools(body), bodies.template(body))
    return json({"input_tokens": (await call.gate.get(request)).n_tokens})


async def _request(call: HttpCall, body: bodies.MessagesBody) -> Generate:
    listed_tools, template = bodies.tools(body), bodies.template(body)
    chat, prefix = split_prefix(await bodies.chat(body, call.pictures))
    return Generate(
        0,
        messages=chat,
        prefix=prefix,
        sampling=call.sampling(bodies.sampling(body), template),
        max_tokens=body.max_tokens,
        stop=[text for text in body.stop_sequences or [] if text],
        tools=listed_tools,
        form=bodies.form(body),
        edits=body.edits or [],
        template=template,
        apart=True,
        when_full="stop",
    )


def _whole(made: Collected, number: str, model: str) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    if made.thought:
        content.append({"type": "thinking", "thinking": made.thought, "signature": ""})
    if made.text:
        content.append({"type": "text", "text": made.text})
    content += [
        {"type": "tool_use", "id": c.id, "name": c.name, "input": arguments_of_call(c.arguments)}
        for c in made.calls
    ]
    return {
        "id": number,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": reason(made.end),
        "stop_sequence": made.end.matched,
        "usage": usage(made.end.stats),
    }


async def _frames(call: HttpCall, request: Generate, stream: MessageStream) -> AsyncIterator[bytes]:
    async with call.answers([request]) as answers:
        while replies := await answers.batch():
            frames = b"".join(stream.frames(reply) for _, reply in replies)
            if frames:
                yield frames
