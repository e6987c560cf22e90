"""What a model thought before it answered: `<think>...</think>` at the start of an answer."""

from dataclasses import dataclass

OPEN, CLOSE = "<think>", "</think>"


@dataclass(frozen=True)
class Said:
    """`thought` and `answer` are without the marks and the empty lines around them.

    `answer_start` and `thought_start` are where they begin in the whole text. `thinking` says that
    the block is open still: what comes next may be part of it.
    """

    thought: str
    answer: str
    answer_start: int = 0
    thinking: bool = False
    thought_start: int = 0


def split_reasoning(text: str, writing: bool = False) -> Said:
    """Split an answer; `writing` says that more of it is to come.

    Then an end of the text that may become a mark, such as `</thi`, is shown as neither. An
    answer without the first mark has a thought only where its last mark is there: some templates
    put the first one into the prompt. Text without marks is all answer.
    """
    begin = _blank(text)
    rest = text[begin:]
    if writing and rest and len(rest) < len(OPEN) and OPEN.startswith(rest):
        return Said("", "", len(text))
    opened = rest.startswith(OPEN)
    start = begin + len(OPEN) if opened else begin
    end = text.find(CLOSE, start)
    if end < 0 and not opened:
        return Said("", text)
    if end < 0:
        held = _begun(text) if writing else 0
        thought = text[start : len(text) - held]
        return Said(thought.strip(), "", len(text), writing, start + _blank(thought))
    answer, thought = text[end + len(CLOSE) :].lstrip(), text[start:end]
    begins = start + _blank(thought)
    return Said(thought.strip(), answer, len(text) - len(answer), thought_start=begins)


def _blank(text: str) -> int:
    """Length of the white space that a text begins with."""
    return len(text) - len(text.lstrip())


def _begun(text: str) -> int:
    """Length of the end of `text` that CLOSE begins with."""
    return next((n for n in range(len(CLOSE) - 1, 0, -1) if text.endswith(CLOSE[:n])), 0)
