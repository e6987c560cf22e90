"""How a chat template shows tools, calls and results: found by what it makes of a trial."""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Literal

from engine.errors import TemplateError
from engine.tokenizer import ChatTemplate
from engine.tokenizer.chat import Message

Arguments = Literal["object", "text", ""]

_TOOL, _KEY, _RESULT = "trial_tool", "trial_key", "trial result"
_ID = "trial0123"  # Mistral's templates want nine letters and digits
_QUESTION: Message = {"role": "user", "content": "?"}
_KNOWN = {
    "type": "function",
    "function": {
        "name": _TOOL,
        "description": "?",
        "parameters": {"type": "object", "properties": {_KEY: {"type": "string"}}},
    },
}
_ANSWERED: Message = {"role": "tool", "content": _RESULT, "tool_call_id": _ID, "name": _TOOL}


class ToolForm:
    """A template's rendering of tools and calls."""

    def __init__(self, template: ChatTemplate) -> None:
        self._template = template

    @cached_property
    def tools(self) -> bool:
        """True if it prints the tools there are."""
        return _TOOL in self._printed([_QUESTION], [_KNOWN])

    @cached_property
    def arguments(self) -> Arguments:
        """How it wants the arguments of a call that was made; "" where it prints no calls."""
        values: tuple[tuple[Arguments, object], ...] = (
            ("object", {_KEY: "x"}),
            ("text", f'{{"{_KEY}": "x"}}'),
        )
        for kind, value in values:
            text = self._printed([_QUESTION, _call(value), _ANSWERED], [])
            if _TOOL in text and _KEY in text and f"'{_KEY}'" not in text:
                return kind
        return ""

    @cached_property
    def results(self) -> bool:
        """True if it prints the result of a call."""
        value: object = {_KEY: "x"} if self.arguments != "text" else f'{{"{_KEY}": "x"}}'
        return _RESULT in self._printed([_QUESTION, _call(value), _ANSWERED], [_KNOWN])

    def _printed(self, messages: Sequence[Message], tools: Sequence[object]) -> str:
        if self._template.source != "file":
            return ""
        try:
            return self._template.render(messages, True, **({"tools": tools} if tools else {}))
        except TemplateError:
            return ""


@lru_cache(maxsize=4)
def tool_form(template: ChatTemplate) -> ToolForm:
    """Return the template's rendering of tools and calls."""
    return ToolForm(template)


def _call(arguments: object) -> Message:
    function = {"name": _TOOL, "arguments": arguments}
    call = {"id": _ID, "type": "function", "function": function}
    return {"role": "assistant", "content": "", "tool_calls": [call]}
