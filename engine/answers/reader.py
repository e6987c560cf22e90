"""Reading an answer while it is written, whatever pieces it comes in."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.answers.forms import (
    ANY,
    BARE,
    CALLING,
    CHANNEL,
    DROPPED,
    FRAME_ENDS,
    MESSAGE,
    START,
    Calling,
    Form,
)
from engine.answers.jsons import Calls, Types, arguments, named
from engine.answers.passages import Call, Kind, Passage
from engine.answers.streaming import CallStream, WrittenCall

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


def frame_begins(rest: str, final: bool) -> bool | None:
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


_FORGOTTEN = 4096  # characters that are kept at most though they are read
_FRAME_MARKS = (*FRAME_ENDS, START, CHANNEL)


class AnswerReader:
    """Turns an answer's text into parts. What is given out is certain: an end that may become a
    mark, and white space that may stand before one, are held back.

    `open` shows what is being written. A call that cannot be read is text. No character is lost but
    marks and the white space beside them.
    """

    def __init__(
        self, form: Form = ANY, types: Types | None = None, thought_end: str | None = None
    ) -> None:
        """`types` are of the tools' parameters. `thought_end` is the mark that ends the thought
        with which the answer begins, where the prompt has begun one.
        """
        self._form, self._types = form, types or {}
        self.text = ""  # from `_base` on: what is read and passed on is dropped
        self._base = 0
        self.open: Kind = "answer"
        self._parts: list[Passage] = []
        self._at = 0  # up to here all is given out
        self._scan = 0  # no mark begins before
        self._skips = False  # white space that comes next stands beside a mark
        self._step = self._start
        self._thought_end = ""
        self._calling, self._called_at = BARE, 0
        self._stream = CallStream(None)
        self._fed = 0  # up to here it was given to that
        self._deltas: list[WrittenCall] = []
        self._n_calls = 0
        self._frame = Frame("answer")
        if thought_end is not None:
            self._think(0, thought_end)

    def push(self, text: str) -> list[Passage]:
        """Add `text` and return the passages that are now certain."""
        self.text += text
        return self._read(final=False)

    def deltas(self) -> list[WrittenCall]:
        """Return the new parts of unfinished calls since the last call of this method. Their
        `index` counts the calls of the answer. One that turns out to be none is given out as text.
        """
        found, self._deltas = self._deltas, []
        return found

    @property
    def call_begun(self) -> bool:
        """True if `deltas` has returned some of the unfinished call."""
        return self.open == "call" and self._stream.n_begun > 0

    def finish(self) -> list[Passage]:
        """The rest, where no more comes."""
        return self._read(final=True)

    def _read(self, final: bool) -> list[Passage]:
        while self._step(final):
            pass
        self._forget()
        parts, self._parts = self._parts, []
        return parts

    def _forget(self) -> None:
        """Without this an answer would be copied whole for each piece of it."""
        done = min(self._at, self._called_at if self.open == "call" else self._at)
        if self._step == self._message:
            done = min(done, self._frame.start)
        if done < _FORGOTTEN:
            return
        self.text, self._base = self.text[done:], self._base + done
        self._at, self._scan = self._at - done, max(0, self._scan - done)
        self._called_at, self._fed = self._called_at - done, self._fed - done
        frame = self._frame
        self._frame = replace(frame, start=frame.start - done, begin=frame.begin - done)

    # Steps: each returns whether another one follows with what there is.

    def _start(self, final: bool) -> bool:
        """Before anything but white space."""
        begin = self._skipped(self._at)
        rest = self.text[begin:]
        if not rest and not final:
            return False
        for thinking in self._form.thinking:
            if rest.startswith(thinking.begin):
                return self._think(begin + len(thinking.begin), thinking.end)
        if self._form.bare and rest.startswith("{"):
            return self._call(BARE, begin)
        framed = self._framed(final)
        if framed is None:
            return False
        if not framed:
            marks = [thinking.begin for thinking in self._form.thinking]
            if not final and any(mark.startswith(rest) for mark in marks):
                return False
            self._step = self._content
        return True

    def _framed(self, final: bool) -> bool | None:
        """Goes on with a frame, if one begins here; None where that is not certain yet."""
        begins = self._form.frames and frame_begins(self.text[self._at :], final)
        if begins:
            self._step = self._header
        return begins

    def _think(self, at: int, end: str) -> bool:
        self._go_on(at, "thought")
        self._step, self._thought_end = self._thought, end
        return True

    def _thought(self, final: bool) -> bool:
        found = self._given("thought", [self._thought_end], final)
        if found is None:
            return False
        self._go_on(found[0] + len(found[1]), "answer")
        self._step = self._content
        return True

    def _content(self, final: bool) -> bool:
        found = self._given("answer", self._form.marks, final)
        if found is None:
            return False
        at, mark = found
        if mark in DROPPED:
            self._go_on(at + len(mark), "answer")
            return True
        return self._call(next(c for c in self._form.calling if c.begin == mark), at)

    def _call(self, calling: Calling, at: int) -> bool:
        self._calling, self._called_at, self._step = calling, at, self._body
        self._scan, self.open = at + len(calling.begin), "call"
        self._follow(CallStream(calling.head), at if calling is BARE else self._scan)
        return True

    def _body(self, final: bool) -> bool:
        calling, begin = self._calling, self._called_at + len(self._calling.begin)
        mark = calling.end or calling.begin
        self._scan = max(self._scan, self._followed())  # no mark stands within arguments
        end = -1 if calling is BARE else self.text.find(mark, self._scan)
        if end < 0 and not final:
            self._scan = max(self._scan, len(self.text) - len(mark) + 1)
            return False
        body = self.text[begin : None if end < 0 else end]
        after = len(self.text) if end < 0 else end + len(calling.end)
        try:
            self._add(calling.body(body, self._types), self._called_at, after)
            self._go_on(after, "answer")
        except (ValueError, TypeError):
            self._n_calls += self._stream.n_begun
            self._scan, self.open = begin, "answer"  # the mark is text, and so is what follows
        self._step = self._content
        return True

    def _header(self, final: bool) -> bool:
        frame = frame_at(self.text, self._at, final)
        if frame is True:
            return False
        if isinstance(frame, Frame):
            self._frame, self._step = frame, self._message
            self._go_on(frame.begin, frame.kind)
            self._follow(CallStream(None, frame.to.removeprefix("functions.")), frame.begin)
        else:
            self._step = self._content
        return True

    def _message(self, final: bool) -> bool:
        """The text of a frame."""
        frame = self._frame
        if frame.kind == "call":
            self._followed()
            found = self._find(_FRAME_MARKS)
            if found is None and not final:
                return False
        else:
            found = self._given(frame.kind, _FRAME_MARKS, final)
            if found is None:
                return False
        at, mark = found or (len(self.text), "")
        after = at + len(mark) if mark in FRAME_ENDS else at
        try:
            if frame.kind == "call":
                calls = called(frame, self.text[frame.begin : at], self._types)
                self._add(calls, frame.start, after)
        except (ValueError, TypeError):
            self._n_calls += self._stream.n_begun
            self._emit("answer", frame.start, after)
        self._go_on(after, "answer")
        self._step = self._between
        return True

    def _between(self, final: bool) -> bool:
        """After a frame."""
        self._at = self._skipped(self._at)
        if self._at == len(self.text):
            return False
        framed = self._framed(final)
        if framed is False:
            self._step = self._content
        return framed is not None

    # What they share.

    def _go_on(self, at: int, kind: Kind) -> None:
        """Behind a mark."""
        self._at = self._scan = at
        self._skips, self.open = True, kind

    def _add(self, calls: Calls, start: int, end: int) -> None:
        start, end = self._base + start, self._base + end
        for call in calls:
            self._parts.append(Passage("call", start, end, call=call, number=self._n_calls))
            self._n_calls += 1

    def _follow(self, stream: CallStream, begin: int) -> None:
        self._stream, self._fed = stream, begin

    def _followed(self) -> int:
        """Where the arguments end that are written so far."""
        for delta in self._stream.push(self.text[self._fed :]):
            self._deltas.append(replace(delta, index=self._n_calls + delta.index))
        self._fed = len(self.text)
        return len(self.text) - self._stream.n_unread if self._stream.follows else 0

    def _emit(self, kind: Kind, start: int, end: int) -> None:
        text = self.text[start:end]
        self._parts.append(Passage(kind, self._base + start, self._base + end, text))

    def _given(self, kind: Kind, marks: Sequence[str], final: bool) -> tuple[int, str] | None:
        """Gives out text up to the next of the marks, which it returns, or what is certain."""
        found = self._find(marks)
        if self._skips:
            self._at = self._skipped(self._at)
            self._skips = self._at == len(self.text)
        end = len(self.text) if found is None else found[0]
        if found is None and not final:
            end -= max(_overlap(self.text[self._at :], mark) for mark in marks)
        if found is not None or not final or kind == "thought":
            end = self._at + len(self.text[self._at : end].rstrip())
        if end > self._at:
            self._emit(kind, self._at, end)
            self._at = end
        return found

    def _find(self, marks: Sequence[str]) -> tuple[int, str] | None:
        """The first of the marks, from where none was found before."""
        places = [(at, mark) for mark in marks if (at := self.text.find(mark, self._scan)) >= 0]
        if not places:
            self._scan = max(self._scan, len(self.text) - max(map(len, marks)) + 1)
        return min(places, default=None)

    def _skipped(self, at: int) -> int:
        """The next place without white space."""
        while at < len(self.text) and self.text[at].isspace():
            at += 1
        return at


def read(text: str, form: Form = ANY, final: bool = True) -> tuple[list[Passage], Kind]:
    """The parts of an answer as far as it is written, and what is being written.

    Where it ends a thought that it does not begin with, the prompt has begun it.
    """
    start = text.lstrip()
    ends = [thinking.end for thinking in form.thinking if thinking.end in text]
    begins = any(start.startswith(thinking.begin) for thinking in form.thinking)
    begun = ends[0] if ends and not begins else None
    reader = AnswerReader(form, thought_end=begun)
    parts = reader.push(text)
    if final:
        parts += reader.finish()
    return merged(parts), reader.open


def merged(parts: Sequence[Passage]) -> list[Passage]:
    """With what goes on without a gap as one part."""
    joined: list[Passage] = []
    for part in parts:
        last = joined[-1] if joined else None
        if last and last.kind == part.kind != "call" and last.end == part.start:
            joined[-1] = Passage(part.kind, last.start, part.end, last.text + part.text)
        else:
            joined.append(part)
    return joined


def _overlap(text: str, mark: str) -> int:
    """Length of the longest end of `text` that begins `mark`, shorter than all of it."""
    sizes = range(min(len(mark) - 1, len(text)), 0, -1)
    return next((n for n in sizes if text.endswith(mark[:n])), 0)
