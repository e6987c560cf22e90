"""Requests as Anthropic's clients send them, and what the engine makes of them."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Raw, Struct

from app.serve import chat_fields
from app.serve.fetching import RequestPictures
from app.serve.web.body import NULL, raw_text
from app.serve.web.refusal import Refusal
from engine import protocol
from engine.protocol import (
    AnswerForm,
    ChatMessage,
    Edit,
    JsonSchema,
    PicturePart,
    TextPart,
    ToolCall,
    Tools,
)

Fraction = Annotated[float, Meta(ge=0, le=1)]


class ImageSource(Struct):
    """Where a picture is."""

    type: Literal["base64", "url"]
    data: str = ""
    url: str = ""


class TextBlock(Struct, tag_field="type", tag="text"):
    """Text."""

    text: str


class ImageBlock(Struct, tag_field="type", tag="image"):
    """A picture."""

    source: ImageSource


class ToolUseBlock(Struct, tag_field="type", tag="tool_use"):
    """A call that the assistant made."""

    id: str
    name: str
    input: Raw = Raw(b"{}")


class ToolResultBlock(Struct, tag_field="type", tag="tool_result"):
    """The result of a tool call."""

    tool_use_id: str
    content: str | list[TextBlock | ImageBlock] | None = None
    is_error: bool | None = None


class ThinkingBlock(Struct, tag_field="type", tag="thinking"):
    """Reasoning of the assistant."""

    thinking: str = ""


class RedactedThinkingBlock(Struct, tag_field="type", tag="redacted_thinking"):
    """Encrypted reasoning, which only its provider can read."""


Block = (
    TextBlock | ImageBlock | ToolUseBlock | ToolResultBlock | ThinkingBlock | RedactedThinkingBlock
)


class Message(Struct):
    """One message."""

    role: Literal["user", "assistant", "system"]
    content: str | list[Block]


class Tool(Struct):
    """A tool."""

    name: str
    description: str | None = None
    input_schema: Raw = NULL
    type: str | None = None


class ToolChoice(Struct):
    """Which tool is to be used."""

    type: Literal["auto", "any", "tool", "none"]
    name: str = ""
    disable_parallel_tool_use: bool | None = None


class Thinking(Struct):
    """The setting for reasoning."""

    type: Literal["enabled", "disabled", "adaptive"]


class OutputFormat(Struct):
    """The requested response format."""

    type: Literal["json_schema"]
    schema: Raw = NULL


class OutputConfig(Struct):
    """How the answer is to be."""

    format: OutputFormat | None = None
    effort: str | None = None


class CountBody(Struct):
    """The fields of a request that the token count needs."""

    messages: list[Message]
    model: str | None = None
    system: str | list[TextBlock] | None = None
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None
    thinking: Thinking | None = None


class MessagesBody(CountBody, kw_only=True):
    """A request."""

    max_tokens: Annotated[int, Meta(ge=1)]
    temperature: Fraction | None = None
    top_p: Fraction | None = None
    top_k: Annotated[int, Meta(ge=0, le=(1 << 31) - 1)] | None = None
    stop_sequences: list[str] | None = None
    stream: bool | None = None
    output_config: OutputConfig | None = None
    edits: list[Edit] | None = None


def sampling(body: MessagesBody) -> dict[str, Any]:
    """The request's own values of `Sampling`; None where it has none."""
    return {"temperature": body.temperature, "top_p": body.top_p, "top_k": body.top_k}


def form(body: MessagesBody) -> AnswerForm | None:
    """Return the requested response format. Raises `Refusal`."""
    wanted = body.output_config.format if body.output_config is not None else None
    text = raw_text(wanted.schema) if wanted is not None else None
    return None if text is None else JsonSchema(chat_fields.bounded(text, "output_config"))


def tools(body: CountBody) -> Tools:
    """Return the requested tools. Raises `Refusal`."""
    known = [_tool(one) for one in body.tools or []]
    choice = body.tool_choice
    if choice is None:
        return chat_fields.tools(known)
    if choice.type == "tool" and not choice.name:
        raise Refusal(400, "tool_choice: a tool needs its name", param="tool_choice")
    only = choice.name if choice.type == "tool" else ""
    words: dict[str, Any] = {"any": "required", "tool": "required"}
    several = not choice.disable_parallel_tool_use
    return chat_fields.tools(known, words.get(choice.type, choice.type), only, several)


def _tool(item: Tool) -> protocol.Tool:
    text = raw_text(item.input_schema)
    if text is None:
        raise Refusal(400, f"tools: {item.name[:100]!r} has no input_schema")
    return chat_fields.tool(item.name, item.description, text)


def template(body: CountBody) -> dict[str, Any]:
    """Variables of the chat template."""
    if body.thinking is None or body.thinking.type == "adaptive":
        return {}
    return {"enable_thinking": body.thinking.type == "enabled"}


async def chat(body: CountBody, pictures: RequestPictures) -> list[ChatMessage]:
    """The messages, with the system's first. Raises `Refusal`."""
    if not body.messages:
        raise Refusal(400, "messages: at least one is required")
    messages: list[ChatMessage] = []
    if body.system:
        text = body.system
        if not isinstance(text, str):
            text = "\n".join(block.text for block in text)
        messages.append(ChatMessage("system", text))
    for turn in body.messages:
        messages += await _turn(turn, pictures)
    return messages


async def _turn(turn: Message, pictures: RequestPictures) -> list[ChatMessage]:
    """A message, and before it those of tools that spoke in it."""
    if isinstance(turn.content, str):
        return [ChatMessage(turn.role, turn.content)]
    results, parts, calls, thought = [], [], [], ""
    for block in turn.content:
        if isinstance(block, ToolResultBlock):
            results.append(await _result(block, pictures))
        elif isinstance(block, ToolUseBlock):
            calls.append(ToolCall(block.id, block.name, bytes(block.input).decode()))
        elif isinstance(block, ThinkingBlock):
            thought += block.thinking
        elif isinstance(block, TextBlock | ImageBlock):
            parts.append(await _part(block, pictures))
    if parts or calls or thought or not results:
        results.append(ChatMessage(turn.role, chat_fields.content(parts), thought, calls))
    return results


async def _result(block: ToolResultBlock, pictures: RequestPictures) -> ChatMessage:
    content = block.content or ""
    if isinstance(content, str):
        return ChatMessage("tool", content, call_id=block.tool_use_id)
    parts = [await _part(part, pictures) for part in content]
    return ChatMessage("tool", chat_fields.content(parts), call_id=block.tool_use_id)


async def _part(block: TextBlock | ImageBlock, pictures: RequestPictures) -> TextPart | PicturePart:
    if isinstance(block, TextBlock):
        return TextPart(block.text)
    if block.source.type == "url":
        return await pictures.from_url(block.source.url)
    return await pictures.from_base64(block.source.data)
