"""Grammars of calls, as a model's family writes them: found by what its template makes of a trial.

A family whose arguments are JSON writes: before NAME between ARGUMENTS, each further call behind a
separator, then what comes after. Families of other syntaxes have no grammar; where a call must be,
they write the plain JSON that any model knows.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.answers.forms import CHANNEL, MARKS, MESSAGE, form_of
from engine.answers.reader import read
from engine.errors import BadSetting, TemplateError
from engine.protocol import Tool, Tools
from engine.runner.forms.turns import parameters_of
from engine.sampling.closing import closed
from engine.sampling.constraint import JSON_OPTIONS, OPTIONS
from engine.tokenizer import ChatTemplate, Tokenizer

_NAME, _KEY, _VALUES = "trial_tool", "trial_key", ("x", "y")
_IDS = ("trial0123", "trial4567")  # nine letters and digits, as Mistral's templates want them
_ID = "/[A-Za-z0-9]{9}/"
_NO_THOUGHT = re.compile(r"^\s*<think>\s*</think>\s*")
_THOUGHT = re.compile(r"<think>|</think>|<\|START_(?!OF)|\[THINK\]")


@dataclass(frozen=True)
class CallStyle:
    """How calls are written. `separator` is empty where one call alone can be."""

    before: str
    between: str
    separator: str
    after: str

    def trigger(self, template: str) -> str:
        """Return the end of an answer's text at which a call begins."""
        if self == FRAMED:
            return "to=functions."
        return _mark(self.before, template) or self.before


PLAIN = CallStyle('{"name": "', '", "arguments": ', '}\n{"name": "', "}")
"""JSON objects in a row."""
FRAMED = CallStyle("<|channel|>commentary to=functions.", " <|constrain|>json<|message|>", "", "")
"""As gpt-oss writes; its template shows what was called in another order."""


def style_of(template: ChatTemplate, tokenizer: Tokenizer) -> CallStyle | None:
    """Return the format of tool calls in the template; None where their arguments are no JSON."""
    if template.source != "file":
        return None
    if MESSAGE in template.text and CHANNEL in template.text:
        return FRAMED
    one, two = (_written(template, tokenizer, count) for count in (1, 2))
    single = _taken_apart(one, _VALUES[0])
    if single is None:
        return None
    before, between, after = single
    style = CallStyle(before, between, "", after)
    first = _taken_apart(two, _VALUES[0])
    rest = None if first is None else _taken_apart(first[2], _VALUES[1])
    if first and rest and first[:2] == (before, between) and rest[1:] == (between, after):
        style = replace(style, separator=rest[0])
    return style if _is_read(style, template.text) else None


def _is_read(style: CallStyle, template: str) -> bool:
    """True if an answer of that style is read as a call."""
    text = f"{style.before}{_NAME}{style.between}{{}}{style.after}"
    return [part.kind for part in read(text, form_of(template))[0]] == ["call"]


def calls_grammar(style: CallStyle, tools: Tools, tokenizer: Tokenizer, trigger: str = "") -> str:
    """Calls of these tools as Lark, whole or behind the `trigger`; exactly one where a tool is
    named. What of a schema is not known is passed over where a model need not call. Raises
    `BadSetting`.
    """
    lenient = trigger != ""
    known = _callable(tools)
    lines = ["%llguidance {}"]
    more = ""
    if style.separator and tools.several and not tools.only:
        more = f"({_literal(style.separator, tokenizer)} call)*"
    before, after = style.before.partition(trigger)[2] if trigger else style.before, style.after
    head, end = (_literal(text, tokenizer) for text in (before, after))
    lines.append(f"start: {head} call {more} {end}")
    lines.append("call: " + " | ".join(f"call_{i}" for i in range(len(known))))
    for i, tool in enumerate(known):
        between = _literal(style.between, tokenizer)
        options = {OPTIONS: {**JSON_OPTIONS, "lenient": lenient}}
        schema = json.dumps(closed(parameters_of(tool)) | options)
        lines.append(f"call_{i}: {json.dumps(tool.name)} {between} arguments_{i}")
        lines.append(f"arguments_{i}: %json {schema}")
    return "\n".join(lines)


def _callable(tools: Tools) -> Sequence[Tool]:
    if not tools.only:
        return tools.known
    known = [tool for tool in tools.known if tool.name == tools.only]
    if not known:
        expected = f"one of {', '.join(repr(tool.name) for tool in tools.known)}"
        raise BadSetting("tools", tools.only, expected)
    return known


def _written(template: ChatTemplate, tokenizer: Tokenizer, count: int) -> str:
    """Render an assistant message with `count` tool calls, without its end mark."""
    question = {"role": "user", "content": "?"}
    calls = [
        {"id": i, "type": "function", "function": {"name": _NAME, "arguments": {_KEY: value}}}
        for i, value in zip(_IDS[:count], _VALUES, strict=False)
    ]
    answer = {"role": "assistant", "content": "", "tool_calls": calls}
    try:
        closed, opened, whole = (
            template.render([question], False),
            template.render([question], True),
            template.render([question, answer], False),
        )
    except TemplateError:
        return ""
    if not whole.startswith(closed):
        return ""
    speaker = _THOUGHT.split(opened.removeprefix(closed))[0]
    sample = whole.removeprefix(closed).removeprefix(speaker.rstrip())
    ends = [tokenizer.text(token) for token in tokenizer.eog]
    cut = min((at for end in ends if (at := sample.find(end)) >= 0), default=len(sample))
    sample = _NO_THOUGHT.sub("", sample[:cut]).strip()
    mark = _mark(sample, template.text)
    sample = sample[sample.find(mark) :]
    end = next((c.end for c in form_of(template.text).calling if c.begin == mark), "")
    return sample[: sample.rfind(end) + len(end)] if end and end in sample else sample


def _mark(sample: str, template: str) -> str:
    """The mark of the family with which a call begins."""
    marks = [calling.begin for calling in form_of(template).calling]
    return next((mark for mark in marks if mark in sample), "")


def _taken_apart(text: str, value: str) -> tuple[str, str, str] | None:
    """Split a rendered call into the texts before the name, between name and arguments, and after
    them.
    """
    pattern = rf'{_NAME}(.*?)(?:\{{\s*"{_KEY}"\s*:\s*"{value}"\s*\}})'
    match = re.search(pattern, text, re.DOTALL)
    if match is None or _NAME in match[1]:
        return None
    return text[: match.start()], match[1], text[match.end() :]


def _literal(text: str, tokenizer: Tokenizer) -> str:
    """A text as Lark: marks that are tokens as these, ids as any."""
    parts = []
    pattern = "|".join(map(re.escape, sorted([*MARKS, *_IDS], key=len, reverse=True)))
    at = 0
    for match in re.finditer(pattern, text):
        parts.append(json.dumps(text[at : match.start()], ensure_ascii=False))
        token = tokenizer.id(match[0])
        found = json.dumps(match[0], ensure_ascii=False) if token is None else f"<[{token}]>"
        parts.append(_ID if match[0] in _IDS else found)
        at = match.end()
    parts.append(json.dumps(text[at:], ensure_ascii=False))
    return " ".join(part for part in parts if part != '""') or '""'
