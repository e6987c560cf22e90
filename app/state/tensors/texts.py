"""Two texts, or two versions of an answer, against each other: what the open model computes."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from PySide6.QtCore import QObject, Signal

from app.client import EngineClient, Latest
from app.language import tr
from app.state.session import Session
from app.state.talk.answer import as_messages
from app.state.talk.chat import ChatState
from app.state.tensors.numbers import Floats, Numbers, computed
from engine.protocol import (
    ComparedText,
    CompareTexts,
    Failed,
    PairedResult,
    ResultPart,
    TextsCompared,
)


class VersionOfChat(NamedTuple):
    """The open chat up to one version of a message, and what it is called."""

    title: str
    text: ComparedText


class TextsState(QObject):
    """`result` is the last comparison, of the open model; `problem` says in a sentence why there is
    none. `task` says how many texts are computed while it `is_busy`.
    """

    changed = Signal()

    def __init__(
        self, client: EngineClient, session: Session, chat: ChatState, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._session, self._chat = session, chat
        self.result: TextsCompared | None = None
        self.problem = ""
        self.task = Latest(client, self)
        self.task.moved.connect(self.changed)
        self._of = session.model
        self._request: CompareTexts | None = None
        self._parts: dict[int, Floats] = {}
        self._reading = Latest(client, self)
        self._reading.replied.connect(self._on_part)
        self._device = ""
        session.changed.connect(self._follow)

    @property
    def is_busy(self) -> bool:
        return self.task.running

    @property
    def can_start(self) -> bool:
        """True if the open model is idle."""
        return self._session.status == "ready" and not self.is_busy

    def versions(self) -> list[VersionOfChat]:
        """The open chat, then what else it has in place of its last message that has versions."""
        path, system = self._chat.path, self._chat.details.system
        if not path:
            return []
        found = [
            VersionOfChat(tr("The open chat"), ComparedText(messages=as_messages(system, path)))
        ]
        row = next((n for n in reversed(range(len(path))) if path[n].siblings > 1), None)
        if row is None:
            return found
        who = "answer" if path[row].role == "assistant" else "question"
        for number, message in enumerate(self._chat.siblings(path[row]), 1):
            title = tr("Version {number} of the {name}", number=number, name=who)
            text = ComparedText(messages=as_messages(system, [*path[:row], message]))
            found.append(VersionOfChat(title, text))
        return found

    def start(self, text: ComparedText, other: ComparedText) -> None:
        """Compare two texts. The engine's context is forgotten."""
        if not self.can_start:
            return
        self.problem = ""
        self._request = CompareTexts(0, text, other)
        self.task.send(self._request, self._compared, self._failed)
        self.changed.emit()

    def cancel(self) -> None:
        """Stop; what was known before stays."""
        self.task.cancel()

    def read(
        self, row: PairedResult, then: Callable[[Numbers], None], fail: Callable[[str], None]
    ) -> None:
        """The numbers of a result of the other text less those of the first, a row a pair."""
        if self._request is None or not self.can_start:
            return
        request = CompareTexts(
            0, self._request.text, self._request.other, numbers=(row.name, row.occurrence)
        )

        def done(compared: TextsCompared) -> None:
            if len(self._parts) == 2:
                name = difference_name(row)
                off = self._parts[1] - self._parts[0]
                then(
                    computed(
                        name,
                        off,
                        "F32",
                        tr("on {device}, a row a pair of tokens", device=self._device),
                    )
                )
            else:
                fail(tr("{name} has no rows that are pairs.", name=row.name))

        def failed(reply: Failed) -> None:
            fail(reply.message)

        self._parts = {}
        self._reading.send(request, done, failed)

    def _on_part(self, part: ResultPart) -> None:
        info = part.info
        if part.start == 0:
            self._parts[info.step] = np.zeros(info.dims[::-1], np.float32)
            self._device = info.device
        values = np.frombuffer(part.data, "<f4")
        flat = self._parts[info.step].reshape(-1)
        flat[part.start : part.start + values.size] = values

    def _follow(self) -> None:
        """Another model, a restart or another placement: what was found is not of it."""
        if self._session.model is self._of:
            return
        self._of = self._session.model
        self.task.forget()
        self._reading.forget()
        self._request, self.result, self.problem = None, None, ""
        self.changed.emit()

    def _compared(self, result: TextsCompared) -> None:
        self.result = result
        self.changed.emit()

    def _failed(self, failed: Failed) -> None:
        self.problem = "" if failed.kind == "Cancelled" else failed.message
        self.changed.emit()


def paired_key(row: PairedResult) -> str:
    """Return the result's key in a selection: "Qcur-3#1" for the second result of that name."""
    return f"{row.name}#{row.occurrence}" if row.occurrence else row.name


def largest_error(row: PairedResult) -> tuple[float, int] | None:
    """Return the largest error of the result's pairs and the index of that pair; None where there
    is none.
    """
    errors = np.frombuffer(row.errors, "<f4")
    if not errors.size:
        return None
    at = int(errors.argmax())
    return float(errors[at]), row.first_pair + at


def difference_name(row: PairedResult) -> str:
    return tr("{paired_key}: the other text less the first", paired_key=paired_key(row))


def error_map(result: TextsCompared) -> Floats:
    """NMSE [results, pairs]; NaN where a result has no row of a pair."""
    made = np.full((len(result.rows), len(result.pairs)), np.nan, np.float32)
    for at, row in enumerate(result.rows):
        errors = np.frombuffer(row.errors, "<f4")
        made[at, row.first_pair : row.first_pair + len(errors)] = errors
    return made


def texts_verdict(result: TextsCompared) -> str:
    """Summarise a comparison in a sentence or two."""
    looked = tr(
        "{rows} results of {pairs} pairs of tokens", rows=len(result.rows), pairs=len(result.pairs)
    )
    if result.first is None:
        return tr("No result differs by more than rounding errors: {looked}.", looked=looked)
    first, last = result.rows[result.first], result.rows[-1]
    text = tr(
        "{looked}. First difference: {paired_key}", looked=looked, paired_key=paired_key(first)
    )
    if last.cosine is not None and last is not first:
        return tr(
            "{text}; {paired_key}, the last, has cosine {cosine:.3f}.",
            text=text,
            paired_key=paired_key(last),
            cosine=last.cosine,
        )
    return f"{text}."
