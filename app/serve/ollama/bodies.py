"""Requests as Ollama's clients send them, and what the engine makes of them."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Raw, Struct

from app.serve.fetching import AskedPictures
from app.serve.served import OpenModel
from app.serve.web.body import NULL, raw_text
from app.serve.web.refusal import Refusal
from app.serve.web.site import HttpCall
from engine.protocol import (
    AnswerForm,
    ChatMessage,
    Generate,
    JsonObject,
    JsonSchema,
    PicturePart,
    TextPart,
    Tool,
    ToolCall,
    Tools,
)

MOST_TOOLS = 128
MOST_SCHEMA = 1 << 18
Think = bool | Literal["low", "medium", "high"]


class Knobs(Struct):
    """Ollama's `options`."""

    num_ctx: int | None = None
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


class TextAsked(Struct):
    """Fields that chats and plain prompts have in common."""

    model: str
    options: Knobs | None = None
    format: Literal["", "json"] | dict[str, Any] | None = None
    stream: bool | None = None
    think: Think | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None


class NamedCall(Struct):
    """The called function, with arguments as an object."""

    name: str
    arguments: Raw = Raw(b"{}")


class CallSaid(Struct):
    """A call that the assistant made."""

    function: NamedCall


class MessageSaid(Struct):
    """One message."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    thinking: str | None = None
    images: list[str] | None = None
    tool_calls: list[CallSaid] | None = None
    tool_name: str | None = None


class FunctionSaid(Struct):
    """A function by its name and the schema of its arguments."""

    name: str
    description: str | None = None
    parameters: Raw = NULL


class ToolSaid(Struct):
    """A tool."""

    function: FunctionSaid


class ChatAsked(TextAsked, kw_only=True):
    """A chat."""

    messages: list[MessageSaid] = []
    tools: list[ToolSaid] | None = None


class GenerateAsked(TextAsked, kw_only=True):
    """A prompt."""

    prompt: str = ""
    suffix: str | None = None
    system: str | None = None
    images: list[str] | None = None
    raw: bool | None = None


def asked_for(call: HttpCall, model: OpenModel, body: TextAsked) -> Generate:
    """All of a request but its words. Raises `Refusal`."""
    knobs = body.options or Knobs()
    n_ctx = model.loaded.n_ctx
    if knobs.num_ctx is not None and knobs.num_ctx > n_ctx:
        raise Refusal(400, f"num_ctx: {knobs.num_ctx} is more than the context, {n_ctx} tokens")
    stops = [knobs.stop] if isinstance(knobs.stop, str) else knobs.stop or []
    most, template = knobs.num_predict, _template(body.think)
    return Generate(
        0,
        sampling=call.sampling(_sampling(knobs), template),
        max_tokens=None if most is None or most < 0 else most,
        stop=[text for text in stops if text],
        form=_form(body.format),
        template=template,
        logprobs=max(1, body.top_logprobs or 0) if body.logprobs else 0,
        apart=True,
        when_full="stop",
    )


def _sampling(knobs: Knobs) -> dict[str, Any]:
    return {
        "temperature": knobs.temperature,
        "top_k": None if knobs.top_k is None else max(0, knobs.top_k),
        "top_p": knobs.top_p,
        "min_p": knobs.min_p,
        "penalty_last_n": knobs.repeat_last_n,
        "repeat_penalty": knobs.repeat_penalty,
        "presence_penalty": knobs.presence_penalty,
        "frequency_penalty": knobs.frequency_penalty,
        "seed": None if knobs.seed is None or knobs.seed < 0 else knobs.seed,
    }


def _form(given: str | dict[str, Any] | None) -> AnswerForm | None:
    if not given:
        return None
    if isinstance(given, str):
        return JsonObject()
    text = msgspec.json.encode(given).decode()
    if len(text) > MOST_SCHEMA:
        raise Refusal(400, f"format: longer than {MOST_SCHEMA >> 10} KiB")
    return JsonSchema(text)


def _template(think: Think | None) -> dict[str, Any]:
    if think is None:
        return {}
    if isinstance(think, str):
        return {"enable_thinking": True, "reasoning_effort": think}
    return {"enable_thinking": think}


async def chat(body: ChatAsked, pictures: AskedPictures) -> list[ChatMessage]:
    """The messages. Raises `Refusal`."""
    return [await _message(one, pictures) for one in body.messages]


async def _message(said: MessageSaid, pictures: AskedPictures) -> ChatMessage:
    content = await shown(said.content or "", said.images, pictures)
    calls = [
        ToolCall(f"call_{i}", one.function.name, bytes(one.function.arguments).decode())
        for i, one in enumerate(said.tool_calls or [])
    ]
    return ChatMessage(said.role, content, said.thinking or "", calls, said.tool_name or "")


async def shown(
    text: str, images: list[str] | None, pictures: AskedPictures
) -> str | list[TextPart | PicturePart]:
    """A message's content, its pictures first. Raises `Refusal`."""
    if not images:
        return text
    parts: list[TextPart | PicturePart] = [await pictures.from_base64(one) for one in images]
    return [*parts, TextPart(text)]


def tools(given: list[ToolSaid] | None) -> Tools:
    """Return the requested tools. Raises `Refusal`."""
    if len(given or []) > MOST_TOOLS:
        raise Refusal(400, f"tools: at most {MOST_TOOLS}")
    known = []
    for one in given or []:
        function = one.function
        text = raw_text(function.parameters) or "{}"
        if len(text) > MOST_SCHEMA:
            raise Refusal(400, f"tools: the schema of {function.name[:100]!r} is too long")
        known.append(Tool(function.name, function.description or "", text))
    return Tools(known)
