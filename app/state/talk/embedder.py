"""An embedding model of this disk that finds parts of documents by their meaning."""

import hashlib
import io
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QObject, Signal

from app.client import EngineClient, PendingRequest
from app.documents.pieces import PREFIXES
from app.engine import Engine
from app.language import tr
from app.library import Stored
from app.work import Work
from engine.kept import read_sealed, write_sealed
from engine.protocol import Embed, Embedded, Failed, Load, Progress, Unload
from engine.settings import EngineOptions

Vectors = NDArray[np.float32]
ARCHITECTURES = ("bert", "nomic-bert", "nomic-bert-moe", "modern-bert", "gemma-embedding")
MAGIC = b"CutawayVectors1\n"
NAMED = "embed"  # in the name of an embedder whose architecture also writes
MOST_PIECES = 2000  # that are embedded; more take minutes on a CPU
SHORTEST = 200  # characters that a piece is cut to at most, where a model reads few tokens
BATCH = 64  # texts of one request, so that its end is saved at Stop


def embedders(models: Sequence[Stored]) -> list[Stored]:
    """Return the models that embed texts, the smallest first."""
    found = [
        model
        for model in models
        if model.is_model
        and not model.ranks
        and (
            model.architecture in ARCHITECTURES
            or (model.architecture == "qwen3" and NAMED in model.name.lower())
        )
    ]
    return sorted(found, key=lambda model: model.size)


