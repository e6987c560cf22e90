"""An answer split for display into reasoning, text and tool calls."""

import json
from dataclasses import dataclass, replace
from functools import lru_cache

from app.language import tr
from engine.answers.forms import ANY
from engine.answers.passages import Call, Passage
from engine.answers.reader import read

KEPT = 16  # answers whose reading is kept: one is requested several times a frame
BARE_CALLS = replace(ANY, bare=True)
CALLING = tr("**Calls** a tool …")


@dataclass(frozen=True)
class Excerpt:
    """A text made of stretches of another: each with where it starts there, here, and its length.
    What lies between stretches stands for something else in the other.
    """

    text: str = ""
    runs: tuple[tuple[int, int, int], ...] = ()

    def here(self, at: int) -> int:
        """Where a place of the other text is shown, or the nearest that is."""
        before = [run for run in self.runs if run[0] <= at]
        if not before:
            return 0
        there, here, length = before[-1]
        return here + min(at - there, length)

    def there(self, at: int) -> int:
        """Where a place of this text is in the other."""
        before = [run for run in self.runs if run[1] <= at]
        if not before:
            return self.runs[0][0] if self.runs else 0
        there, here, length = before[-1]
        return there + min(at - here, length)


@dataclass(frozen=True)
class SplitAnswer:
    """`thinking` says that a thought is being written: what comes next may be part of it."""

    thought_part: Excerpt
    answer_part: Excerpt
    answer_start: int
    thinking: bool = False

    @property
    def thought(self) -> str:
        """The reasoning, without its marks and surrounding empty lines."""
        return self.thought_part.text

    @property
    def answer(self) -> str:
        """The answer as Markdown, with tool calls in words."""
        return self.answer_part.text


def as_written(text: str) -> SplitAnswer:
    """A text that is no answer: all of it is shown."""
    return SplitAnswer(Excerpt(), Excerpt(text, ((0, 0, len(text)),)), 0)


@lru_cache(maxsize=KEPT)
def split_reasoning(text: str, writing: bool = False, cards: bool = False) -> SplitAnswer:
    """Split an answer; `writing` says that more of it is to come.

    With `cards` its calls are shown as such and left out of the text.

    Then an end of the text that may become a mark, such as `</thi`, is shown as neither. Text
    without marks is all answer.
    """
    passages, being = read(text, ANY, not writing)
    if cards and not any(passage.call for passage in passages) and text.lstrip().startswith("{"):
        passages, being = read(text, BARE_CALLS, not writing)
    if cards:
        passages = [passage for passage in passages if passage.call is None]
    thoughts = [p for p in passages if p.kind == "thought"]
    others = [p for p in passages if p.kind != "thought"]
    answer = _excerpt(others, CALLING if writing and being == "call" and not cards else "")
    start = others[0].start if others else len(text)
    return SplitAnswer(_excerpt(thoughts), answer, start, writing and being == "thought")


def _excerpt(passages: list[Passage], end: str = "") -> Excerpt:
    """Passages as paragraphs, with `end` behind them."""
    parts: list[str] = []
    runs = []
    here = 0
    for passage in passages:
        if parts:
            parts.append("\n\n")
            here += 2
        text = passage.text if passage.call is None else in_words(passage.call)
        runs.append((passage.start, here, 0 if passage.call else len(text)))
        parts.append(text)
        here += len(text)
    if end:
        parts += ["\n\n", end] if parts else [end]
    return Excerpt("".join(parts), tuple(runs))


def in_words(call: Call) -> str:
    """A call as Markdown: its name and its arguments."""
    name = tr("**Calls** `{name}`", name=call.name)
    if not call.arguments:
        return name
    values = json.dumps(call.arguments, ensure_ascii=False, indent=1)
    return tr("{name}\n```json\n{values}\n```", name=name, values=values)
