"""Runs of the laboratory: patching maps and recordings beside the chat, and measurements in place
of the open model; foreseen, stopped and kept.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QObject, Signal

from app.client import EngineClient, Latest
from app.language import tr
from app.state.models.model import ModelState
from app.state.session import Session
from app.state.talk.disk.database import StoreError
from app.state.talk.disk.run_rows import KeptRun, RunResult, RunRows
from app.state.token.question_maker import parts_of
from app.work import Work
from engine.protocol import (
    ChatMessage,
    ComparedText,
    Failed,
    FindFeatures,
    MapPatches,
    MeasureQuality,
    PatchesMapped,
    PatchGrid,
    RecordDataset,
)

Run = MapPatches | MeasureQuality | RecordDataset | FindFeatures
SITES: dict[PatchGrid, int] = {"residual": 1, "parts": 2, "heads": 1, "experts": 1}
K = TypeVar("K", bound=RunResult)
TITLE = 60  # characters of a prompt in a title


@dataclass(frozen=True)
class Foreseen:
    """The cost of a map: patches, tokens that are computed, bytes of results in memory."""

    patches: int
    tokens: int
    bytes: int


class RunsState(QObject):
    """`shown` is the result that is looked at, and `word` the message and index of the token that
    it is about, if it is; `kept` are all runs. `problem` says what went wrong.
    """

    changed = Signal()

    def __init__(
        self,
        client: EngineClient,
        session: Session,
        file: ModelState,
        rows: RunRows,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._session, self._file, self._rows = session, file, rows
        self.kept: list[KeptRun] = []
        self.shown: RunResult | None = None
        self.word: tuple[int, int] | None = None
        self._of_words: dict[int, RunResult | None] = {}
        self._newest: dict[tuple[str, str, str], RunResult | None] = {}
        self._reading: dict[tuple[str, str, str], Work] = {}
        self.problem = ""
        self._request = Latest(client, self)
        self._request.moved.connect(self.changed)

    @property
    def running(self) -> bool:
        return self._request.running

    @property
    def progress(self) -> tuple[int, int]:
        """How many patches, chunks or bytes are done, of how many."""
        return self._request.done, self._request.total

    def refresh(self) -> None:
        """List the kept runs; show the newest where none is shown."""
        self._reading.clear()
        try:
            self.kept = self._rows.all()
            if self.shown is None and self.kept:
                self.shown, self.word = self._rows.read(self.kept[0].id), self.kept[0].word
        except StoreError as error:
            self.problem = str(error)
        self.changed.emit()

    def foreseen(self, tokens: int, grid: PatchGrid, seeds: int = 1) -> Foreseen | None:
        """Estimate a map of a prompt of so many tokens, the mean of `seeds` with other noise; None
        where the file lacks the sizes.
        """
        parts, width = parts_of(self._file.content), self._width()
        if parts is None or not width or tokens < 1:
            return None
        by_position = grid in ("residual", "parts")
        columns = tokens if by_position else parts.n_head
        patches = parts.n_layer * columns * SITES[grid] * seeds
        each = (tokens + 1) / 2 if by_position else tokens
        size = 4 * width * parts.n_layer * tokens * SITES[grid]
        return Foreseen(patches, round(patches * each), size)

    def start(self, request: Run, word: tuple[int, int] | None = None) -> None:
        """Compute a run beside the answers, about a word of one or none; a measurement closes the
        model meanwhile. The result is kept.
        """
        self.problem = ""

        def done(found: Any) -> None:
            self.shown, self.word = found, word
            try:
                self._rows.add(self._model_of(request), title_of_run(request), found, word)
            except StoreError as error:
                self.problem = str(error)
            self.refresh()

        alone = isinstance(request, MeasureQuality)
        self._request.send(request, done, self._failed, self._session.measure if alone else None)
        self.changed.emit()

    def stop(self) -> None:
        """End the run; what was computed of a map is shown, of a recording saved."""
        self._request.cancel()

    def open(self, number: int) -> None:
        """Show a kept run."""
        try:
            found = self._rows.read(number)
        except StoreError as error:
            found, self.problem = None, str(error)
        if found is None:
            self.problem = self.problem or tr("This run cannot be read any more.")
        self.shown = found
        self.word = next((one.word for one in self.kept if one.id == number), None)
        self.changed.emit()

    def delete(self, number: int) -> None:
        """Delete a kept run."""
        try:
            self._rows.remove(number)
        except StoreError as error:
            self.problem = str(error)
        self.shown = self.word = None
        self._of_words.pop(number, None)
        self.refresh()

    def of_word(self, word: tuple[int, int]) -> list[PatchesMapped]:
        """The kept maps of a word, the newest first."""
        try:
            numbers = self._rows.of_word(*word)
            for number in numbers:
                if number not in self._of_words:
                    self._of_words[number] = self._rows.read(number)
        except StoreError as error:
            self.problem = str(error)
            return []
        found = (self._of_words[number] for number in numbers)
        return [one for one in found if isinstance(one, PatchesMapped)]

    def newest(self, kind: type[K], model: str, has: str) -> K | None:
        """The newest kept result of a kind about a model in which the field `has` is not empty, as
        far as it is read; `changed` is emitted when it is.
        """
        key = model, kind.__name__, has
        if key not in self._reading:
            job = Work(self._rows.newest, *key)
            self._reading[key] = job.then(partial(self._have, key, job)).fail(self._refuse)
            job.start(self)
        found = self._newest.get(key)
        return found if isinstance(found, kind) else None

    def _have(self, key: tuple[str, str, str], job: Work, found: RunResult | None) -> None:
        """A result was read; of two jobs the later one counts."""
        if self._reading.get(key) is job:
            self._newest[key] = found
            self.changed.emit()

    def _refuse(self, problem: str) -> None:
        self.problem = problem
        self.changed.emit()

    def _model_of(self, request: Run) -> str:
        """The name of the model that a run is about."""
        if isinstance(request, MeasureQuality):
            return Path(request.base if request.swaps else request.path).stem
        return self._session.model_name

    def _failed(self, failed: Failed) -> None:
        self.problem = "" if failed.kind == "Cancelled" else failed.message
        self.changed.emit()

    def _width(self) -> int:
        content = self._file.content
        rows = content.metadata if content is not None else ()
        found = (row.value for row in rows if row.key.endswith(".embedding_length"))
        text = next(found, "")
        return int(text) if text.isdecimal() else 0


def text_of_run(text: str, chat: bool) -> ComparedText:
    """Return the prompt of a run: as it is, or as a message of a chat."""
    return ComparedText([ChatMessage("user", text)]) if chat else ComparedText(prompt=text)


def as_prompt(text: ComparedText) -> str:
    """The prompt of a run, or the message that it sends."""
    return text.messages[-1].text if text.prompt is None else text.prompt


def noise_words(request: MapPatches) -> str:
    """The noise of a map, and the part of the prompt that gets it; "" for none."""
    if not request.noise:
        return ""
    if not request.subject:
        return tr("noise of {noise:g} SD", noise=request.noise)
    subject = f"“{request.subject}”"
    return tr("noise of {noise:g} SD on {subject}", noise=request.noise, subject=subject)


def title_of_run(request: Run) -> str:
    """The prompts of a map, or the prompt and its noise, or the names of files, shortened."""
    if isinstance(request, MapPatches):
        texts = [as_prompt(request.clean), noise_words(request) or as_prompt(request.corrupt)]
    elif isinstance(request, MeasureQuality):
        changed = "; ".join(f"{one.pattern}={one.type}" for one in request.swaps)
        texts = [changed or Path(request.path).stem, Path(request.base).stem]
    elif isinstance(request, FindFeatures):
        texts = [as_prompt(request.text), Path(request.sae).name]
    else:
        texts = [Path(one).name for one in request.paths]
    lines = [" ".join(text.split()) for text in texts]
    return " / ".join(one if len(one) <= TITLE else f"{one[: TITLE - 1]}…" for one in lines)


def effects_of(found: PatchesMapped, number: int) -> NDArray[np.float32]:
    """Effects [layers, columns] of one of a map's sites."""
    shape = (len(found.layers), len(found.columns))
    effects = np.frombuffer(found.tables[number].effects, "<f4")
    return effects.reshape(shape) if effects.size == shape[0] * shape[1] else np.zeros((0, 0), "f4")