class Embedder(QObject):
    """Compares a question with pieces of a document. The model runs in an engine of its own, which
    `start` makes when it is first needed; vectors of a document are kept in `folder`, by the hashes
    of the model's file and of the document.
    """

    moved = Signal()  # `done` of `total` pieces are embedded

    def __init__(
        self,
        models: Callable[[], Sequence[Stored]],
        folder: Path,
        start: Callable[[], Engine] | None,
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._models, self._folder, self._start = models, folder, start
        self._engine: Engine | None = None
        self._client: EngineClient | None = None
        self._open: Path | None = None  # the model that is open
        self._run: _Run | None = None
        self.done = self.total = 0

    @property
    def model(self) -> Stored | None:
        """The model that is used; None where no embedding model is on this disk."""
        return next(iter(embedders(self._models())), None) if self._start is not None else None

    def compare(
        self,
        question: str,
        texts: Sequence[str],
        key: str,
        then: Callable[[Vectors], None],
        fail: Callable[[str], None],
    ) -> None:
        """The cosine of a question with each text of a document of the hash `key`."""
        self.cancel()
        model = self.model
        if model is None:
            fail(tr("no embedding model is on this disk"))
        elif len(texts) > MOST_PIECES:
            known = {"n": len(texts), "model": model.name, "most": MOST_PIECES}
            fail(tr("the document has {n} parts; {model} embeds at most {most}", **known))
        else:
            self._run = _Run(self, model, question, texts, key, then, fail)
            self._run.begin()

    def cancel(self) -> None:
        """Stop comparing; neither function is called any more."""
        run, self._run = self._run, None
        if run is not None:
            run.stop()

    def release(self) -> None:
        """Close the model, which takes memory."""
        self.cancel()
        if self._client is not None and self._open is not None:
            self._open = None
            self._client.send(Unload(0))

    def close(self) -> None:
        """End the engine."""
        self.cancel()
        if self._client is not None:
            self._client.close()
        if self._engine is not None:
            self._engine.close()

    def client(self) -> EngineClient:
        """The client of the engine, which is made here."""
        if self._client is None:
            assert self._start is not None
            self._engine = self._start()
            self._client = EngineClient(self._engine, self)
            self._client.died.connect(self._on_died)
        return self._client

    def is_open(self, path: Path) -> bool:
        """True if this model is open."""
        return self._open == path

    def opened(self, path: Path | None) -> None:
        """Note which model is open."""
        self._open = path

    def file_of(self, model: Stored, key: str) -> Path:
        """Where the vectors of a document are kept."""
        stat = model.paths[0].stat()
        basis = f"{model.paths[0]}\0{stat.st_size}\0{stat.st_mtime_ns}\0{key}"
        return self._folder / f"{hashlib.sha256(basis.encode()).hexdigest()}.sealed"

    def show_progress(self, done: int, total: int) -> None:
        """Note how many pieces are embedded."""
        self.done, self.total = done, total
        self.moved.emit()

    def _on_died(self, error: object) -> None:
        self._open = None


class _Run:
    """One comparison: kept vectors are read, or the model makes them; then the question's."""

    def __init__(
        self,
        owner: Embedder,
        model: Stored,
        question: str,
        texts: Sequence[str],
        key: str,
        then: Callable[[Vectors], None],
        fail: Callable[[str], None],
    ) -> None:
        self._owner, self._model, self._then, self._fail = owner, model, then, fail
        self._question, self._texts, self._key = question, texts, key
        self._of_question, self._of_texts = PREFIXES.get(model.architecture or "", ("", ""))
        self._made: list[Vectors] = []
        self._longest = max(map(len, texts), default=0)
        self._request: PendingRequest | None = None
        self._job: Work | None = None
        self._stopped = False

    def begin(self) -> None:
        self._owner.show_progress(0, len(self._texts))
        try:
            self._file = self._owner.file_of(self._model, self._key)
        except OSError as error:
            self._end(
                tr("{model} cannot be read: {why}", model=self._model.name, why=error.strerror)
            )
            return
        self._job = Work(_kept, self._file, len(self._texts))
        self._job.then(self._on_kept).fail(self._end).start(self._owner)

    def stop(self) -> None:
        self._stopped = True
        if self._job is not None:
            self._job.cancel()
        if self._request is not None:
            self._request.cancel()

    def _on_kept(self, kept: Vectors | None) -> None:
        self._job = None
        path = self._model.paths[0]
        go_on = partial(self._embed_question, kept) if kept is not None else self._next
        if self._owner.is_open(path):
            go_on()
            return
        self._owner.opened(None)
        request = Load(0, str(path), EngineOptions(), embeds=True)

        def loaded(_: object) -> None:
            self._owner.opened(path)
            if not self._stopped:
                go_on()

        self._request = self._owner.client().open(request, loaded, self._on_failed)

    def _next(self) -> None:
        """Embed the texts that are still missing; then the question."""
        done = sum(map(len, self._made))
        self._owner.show_progress(done, len(self._texts))
        texts = self._texts[done : done + BATCH]
        if texts:
            cut = [self._of_texts + text[: self._longest] for text in texts]
            self._embed(cut, self._on_texts)
        else:
            vectors = np.concatenate(self._made) if self._made else np.empty((0, 0), np.float32)
            Work(_keep, self._file, vectors).start(self._owner)
            self._embed_question(vectors)

    def _on_texts(self, vectors: Vectors) -> None:
        self._made.append(vectors)
        self._next()

    def _embed_question(self, vectors: Vectors) -> None:
        question = self._of_question + self._question
        self._embed([question], lambda found: self._compare(vectors, found[0]))

    def _compare(self, vectors: Vectors, question: Vectors) -> None:
        if vectors.shape[1:] != question.shape:
            self._end(tr("{model} gave vectors of another length", model=self._model.name))
        elif not self._stopped:
            self._then(vectors @ question)

    def _embed(self, texts: Sequence[str], then: Callable[[Vectors], None]) -> None:
        def end(reply: Embedded) -> None:
            if not self._stopped:
                numbers = np.frombuffer(reply.vectors, "<f4")
                then(numbers.reshape(len(texts), reply.width).astype(np.float32))

        client = self._owner.client()
        self._request = client.send(Embed(0, list(texts)), end, self._on_failed)
        self._request.progress.connect(self._on_progress)

    def _on_progress(self, progress: Progress) -> None:
        self._owner.show_progress(sum(map(len, self._made)) + progress.done, len(self._texts))

    def _on_failed(self, failed: Failed) -> None:
        if self._stopped:
            return
        if failed.kind == "BadSetting" and self._longest > SHORTEST:
            self._longest = max(SHORTEST, self._longest // 2)  # a piece has too many tokens
            self._made = []
            self._next()
        else:
            self._end(failed.message)

    def _end(self, problem: str) -> None:
        if not self._stopped:
            self._stopped = True
            self._fail(problem)


def _kept(path: Path, count: int) -> Vectors | None:
    """The vectors of a file, f32 [count, width]; None where they are not all there."""
    try:
        kept = io.BytesIO(read_sealed(path, MAGIC))
        vectors: Any = np.load(kept, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    whole = isinstance(vectors, np.ndarray) and vectors.dtype == np.float32
    if not whole or vectors.ndim != 2 or len(vectors) != count or not np.isfinite(vectors).all():
        return None
    return cast(Vectors, vectors)


def _keep(path: Path, vectors: Vectors) -> None:
    buffer = io.BytesIO()
    np.save(buffer, vectors, allow_pickle=False)
    write_sealed(path, MAGIC, buffer.getvalue())
