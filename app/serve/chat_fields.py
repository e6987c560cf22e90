"""Fields that chat requests of all APIs share: tools, their schemas, and a message to continue."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from app.serve.web.refusal import Refusal
from engine.protocol import ChatMessage, PicturePart, TextPart, Tool, Tools

MOST_TOOLS = 128
MOST_SCHEMA = 1 << 18
"""Characters of a schema, or of a call's arguments."""

Content = str | list[TextPart | PicturePart]


def split_prefix(chat: list[ChatMessage]) -> tuple[list[ChatMessage], str]:
    """Split off a trailing assistant message that is to be continued: the others, and its text."""
    last = chat[-1]
    if last.role != "assistant" or last.calls or len(chat) == 1:
        return chat, ""
    return chat[:-1], last.text


def content(parts: list[TextPart | PicturePart]) -> Content:
    """The content of a message: one text where no part is a picture."""
    if any(isinstance(part, PicturePart) for part in parts):
        return parts
    return "".join(part.text for part in parts if isinstance(part, TextPart))


def bounded(text: str, param: str) -> str:
    """Return a schema or grammar. Raises `Refusal` where it is too long."""
    if len(text) > MOST_SCHEMA:
        raise Refusal(400, f"{param}: longer than {MOST_SCHEMA >> 10} KiB", param=param)
    return text


def tool(name: str, description: str | None, parameters: str | None) -> Tool:
    """Return a function by the JSON text of its parameters' schema. Raises `Refusal`."""
    text = parameters or "{}"
    if len(text) > MOST_SCHEMA:
        raise Refusal(400, f"tools: the schema of {name[:100]!r} is too long", param="tools")
    return Tool(name, description or "", text)


def tools(
    known: Sequence[Tool],
    choice: Literal["none", "auto", "required"] = "auto",
    only: str = "",
    several: bool = True,
) -> Tools:
    """Return the tools of a request, `only` one of which must be called if it is not empty. Raises
    `Refusal`.
    """
    if len(known) > MOST_TOOLS:
        raise Refusal(400, f"tools: at most {MOST_TOOLS}", param="tools")
    if only and only not in [one.name for one in known]:
        text = f"tool_choice: there is no tool named {only[:100]!r}"
        raise Refusal(400, text, param="tool_choice")
    if choice == "required" and not known:
        raise Refusal(400, "tool_choice: there are no tools", param="tool_choice")
    return Tools(list(known), "required" if only else choice, only, several)


def arguments_of_call(text: str) -> Any:
    """Decode the arguments of a model's call. Raises `Refusal` where they are not JSON."""
    try:
        return msgspec.json.decode(text or "{}")
    except msgspec.DecodeError:
        raise Refusal(500, "the model's tool call is not valid JSON") from None
