"""Steering vectors: made of pairs of texts, opened, saved, and used as an edit of the chat."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PySide6.QtCore import QObject, Signal

from app.client import EngineClient, Latest
from app.directions import (
    At,
    Direction,
    Floats,
    LayerRows,
    Method,
    directions,
    facts_of,
    request_of,
    stacked,
)
from app.language import tr
from app.state.models.model import ModelState
from app.state.session import Session
from app.state.talk.chat import ChatState
from app.state.talk.disk.vector_rows import pack
from app.state.talk.edits import LONGEST_NAME, ChatEdit
from app.work import Work
from engine.errors import BadSetting
from engine.gguf.control_vector import Directions, read_directions, write_directions
from engine.protocol import Edit, Failed, ResultPart, ResultsDumped

MOST_TEXTS = 1000  # of each side


@dataclass(frozen=True)
class SteeringVector:
    """Directions by layer and what they are called; `measured` is what texts say of them, None of a
    file.
    """

    name: str
    directions: Directions
    measured: dict[int, Direction] | None = None

    @property
    def facts(self) -> str:
        """Its layers and, where that was measured, how well it separates both sides."""
        layers = list(self.directions)
        ends = {"first": min(layers), "last": max(layers)}
        text = tr("{n} layers, {first} to {last}", n=len(layers), **ends)
        known = {i: d.auc for i, d in (self.measured or {}).items() if d.auc is not None}
        if not known:
            return text
        best = max(known, key=lambda i: known[i])
        return text + tr(
            "; layer {layer} separates {percent:.0f} % of the held-out pairs",
            layer=best,
            percent=100 * known[best],
        )


class SteeringState(QObject):
    """The vector that is made or was opened last. `problem` says what went wrong, else it is ""."""

    changed = Signal()

    def __init__(
        self,
        client: EngineClient,
        session: Session,
        chat: ChatState,
        file: ModelState,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._session, self._chat, self._file = session, chat, file
        self.vector: SteeringVector | None = None
        self.problem = self.notice = ""
        self.done = self.total = 0
        self._request = Latest(client, self)
        self._request.replied.connect(self._on_part)
        self._rows = LayerRows()

    @property
    def running(self) -> bool:
        """True while texts are computed."""
        return self.total > 0

    def make(
        self,
        positive: Sequence[str],
        negative: Sequence[str],
        name: str,
        method: Method = "mean",
        at: At = "last",
        chat: bool = True,
    ) -> None:
        """Compute all texts and the directions from the negative to the positive ones."""
        self.problem = self.notice = ""
        if not positive or len(positive) != len(negative):
            self.problem = tr(
                "Each text needs one on the other side: there are {ours} and {theirs}.",
                ours=len(positive),
                theirs=len(negative),
            )
        elif len(positive) > MOST_TEXTS:
            self.problem = tr(
                "At most {most} pairs; there are {n}.", most=MOST_TEXTS, n=len(positive)
            )
        else:
            texts, self.done, self.total = [*positive, *negative], 0, 2 * len(positive)
            self._next(texts, [], name[:LONGEST_NAME], (method, at, chat))
        self.changed.emit()

    def _next(
        self,
        texts: list[str],
        found: list[dict[int, Floats]],
        name: str,
        how: tuple[Method, At, bool],
    ) -> None:
        """Request the next text, or make the directions of all."""
        method, at, chat = how
        if len(found) == len(texts):
            self._made(found, name, method, at)
            return
        self._rows = LayerRows()

        def then(_: ResultsDumped) -> None:
            found.append(self._rows.rows(at))
            self.done = len(found)
            self._next(texts, found, name, how)
            self.changed.emit()

        self._request.send(request_of(texts[len(found)], chat), then, self._failed)

    def _made(
        self,
        found: list[dict[int, Floats]],
        name: str,
        method: Method,
        at: At,
    ) -> None:
        half = len(found) // 2
        self.total = 0
        try:
            ours, theirs = stacked(found[:half], at), stacked(found[half:], at)
            made = directions(ours, theirs, method, raw=True)
        except BadSetting:
            self.problem = tr("Both sides give the same results: the texts must differ.")
            return
        if not made:
            self.problem = tr("This model has no layer that can be steered.")
            return
        vectors = {i: one.values.astype(np.float32) for i, one in made.items()}
        self.vector = SteeringVector(name, vectors, made)

    def cancel(self) -> None:
        """Make nothing; the vector of before stays."""
        self._request.forget()
        self.total = 0
        self.changed.emit()

    def open(self, path: Path) -> None:
        """Read a control vector's file, in a job."""
        self.problem = self.notice = ""

        def then(found: Directions) -> None:
            self.vector = SteeringVector(path.stem[:LONGEST_NAME], found)
            self.changed.emit()

        Work(read_directions, path).then(then).fail(self._refuse).start(self)

    def save(self, path: Path) -> None:
        """Write the vector as llama.cpp reads it, in a job."""
        vector, content = self.vector, self._file.content
        if vector is None:
            return
        arch = content.architecture if content is not None else ""
        facts = facts_of(vector.measured or {})

        def then(_: None) -> None:
            self.notice = tr("Saved as {name}.", name=path.name)
            self.changed.emit()

        Work(_saved, path, vector.directions, arch, facts).then(then).fail(self._refuse).start(self)

    def use(self, strength: float, layers: Sequence[int], positions: str = "all") -> bool:
        """Add the vector to the chat's edits, at those of its layers; False with a `problem`."""
        vector = self.vector
        if vector is None:
            return False
        chosen = {i: v for i, v in vector.directions.items() if i in layers}
        self.problem = ""
        try:
            if not chosen:
                ends = {"first": min(vector.directions), "last": max(vector.directions)}
                held = tr("layers from {first} to {last}", **ends)
                raise BadSetting("layers", list(layers)[:8], held)
            hash, data = pack(vector.directions)
            edit = Edit("residual", list(chosen), "add", positions, value=strength)
            self._chat.edits.add(ChatEdit(edit, hash, vector.name), {hash: data})
        except BadSetting as error:
            self._refuse(str(error))
        return not self.problem

    def _on_part(self, part: ResultPart) -> None:
        self._rows.take(part)

    def _failed(self, failed: Failed) -> None:
        self.total = 0
        self.problem = "" if failed.kind == "Cancelled" else failed.message
        self.changed.emit()

    def _refuse(self, problem: str) -> None:
        self.problem = problem
        self.changed.emit()


def _saved(path: Path, found: Directions, arch: str, facts: dict[str, float]) -> None:
    try:
        write_directions(path, found, arch, facts)
    except OSError as error:
        raise BadSetting(
            "file", path.name, tr("a file that can be written ({error})", error=error)
        ) from None
