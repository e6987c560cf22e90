"""Requests for responses, and what the engine makes of them."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Raw, Struct

from app.serve import asked
from app.serve.openai.messages import MOST_TOOLS, tool
from app.serve.pictures import AskedPictures
from app.serve.web.body import NULL, raw_text
from app.serve.web.refusal import Refusal
from engine.protocol import (
    AnswerForm,
    ChatMessage,
    JsonObject,
    PicturePart,
    TextPart,
    ToolCall,
    Tools,
)


class ItemPart(Struct):
    """A part of an item's content: text of several kinds, or a picture."""

    type: Literal["input_text", "output_text", "text", "refusal", "input_image"]
    text: str = ""
    refusal: str = ""
    image_url: str | None = None


class GivenItem(Struct):
    """A message, a call, what it gave, or a thought, by its `type`."""

    type: Literal["message", "function_call", "function_call_output", "reasoning"] = "message"
    role: Literal["system", "developer", "user", "assistant"] = "user"
    content: str | list[ItemPart] | None = None
    call_id: str = ""
    name: str = ""
    arguments: str = "{}"
    output: str | list[ItemPart] = ""


class GivenFunction(Struct):
    """A function that may be called."""

    name: str = ""
    type: Literal["function"] = "function"
    description: str | None = None
    parameters: Raw = NULL


class WantedFunction(Struct):
    """A function that must be called."""

    name: str
    type: Literal["function"] = "function"


class WantedFormat(Struct):
    """The requested response format."""

    type: Literal["text", "json_object", "json_schema"] = "text"
    schema: Raw = NULL
    name: str | None = None


class WantedText(Struct):
    """How the text is to be."""

    format: WantedFormat | None = None


class WantedReasoning(Struct):
    """How much it thinks."""

    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None


class ResponseBody(Struct):
    """A request."""

    input: str | list[GivenItem] = ""
    model: str | None = None
    instructions: str | None = None
    max_output_tokens: asked.Count | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: asked.Fraction | None = None
    tools: list[GivenFunction] | None = None
    tool_choice: Literal["none", "auto", "required"] | WantedFunction | None = None
    parallel_tool_calls: bool | None = None
    text: WantedText | None = None
    reasoning: WantedReasoning | None = None
    stream: bool | None = None
    previous_response_id: str | None = None


async def chat(body: ResponseBody, pictures: AskedPictures) -> list[ChatMessage]:
    """The messages. Raises `Refusal`."""
    said = [ChatMessage("system", body.instructions)] if body.instructions else []
    if isinstance(body.input, str):
        return [*said, ChatMessage("user", body.input)]
    if not body.input:
        raise Refusal(400, "input: at least one item is needed", param="input")
    for i, item in enumerate(body.input):
        said += await _item(item, f"input[{i}]", pictures)
    return said


async def _item(item: GivenItem, param: str, pictures: AskedPictures) -> list[ChatMessage]:
    if item.type == "reasoning":
        return []
    if item.type == "function_call":
        call = ToolCall(item.call_id, item.name, item.arguments)
        return [ChatMessage("assistant", "", calls=[call])]
    if item.type == "function_call_output":
        content = await _content(item.output, param, pictures)
        return [ChatMessage("tool", content, call_id=item.call_id)]
    role = "system" if item.role == "developer" else item.role
    return [ChatMessage(role, await _content(item.content, param, pictures))]


async def _content(
    given: str | list[ItemPart] | None, param: str, pictures: AskedPictures
) -> str | list[TextPart | PicturePart]:
    if given is None or isinstance(given, str):
        return given or ""
    parts: list[TextPart | PicturePart] = []
    for part in given:
        if part.type != "input_image":
            parts.append(TextPart(part.text or part.refusal))
        elif part.image_url is None:
            raise Refusal(400, f"{param}: a picture must be a data URL", param=param)
        else:
            parts.append(await pictures.from_url(part.image_url, param))
    if any(isinstance(part, PicturePart) for part in parts):
        return parts
    return "".join(part.text for part in parts if isinstance(part, TextPart))


def tools(body: ResponseBody) -> Tools:
    """Return the requested tools. Raises `Refusal`."""
    given, choice = body.tools or [], body.tool_choice
    if len(given) > MOST_TOOLS:
        raise Refusal(400, f"tools: at most {MOST_TOOLS}", param="tools")
    known = [tool(one.name, one.description, one.parameters) for one in given]
    only = choice.name if isinstance(choice, WantedFunction) else ""
    if only and only not in [one.name for one in known]:
        raise Refusal(
            400, f"tool_choice: there is no tool named {only[:100]!r}", param="tool_choice"
        )
    word: Any = "required" if only else choice or "auto"
    if word == "required" and not known:
        raise Refusal(400, "tool_choice: there are no tools", param="tool_choice")
    return Tools(known, word, only, body.parallel_tool_calls is not False)


def form(body: ResponseBody) -> AnswerForm | None:
    """Return the requested response format. Raises `Refusal`."""
    wanted = body.text.format if body.text is not None else None
    if wanted is None or wanted.type == "text":
        return None
    text = raw_text(wanted.schema)
    if wanted.type == "json_object" or text is None:
        return JsonObject()
    return asked.schema(text, "text.format.schema")


def template(body: ResponseBody) -> dict[str, Any]:
    """Variables of the chat template."""
    effort = body.reasoning.effort if body.reasoning is not None else None
    if effort is None:
        return {}
    return {"enable_thinking": False} if effort == "none" else {"reasoning_effort": effort}
