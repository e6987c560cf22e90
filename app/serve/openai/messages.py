"""Chats and tools as OpenAI's clients send them, and the first fields of a response's frames."""

import secrets
from dataclasses import dataclass, field
from time import time
from typing import Any, ClassVar, Literal

from msgspec import Raw, Struct

from app.serve import chat_fields
from app.serve.chat_fields import MOST_SCHEMA
from app.serve.collected import FINGERPRINT
from app.serve.fetching import RequestPictures
from app.serve.web.body import NULL, raw_text
from app.serve.web.refusal import Refusal
from engine import protocol


class ImageUrl(Struct):
    """Where a picture is."""

    url: str
    detail: str | None = None


class TextPart(Struct, tag_field="type", tag="text"):
    """A part of a message."""

    text: str


class RefusalPart(Struct, tag_field="type", tag="refusal"):
    """A part of an assistant's message, as text."""

    refusal: str


class ImagePart(Struct, tag_field="type", tag="image_url"):
    """A part of a message that is a picture."""

    image_url: ImageUrl | str


ContentPart = TextPart | RefusalPart | ImagePart


class CalledFunction(Struct):
    """The called function."""

    name: str
    arguments: str | Raw = "{}"


class ToolCall(Struct):
    """A call that an assistant made."""

    function: CalledFunction
    id: str = ""
    type: Literal["function"] = "function"


class Message(Struct):
    """One message."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[ContentPart] | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class Function(Struct):
    """A function by its name and the schema of its arguments."""

    name: str
    description: str | None = None
    parameters: Raw = NULL


class Tool(Struct):
    """A tool."""

    function: Function
    type: Literal["function"] = "function"


class NamedFunction(Struct):
    """A function that must be called."""

    name: str


class ToolChoice(Struct):
    """A tool that must be called."""

    function: NamedFunction
    type: Literal["function"] = "function"


async def messages(listed: list[Message], pictures: RequestPictures) -> list[protocol.ChatMessage]:
    """The chat. Raises `Refusal`."""
    if not listed:
        raise Refusal(400, "messages: at least one is required", param="messages")
    return [await _message(one, i, pictures) for i, one in enumerate(listed)]


async def _message(message: Message, i: int, pictures: RequestPictures) -> protocol.ChatMessage:
    role = {"developer": "system", "function": "tool"}.get(message.role, message.role)
    param = f"messages[{i}].content"
    if message.content is None and role != "assistant":
        raise Refusal(400, f"{param}: a {role}'s message needs content", param=param)
    content: Any = message.content or ""
    if not isinstance(content, str):
        content = await _parts(content, param, pictures)
    calls = [_call(call, i) for call in message.tool_calls or []]
    thought = message.reasoning_content or message.reasoning or ""
    return protocol.ChatMessage(role, content, thought, calls, message.tool_call_id or "")


async def _parts(
    parts: list[ContentPart], param: str, pictures: RequestPictures
) -> str | list[protocol.TextPart | protocol.PicturePart]:
    made: list[protocol.TextPart | protocol.PicturePart] = []
    for number, part in enumerate(parts):
        if isinstance(part, ImagePart):
            image = part.image_url
            url = image if isinstance(image, str) else image.url
            made.append(await pictures.from_url(url, f"{param}[{number}].image_url"))
        else:
            made.append(
                protocol.TextPart(part.text if isinstance(part, TextPart) else part.refusal)
            )
    return chat_fields.content(made)


def _call(call: ToolCall, i: int) -> protocol.ToolCall:
    raw = call.function.arguments
    arguments = raw if isinstance(raw, str) else bytes(raw).decode()
    if len(arguments) > MOST_SCHEMA:
        raise Refusal(400, "a call's arguments are too long", param=f"messages[{i}].tool_calls")
    return protocol.ToolCall(call.id, call.function.name, arguments or "{}")


def tools(
    items: list[Tool] | None, choice: str | ToolChoice | None, several: bool | None
) -> protocol.Tools:
    """Return the requested tools. Raises `Refusal`."""
    functions = [item.function for item in items or []]
    known = [chat_fields.tool(f.name, f.description, raw_text(f.parameters)) for f in functions]
    only = choice.function.name if isinstance(choice, ToolChoice) else ""
    word: Any = "auto" if only else choice or "auto"
    return chat_fields.tools(known, word, only, several is not False)


@dataclass
class ResponseStyle:
    """How one request is answered: what every frame has, and the options of the request."""

    prefix: ClassVar[str]

    model: str
    top: int | None  # alternatives a token; None: no log-probabilities
    usage: bool
    code: str = field(default_factory=lambda: secrets.token_hex(12), init=False)
    created: int = field(default_factory=lambda: int(time()), init=False)

    @property
    def head(self) -> dict[str, Any]:
        """Return the fields that every frame begins with."""
        return {
            "id": self.prefix + self.code,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": FINGERPRINT,
        }
