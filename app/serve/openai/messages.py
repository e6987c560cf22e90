"""Chats and tools as OpenAI's clients send them, and the first fields of a response's frames."""

import secrets
from dataclasses import dataclass, field
from time import time
from typing import Any, ClassVar, Literal

from msgspec import Raw, Struct

from app.serve.asked import MOST_SCHEMA
from app.serve.fetching import AskedPictures
from app.serve.gathered import FINGERPRINT
from app.serve.web.body import NULL, raw_text
from app.serve.web.refusal import Refusal
from engine.protocol import ChatMessage, PicturePart, TextPart, Tool, ToolCall, Tools

MOST_TOOLS = 128


class PictureAddress(Struct):
    """Where a picture is."""

    url: str
    detail: str | None = None


class SaidText(Struct, tag_field="type", tag="text"):
    """A part of a message."""

    text: str


class SaidRefusal(Struct, tag_field="type", tag="refusal"):
    """A part of an assistant's message, told as text."""

    refusal: str


class SaidPicture(Struct, tag_field="type", tag="image_url"):
    """A part of a message that is a picture."""

    image_url: PictureAddress | str


SaidPart = SaidText | SaidRefusal | SaidPicture


class CallMade(Struct):
    """The called function."""

    name: str
    arguments: str | Raw = "{}"


class SaidCall(Struct):
    """A call that an assistant made."""

    function: CallMade
    id: str = ""
    type: Literal["function"] = "function"


class SaidMessage(Struct):
    """One message."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[SaidPart] | None = None
    tool_calls: list[SaidCall] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class FunctionGiven(Struct):
    """A function by its name and the schema of its arguments."""

    name: str
    description: str | None = None
    parameters: Raw = NULL


class ToolGiven(Struct):
    """A tool."""

    function: FunctionGiven
    type: Literal["function"] = "function"


class NamedFunction(Struct):
    """A function that must be called."""

    name: str


class ChosenTool(Struct):
    """A tool that must be called."""

    function: NamedFunction
    type: Literal["function"] = "function"


async def messages(said: list[SaidMessage], pictures: AskedPictures) -> list[ChatMessage]:
    """The chat. Raises `Refusal`."""
    if not said:
        raise Refusal(400, "messages: at least one is required", param="messages")
    return [await _message(one, i, pictures) for i, one in enumerate(said)]


def begun(chat: list[ChatMessage]) -> tuple[list[ChatMessage], str]:
    """The chat without an answer that it ends with, which is gone on with, and its text."""
    last = chat[-1]
    if last.role != "assistant" or last.calls or len(chat) == 1:
        return chat, ""
    return chat[:-1], last.text


async def _message(said: SaidMessage, i: int, pictures: AskedPictures) -> ChatMessage:
    role = {"developer": "system", "function": "tool"}.get(said.role, said.role)
    param = f"messages[{i}].content"
    if said.content is None and role != "assistant":
        raise Refusal(400, f"{param}: a {role}'s message needs content", param=param)
    content: Any = said.content or ""
    if not isinstance(content, str):
        content = await _parts(content, param, pictures)
    calls = [_call(call, i) for call in said.tool_calls or []]
    thought = said.reasoning_content or said.reasoning or ""
    return ChatMessage(role, content, thought, calls, said.tool_call_id or "")


async def _parts(
    parts: list[SaidPart], param: str, pictures: AskedPictures
) -> str | list[TextPart | PicturePart]:
    made: list[TextPart | PicturePart] = []
    for number, part in enumerate(parts):
        if isinstance(part, SaidPicture):
            given = part.image_url
            url = given if isinstance(given, str) else given.url
            made.append(await pictures.from_url(url, f"{param}[{number}].image_url"))
        else:
            made.append(TextPart(part.text if isinstance(part, SaidText) else part.refusal))
    if any(isinstance(part, PicturePart) for part in made):
        return made
    return "".join(part.text for part in made if isinstance(part, TextPart))


def _call(call: SaidCall, i: int) -> ToolCall:
    given = call.function.arguments
    arguments = given if isinstance(given, str) else bytes(given).decode()
    if len(arguments) > MOST_SCHEMA:
        raise Refusal(400, "a call's arguments are too long", param=f"messages[{i}].tool_calls")
    return ToolCall(call.id, call.function.name, arguments or "{}")


def tools(
    given: list[ToolGiven] | None, choice: str | ChosenTool | None, several: bool | None
) -> Tools:
    """Return the requested tools. Raises `Refusal`."""
    if len(given or []) > MOST_TOOLS:
        raise Refusal(400, f"tools: at most {MOST_TOOLS}", param="tools")
    known = [
        tool(one.function.name, one.function.description, one.function.parameters)
        for one in given or []
    ]
    names = [one.name for one in known]
    only = choice.function.name if isinstance(choice, ChosenTool) else ""
    if only and only not in names:
        raise Refusal(
            400, f"tool_choice: there is no tool named {only[:100]!r}", param="tool_choice"
        )
    word = "required" if only else choice or "auto"
    if word == "required" and not known:
        raise Refusal(400, "tool_choice: there are no tools", param="tool_choice")
    return Tools(known, word, only, several is not False)  # type: ignore[arg-type]


def tool(name: str, description: str | None, parameters: Raw) -> Tool:
    """One function. Raises `Refusal` for a schema that is too long."""
    text = raw_text(parameters) or "{}"
    if len(text) > MOST_SCHEMA:
        raise Refusal(400, f"tools: the schema of {name[:100]!r} is too long", param="tools")
    return Tool(name, description or "", text)


@dataclass
class FramesTelling:
    """How one request is answered: what every frame has, and what was asked for."""

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
