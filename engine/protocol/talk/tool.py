"""Tools that a model may call, and its calls."""

from typing import Literal

import msgspec

ToolChoice = Literal["none", "auto", "required"]


class Tool(msgspec.Struct, frozen=True):
    """A function; `parameters` is the JSON schema of its arguments as text."""

    name: str
    description: str = ""
    parameters: str = "{}"


class Tools(msgspec.Struct, frozen=True):
    """Tools that may be called. With `only`, the function of that name must be; `several` calls may
    stand in one answer.
    """

    known: list[Tool] = []
    choice: ToolChoice = "auto"
    only: str = ""
    several: bool = True


class ToolCall(msgspec.Struct, frozen=True):
    """A call that an assistant's message made; `arguments` is JSON as text."""

    id: str
    name: str
    arguments: str


class CallPart(msgspec.Struct, frozen=True):
    """More of the answer's call number `index`: the first part has its id and name, and the
    `arguments` of all parts in a row are JSON as text.
    """

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""
