"""Answers of several messages in frames: channels of gpt-oss (harmony), recipients of Muse Glimmer.

    <|start|>assistant<|channel|>analysis<|message|>...<|end|>

The prompt has written the first `<|start|>assistant`.
"""

import re
from dataclasses import dataclass

from engine.answers.forms import CALLING, CHANNEL, MESSAGE, START
from engine.answers.jsons import Calls, Types, arguments, named
from engine.answers.passages import Call, Kind

LONGEST_HEADER = 256
_HEADER = re.compile(
    r"(?:<\|start\|>)?(?:assistant)?(?: ?to=(?P<to>[^\s<]+))?"
    r"(?:<\|channel\|>\s*(?P<channel>\w+))?(?:\s+to=(?P<then>[^\s<]+))?"
    r"(?:\s*<\|constrain\|>\s*\w+|\s+\w+)?\s*"
)
_BEGINS = (START, CHANNEL, " to=", "to=")
_PEOPLE = ("user", "self", "all", "assistant")


@dataclass(frozen=True)
class Frame:
    """A message from `start`, its text from `begin` on; `to` is the tool that it calls."""

    kind: Kind
    start: int = 0
    begin: int = 0
    to: str = ""


def begins(rest: str, final: bool) -> bool | None:
    """True if a frame begins there; None where that is not certain yet."""
    if not final and any(mark.startswith(rest) for mark in _BEGINS):
        return None
    if rest.startswith((START, CHANNEL)):
        return True
    if not rest.startswith(_BEGINS):
        return False
    head = rest[: LONGEST_HEADER + len(MESSAGE)]
    return True if MESSAGE in head else None if len(head) == len(rest) and not final else False


def frame_at(text: str, at: int, final: bool) -> Frame | bool:
    """The frame whose header begins at `at`; False where it is none, True where more must come."""
    head = text[at : at + LONGEST_HEADER + len(MESSAGE)]
    end = head.find(MESSAGE)
    if end < 0:
        return len(text) == at + len(head) < at + LONGEST_HEADER + len(MESSAGE) and not final
    match = _HEADER.fullmatch(head[:end])
    if match is None:
        return False
    to, begin = match["to"] or match["then"] or "", at + end + len(MESSAGE)
    if to and to not in _PEOPLE:
        return Frame("call", at, begin, to)
    thinks = to == "self" or match["channel"] == "analysis"
    return Frame("thought" if thinks else "answer", at, begin)


def called(frame: Frame, body: str, types: Types) -> Calls:
    """Parse the calls in a message to a tool. Raises ValueError."""
    inner = body.strip()
    for calling in CALLING:
        if inner.startswith(calling.begin) and calling.end and inner.endswith(calling.end):
            return calling.body(inner[len(calling.begin) : -len(calling.end)], types)
    return [Call(named(frame.to.removeprefix("functions.")), arguments(inner))]
