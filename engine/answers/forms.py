"""How families of models write thoughts and calls: marks, and what stands between them."""

import re
from dataclasses import dataclass

from engine.answers import bodies, jsons
from engine.answers.jsons import Body
from engine.answers.streaming import DEEPSEEK, KIMI, MISTRAL, OBJECTS

START, MESSAGE, CHANNEL = "<|start|>", "<|message|>", "<|channel|>"
FRAME_ENDS = ("<|end|>", "<|call|>", "<|return|>", "<|eom|>", "<|eot|>")
"""What ends a message of an answer that consists of several (harmony)."""
DROPPED = ("<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>")
"""Marks around an answer's text."""


@dataclass(frozen=True)
class Thinking:
    """Marks around what is thought before an answer."""

    begin: str
    end: str


@dataclass(frozen=True)
class Calling:
    """Marks around calls, and who reads what is between. Without an `end` they reach to the next
    `begin`, or the answer's end.
    """

    begin: str
    end: str
    body: Body
    head: re.Pattern[str] | None = None
    """What stands before a call's arguments, where these are a JSON object."""


THINKING = (
    Thinking("<think>", "</think>"),
    Thinking("[THINK]", "[/THINK]"),
    Thinking("<seed:think>", "</seed:think>"),
    Thinking("<|START_THINKING|>", "<|END_THINKING|>"),
    Thinking("<|channel>thought", "<channel|>"),
    Thinking("<|inner_prefix|>", "<|inner_suffix|>"),
)
_BEGIN, _END = (f"<\uff5ctool\u2581calls\u2581{word}\uff5c>" for word in ("begin", "end"))
CALLING = (
    Calling("<tool_call>", "</tool_call>", bodies.tagged, OBJECTS),
    Calling("<seed:tool_call>", "</seed:tool_call>", bodies.functions),
    Calling("<minimax:tool_call>", "</minimax:tool_call>", bodies.invokes("")),
    Calling("<atem:function_calls>", "</atem:function_calls>", bodies.invokes("atem:")),
    Calling("<TOOLCALL>", "</TOOLCALL>", jsons.objects, OBJECTS),
    Calling("<tool_calls>", "</tool_calls>", jsons.objects, OBJECTS),
    Calling("<|tool_call|>", "<|/tool_call|>", jsons.objects, OBJECTS),
    Calling("[TOOL_CALLS]", "", jsons.mistral, MISTRAL),
    Calling(_BEGIN, _END, jsons.deepseek, DEEPSEEK),
    Calling("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", jsons.kimi, KIMI),
    Calling("<|START_ACTION|>", "<|END_ACTION|>", jsons.objects, OBJECTS),
    Calling("<|tool_call_start|>", "<|tool_call_end|>", bodies.python),
    Calling("<|python_start|>", "<|python_end|>", bodies.python),
    Calling("<function_calls>", "</function_calls>", bodies.python),
    Calling("<|tool_call>", "<tool_call|>", bodies.gemma),
)
BARE = Calling("{", "", lambda body, types: jsons.objects("{" + body, types), OBJECTS)
"""An answer that is JSON objects in a row, mostly one, as of Llama 3."""


@dataclass(frozen=True)
class Form:
    """The possible parts of an answer: thoughts, calls, messages in frames, or one `bare` call."""

    thinking: tuple[Thinking, ...] = THINKING
    calling: tuple[Calling, ...] = CALLING
    frames: bool = True
    bare: bool = False

    @property
    def marks(self) -> tuple[str, ...]:
        """Marks that are not part of an answer's text."""
        return (*(calling.begin for calling in self.calling), *DROPPED)


ANY = Form()
"""Of answers whose model is not known."""

INNER = (
    *("<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"),
    *("<\uff5ctool\u2581call\u2581begin\uff5c>", "<\uff5ctool\u2581call\u2581end\uff5c>"),
    *("<\uff5ctool\u2581sep\uff5c>", "[ARGS]", "[CALL_ID]", bodies.QUOTE, "<|channel>"),
)
MARKS = frozenset(
    {
        *INNER,
        *(mark for pair in THINKING for mark in (pair.begin, pair.end)),
        *(mark for pair in CALLING for mark in (pair.begin, pair.end) if mark),
        *(*DROPPED, START, MESSAGE, CHANNEL, "<|constrain|>", *FRAME_ENDS),
    }
)
"""Texts of tokens without which an answer could not be read, though files call them control."""


def form_of(template: str) -> Form:
    """The form of a model's answers, by what its chat template writes; ANY without one."""
    if not template:
        return ANY
    calling = tuple(c for c in CALLING if c.begin in template)
    return Form(
        tuple(t for t in THINKING if t.begin in template or t.end in template),
        calling,
        frames=MESSAGE in template,
        bare=not calling and '"parameters"' in template,
    )


def thought_end(opened: str) -> str:
    """The mark that ends the thought which the end of a prompt has begun; "" where it has not."""
    return next((t.end for t in THINKING if t.begin == opened.strip()), "")


def opened(prompt: str) -> str:
    """The end of a prompt that begins a thought, which the answer then goes on with; else ""."""
    bare = prompt.rstrip()
    begin = next((t.begin for t in THINKING if bare.endswith(t.begin)), "")
    return prompt[len(bare) - len(begin) :] if begin else ""
