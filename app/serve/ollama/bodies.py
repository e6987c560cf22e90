"""Requests as Ollama's clients send them, and what the engine makes of them."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Raw, Struct

from app.serve import chat_fields
from app.serve.chat_fields import bounded
from app.serve.fetching import RequestPictures
from app.serve.web.body import NULL, raw_text
from app.serve.web.site import HttpCall
from engine import protocol

Think = bool | Literal["low", "medium", "high"]


class Options(Struct):
    """Ollama's `options`; what does not fit the context is refused, whatever `num_ctx` says."""

    num_predict: int | None = None
    seed: int | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repeat_last_n: int | None = None
    repeat_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    stop: str | list[str] | None = None


class TextRequest(Struct):
    """Fields that chats and plain prompts have in common."""

    model: str
    options: Options | None = None
    format: Literal["", "json"] | dict[str, Any] | None = None
    stream: bool | None = None
    think: Think | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    edits: list[protocol.Edit] | None = None


class CalledFunction(Struct):
    """The called function, with arguments as an object."""

    name: str
    arguments: Raw = Raw(b"{}")


class ToolCall(Struct):
    """A call that the assistant made."""

    function: CalledFunction


class Message(Struct):
    """One message."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    thinking: str | None = None
    images: list[str] | None = None
    tool_calls: list[ToolCall] | None = None
    tool_name: str | None = None


class Function(Struct):
    """A function by its name and the schema of its arguments."""

    name: str
    description: str | None = None
    parameters: Raw = NULL


class Tool(Struct):
    """A tool."""

    function: Function


class ChatRequest(TextRequest, kw_only=True):
    """A chat."""

    messages: list[Message] = []
    tools: list[Tool] | None = None


class GenerateRequest(TextRequest, kw_only=True):
    """A prompt."""

    prompt: str = ""
    suffix: str | None = None
    system: str | None = None
    images: list[str] | None = None
    raw: bool | None = None


def generate_request(call: HttpCall, body: TextRequest) -> protocol.Generate:
    """All of a request but its words. Raises `Refusal`."""
    options = body.options or Options()
    stops = [options.stop] if isinstance(options.stop, str) else options.stop or []
    most, template = options.num_predict, _template(body.think)
    return protocol.Generate(
        0,
        sampling=call.sampling(_sampling(options), template),
        max_tokens=None if most is None or most < 0 else most,
        stop=[text for text in stops if text],
        form=_form(body.format),
        edits=body.edits or [],
        template=template,
        logprobs=max(1, body.top_logprobs or 0) if body.logprobs else 0,
        apart=True,
        when_full="stop",
    )


def _sampling(options: Options) -> dict[str, Any]:
    return {
        "temperature": options.temperature,
        "top_k": None if options.top_k is None else max(0, options.top_k),
        "top_p": options.top_p,
        "min_p": options.min_p,
        "penalty_last_n": options.repeat_last_n,
        "repeat_penalty": options.repeat_penalty,
        "presence_penalty": options.presence_penalty,
        "frequency_penalty": options.frequency_penalty,
        "seed": None if options.seed is None or options.seed < 0 else options.seed,
    }


def _form(value: str | dict[str, Any] | None) -> protocol.AnswerForm | None:
    if not value:
        return None
    if isinstance(value, str):
        return protocol.JsonObject()
    return protocol.JsonSchema(bounded(msgspec.json.encode(value).decode(), "format"))


def _template(think: Think | None) -> dict[str, Any]:
    if think is None:
        return {}
    if isinstance(think, str):
        return {"enable_thinking": True, "reasoning_effort": think}
    return {"enable_thinking": think}


async def chat(body: ChatRequest, pictures: RequestPictures) -> list[protocol.ChatMessage]:
    """The messages. Raises `Refusal`."""
    return [await _message(one, pictures) for one in body.messages]


async def _message(message: Message, pictures: RequestPictures) -> protocol.ChatMessage:
    content = await shown(message.content or "", message.images, pictures)
    calls = [
        protocol.ToolCall(f"call_{i}", one.function.name, bytes(one.function.arguments).decode())
        for i, one in enumerate(message.tool_calls or [])
    ]
    return protocol.ChatMessage(
        message.role, content, message.thinking or "", calls, message.tool_name or ""
    )


async def shown(
    text: str, images: list[str] | None, pictures: RequestPictures
) -> str | list[protocol.TextPart | protocol.PicturePart]:
    """A message's content, its pictures first. Raises `Refusal`."""
    if not images:
        return text
    parts: list[protocol.TextPart | protocol.PicturePart] = [
        await pictures.from_base64(one) for one in images
    ]
    return [*parts, protocol.TextPart(text)]


def tools(items: list[Tool] | None) -> protocol.Tools:
    """Return the requested tools. Raises `Refusal`."""
    functions = [item.function for item in items or []]
    return chat_fields.tools(
        [chat_fields.tool(f.name, f.description, raw_text(f.parameters)) for f in functions]
    )
