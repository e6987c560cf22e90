"""Requests as Anthropic's clients send them, and what the engine makes of them."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Raw, Struct

from app.serve.fetching import AskedPictures
from app.serve.web.body import NULL, raw_text
from app.serve.web.refusal import Refusal
from engine.protocol import (
    AnswerForm,
    ChatMessage,
    JsonSchema,
    PicturePart,
    TextPart,
    Tool,
    ToolCall,
    Tools,
)

MOST_TOOLS = 128
MOST_SCHEMA = 1 << 18
Fraction = Annotated[float, Meta(ge=0, le=1)]


class PictureSource(Struct):
    """Where a picture is."""

    type: Literal["base64", "url"]
    data: str = ""
    url: str = ""


class SpokenBlock(Struct, tag_field="type", tag="text"):
    """Text."""

    text: str


class PictureBlock(Struct, tag_field="type", tag="image"):
    """A picture."""

    source: PictureSource


class UseBlock(Struct, tag_field="type", tag="tool_use"):
    """A call that the assistant made."""

    id: str
    name: str
    input: Raw = Raw(b"{}")


class ResultBlock(Struct, tag_field="type", tag="tool_result"):
    """The result of a tool call."""

    tool_use_id: str
    content: str | list[SpokenBlock | PictureBlock] | None = None
    is_error: bool | None = None


class ThinkingBlock(Struct, tag_field="type", tag="thinking"):
    """Reasoning of the assistant."""

    thinking: str = ""


class RedactedBlock(Struct, tag_field="type", tag="redacted_thinking"):
    """Encrypted reasoning, which only its provider can read."""


Block = SpokenBlock | PictureBlock | UseBlock | ResultBlock | ThinkingBlock | RedactedBlock


class Turn(Struct):
    """One message."""

    role: Literal["user", "assistant", "system"]
    content: str | list[Block]


class ToolOffered(Struct):
    """A tool."""

    name: str
    description: str | None = None
    input_schema: Raw = NULL
    type: str | None = None


class ToolWanted(Struct):
    """Which tool is to be used."""

    type: Literal["auto", "any", "tool", "none"]
    name: str = ""
    disable_parallel_tool_use: bool | None = None


class ThinkingWanted(Struct):
    """The setting for reasoning."""

    type: Literal["enabled", "disabled", "adaptive"]


class OutputFormat(Struct):
    """The requested response format."""

    type: Literal["json_schema"]
    schema: Raw = NULL


class OutputWanted(Struct):
    """How the answer is to be."""

    format: OutputFormat | None = None
    effort: str | None = None


class CountBody(Struct):
    """The fields of a request that the token count needs."""

    messages: list[Turn]
    model: str | None = None
    system: str | list[SpokenBlock] | None = None
    tools: list[ToolOffered] | None = None
    tool_choice: ToolWanted | None = None
    thinking: ThinkingWanted | None = None


class MessagesBody(CountBody, kw_only=True):
    """A request."""

    max_tokens: Annotated[int, Meta(ge=1)]
    temperature: Fraction | None = None
    top_p: Fraction | None = None
    top_k: Annotated[int, Meta(ge=0, le=(1 << 31) - 1)] | None = None
    stop_sequences: list[str] | None = None
    stream: bool | None = None
    output_config: OutputWanted | None = None


def sampling(body: MessagesBody) -> dict[str, Any]:
    """The request's own values of `Sampling`; None where it has none."""
    return {"temperature": body.temperature, "top_p": body.top_p, "top_k": body.top_k}


def form(body: MessagesBody) -> AnswerForm | None:
    """Return the requested response format. Raises `Refusal`."""
    wanted = body.output_config.format if body.output_config is not None else None
    text = raw_text(wanted.schema) if wanted is not None else None
    if text is not None and len(text) > MOST_SCHEMA:
        raise Refusal(400, f"output_config: a schema longer than {MOST_SCHEMA >> 10} KiB")
    return None if text is None else JsonSchema(text)


def tools(body: CountBody) -> Tools:
    """Return the requested tools. Raises `Refusal`."""
    given, choice = body.tools or [], body.tool_choice
    if len(given) > MOST_TOOLS:
        raise Refusal(400, f"tools: at most {MOST_TOOLS}", param="tools")
    known = [_tool(one) for one in given]
    if choice is None:
        return Tools(known)
    several = not choice.disable_parallel_tool_use
    if choice.type == "tool" and choice.name not in [tool.name for tool in known]:
        raise Refusal(400, f"tool_choice: there is no tool named {choice.name[:100]!r}")
    if choice.type in ("any", "tool") and not known:
        raise Refusal(400, "tool_choice: there are no tools")
    word: Any = {"any": "required", "tool": "required"}.get(choice.type, choice.type)
    return Tools(known, word, choice.name if choice.type == "tool" else "", several)


def _tool(given: ToolOffered) -> Tool:
    text = raw_text(given.input_schema)
    if text is None:
        raise Refusal(400, f"tools: {given.name[:100]!r} has no input_schema")
    if len(text) > MOST_SCHEMA:
        raise Refusal(400, f"tools: the schema of {given.name[:100]!r} is too long")
    return Tool(given.name, given.description or "", text)


def template(body: CountBody) -> dict[str, Any]:
    """Variables of the chat template."""
    if body.thinking is None or body.thinking.type == "adaptive":
        return {}
    return {"enable_thinking": body.thinking.type == "enabled"}


async def chat(body: CountBody, pictures: AskedPictures) -> list[ChatMessage]:
    """The messages, with the system's first. Raises `Refusal`."""
    if not body.messages:
        raise Refusal(400, "messages: at least one is required")
    said: list[ChatMessage] = []
    if body.system:
        text = body.system
        if not isinstance(text, str):
            text = "\n".join(block.text for block in text)
        said.append(ChatMessage("system", text))
    for turn in body.messages:
        said += await _turn(turn, pictures)
    return said


async def _turn(turn: Turn, pictures: AskedPictures) -> list[ChatMessage]:
    """A message, and before it those of tools that spoke in it."""
    if isinstance(turn.content, str):
        return [ChatMessage(turn.role, turn.content)]
    results, parts, calls, thought = [], [], [], ""
    for block in turn.content:
        if isinstance(block, ResultBlock):
            results.append(await _result(block, pictures))
        elif isinstance(block, UseBlock):
            calls.append(ToolCall(block.id, block.name, bytes(block.input).decode()))
        elif isinstance(block, ThinkingBlock):
            thought += block.thinking
        elif isinstance(block, SpokenBlock | PictureBlock):
            parts.append(await _part(block, pictures))
    if parts or calls or thought or not results:
        results.append(ChatMessage(turn.role, _plain(parts), thought, calls))
    return results


async def _result(block: ResultBlock, pictures: AskedPictures) -> ChatMessage:
    content = block.content or ""
    if isinstance(content, str):
        return ChatMessage("tool", content, call_id=block.tool_use_id)
    parts = [await _part(part, pictures) for part in content]
    return ChatMessage("tool", _plain(parts), call_id=block.tool_use_id)


async def _part(
    block: SpokenBlock | PictureBlock, pictures: AskedPictures
) -> TextPart | PicturePart:
    if isinstance(block, SpokenBlock):
        return TextPart(block.text)
    if block.source.type == "url":
        return await pictures.from_url(block.source.url)
    return await pictures.from_base64(block.source.data)


def _plain(parts: list[TextPart | PicturePart]) -> str | list[TextPart | PicturePart]:
    if any(isinstance(part, PicturePart) for part in parts):
        return parts
    return "".join(part.text for part in parts if isinstance(part, TextPart))
