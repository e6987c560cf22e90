"""Recordings over a set of texts, saved each minute and continued to the bit after a kill."""

import json
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from time import monotonic
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from engine.arrays.safetensors import packed
from engine.errors import BadFile, BadSetting, Cancelled, CutawayError
from engine.gguf.imatrix import ImportanceMatrix, packed_dat, write_imatrix
from engine.inside.texts import by_token
from engine.kept import write_atomically
from engine.laboratory.collectors import (
    Arrays,
    Collector,
    ExpertCounts,
    Floats,
    Piece,
    ProbeRows,
    ResidualNorms,
    StrongestTokens,
    chosen_layers,
)
from engine.laboratory.imatrix import STEP, InputSquares
from engine.laboratory.probe import cross_validated, fit
from engine.laboratory.rows import read_parts
from engine.protocol import DatasetRecorded, ProbeFit, Progress, RecordDataset
from engine.runner.loading import LoadedModel, name_of
from engine.runner.sequence import Sequenced
from engine.scheduler.probes import Probes
from engine.units import MIB

FORMAT, STATE, RUN = 1, "state.npz", "run.json"
MOST_SUMS = 1024 * MIB
MOST_FILE = 64 * MIB
LEAST_REST = 16
"""Tokens from which on the rest of a document counts."""
SUFFIXES = (".txt", ".md")


@dataclass(frozen=True)
class Document:
    """A text of a file; `line` of a JSONL file, whose `label` numbers its class."""

    path: Path
    text: str
    label: int = -1

    @property
    def size(self) -> int:
        """Bytes, as far as progress is concerned."""
        return len(self.text)


def read_documents(paths: Sequence[str]) -> tuple[list[Path], list[str]]:
    """The files of paths, folders' sorted, and the labels that occur, sorted. Raises `BadFile`,
    `BadSetting`.
    """
    files: list[Path] = []
    for text in paths:
        path = Path(text).expanduser()
        if path.is_dir():
            files += sorted(one for one in path.rglob("*") if one.suffix.lower() in SUFFIXES)
        elif path.is_file():
            files.append(path)
        else:
            raise BadFile(path, "is not a file or a folder")
    if not files:
        raise BadSetting("paths", list(paths), f"files, or folders with {', '.join(SUFFIXES)}")
    labels = {str(one[1]) for path in files if _is_lines(path) for one in _lines(path)}
    return files, sorted(labels - {"None"})


def documents(files: Sequence[Path], labels: Sequence[str]) -> Iterator[Document]:
    """The texts, one file in memory at a time."""
    for path in files:
        if not _is_lines(path):
            yield Document(path, _text(path))
            continue
        for text, label in _lines(path):
            yield Document(path, text, -1 if label is None else labels.index(str(label)))


def _is_lines(path: Path) -> bool:
    return path.suffix.lower() == ".jsonl"


def _lines(path: Path) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(_text(path).splitlines(), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            entry = None
        if not isinstance(entry, dict) or not isinstance(entry.get("text"), str):
            raise BadFile(path, f"line {number} is not an object with a text in `text`")
        label = entry.get("label")
        if label is not None and not isinstance(label, str | int):
            raise BadFile(path, f"line {number}: its label is neither a text nor a number")
        yield entry["text"], label


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_FILE + 1)
        if len(data) > MOST_FILE:
            raise BadFile(path, f"has more than {MOST_FILE // MIB} MiB; split it")
        return data.decode("utf-8-sig")
    except OSError as error:
        raise BadFile(path, f"cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise BadFile(path, f"is not UTF-8 text: byte {error.start}") from None


def record(
    model: LoadedModel,
    sequence: Sequenced,
    request: RecordDataset,
    cancelled: Callable[[], bool],
    claim: Callable[[Sequence[int]], None] = lambda _: None,
) -> Generator[Progress | None, None, DatasetRecorded]:
    """Yields how far it is, and None where others may compute. The sequence is empty afterwards.
    What is cancelled is saved first. Raises `BadSetting`, `BadFile`, `NotSupported`, `Cancelled`,
    `CutawayError` for what cannot be written.
    """
    if not request.what:
        raise BadSetting("what", [], "experts, imatrix, neurons, norms or probe")
    if not 8 <= request.n_ctx <= model.built.n_ctx:
        raise BadSetting("ctx", request.n_ctx, f"8 to the model's {model.built.n_ctx}")
    recording = _Recording(model, sequence, request)
    claim([0] * request.n_ctx)
    try:
        yield from recording.run(cancelled)
    finally:
        sequence.stepper.end_probes()
        sequence.clear()
    return recording.finish()


@dataclass
class _Recording:
    model: LoadedModel
    sequence: Sequenced
    request: RecordDataset
    files: list[Path] = field(init=False)
    labels: list[str] = field(init=False)
    collectors: dict[str, Collector] = field(default_factory=dict)
    squares: InputSquares | None = None
    done: NDArray[np.int64] = field(default_factory=lambda: np.zeros(4, np.int64))
    """Pieces and tokens by document, then of the joined text."""
    n_documents: int = 0
    resumed: int = 0

    def __post_init__(self) -> None:
        request, built = self.request, self.model.built
        self.files, self.labels = read_documents(request.paths)
        layers = chosen_layers(built, request.layers)
        for kind in dict.fromkeys(request.what):
            match kind:
                case "experts":
                    self.collectors[kind] = ExpertCounts(built)
                case "neurons":
                    self.collectors[kind] = StrongestTokens(built, layers)
                case "norms":
                    self.collectors[kind] = ResidualNorms(layers)
                case "probe":
                    self.collectors[kind] = ProbeRows(built, layers, request.probe_at, self._rows())
                case "imatrix":
                    self.squares = InputSquares(self.model, request.with_output)
        size = sum(one.nbytes for one in self.collectors.values())
        size += 0 if self.squares is None else self.squares.planned
        if size > MOST_SUMS:
            found = f"{size / MIB:,.0f} MiB of sums"
            raise BadSetting("what", found, f"at most {MOST_SUMS // MIB}; name fewer --layers")
        self.out = Path(request.out).expanduser()
        self._prepare()

    def _rows(self) -> int:
        """Rows that a probe has at most. Raises `BadSetting`."""
        if len(self.labels) < 2:
            raise BadSetting("what", "probe", "JSONL files whose lines have labels of two classes")
        n = 0
        for one in documents(self.files, self.labels):
            if one.label >= 0:
                n += len(self._ids(one.text)[: self.request.n_ctx]) if self._all else 1
        return n

    @property
    def _all(self) -> bool:
        return self.request.probe_at == "all"

    def _ids(self, text: str) -> list[int]:
        return self.model.tokenizer.encode(text, parse_special=False)

    def _prepare(self) -> None:
        """Make the folder, and read what an earlier run saved. Raises `BadSetting`."""
        try:
            self.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CutawayError(f"{self.out} cannot be made: {error.strerror}") from None
        state = self.out / STATE
        if not self.request.resume:
            if state.exists():
                raise BadSetting("out", str(self.out), "another folder, or --resume to continue")
            return
        if not state.exists():
            return
        arrays = _read_state(state)
        if str(arrays.pop("run")) != self._identity:
            expected = "the model, texts and options that it was begun with"
            raise BadSetting("resume", str(self.out), expected)
        self.done[:] = arrays.pop("done")
        for name, one in self.collectors.items():
            one.load(_of(arrays, name))
        if self.squares is not None:
            self.squares.load(_of(arrays, "squares"))
        self.resumed = int(self.done[1] + self.done[3])

    @property
    def _identity(self) -> str:
        """Everything that sums depend on, as JSON."""
        request, file = self.request, self.model.file
        header = sha256(
            repr(sorted((n, t.offset, t.shape) for n, t in file.tensors.items())).encode()
        )
        return json.dumps(
            {
                "format": FORMAT,
                "model": [name_of(file), file.size, header.hexdigest()],
                "files": [[str(p), p.stat().st_size, p.stat().st_mtime_ns] for p in self.files],
                "what": sorted(request.what),
                "n_ctx": request.n_ctx,
                "layers": request.layers,
                "probe_at": request.probe_at,
                "with_output": request.with_output,
            }
        )

    def _arrays(self) -> Arrays:
        found: Arrays = {"done": self.done}
        for name, one in self.collectors.items():
            found |= {f"{name}.{key}": values for key, values in one.arrays.items()}
        if self.squares is not None:
            found |= {f"squares.{key}": values for key, values in self.squares.arrays.items()}
        return found

    def save(self) -> None:
        """Replace what was saved; the position is in the same file as the sums."""
        data = BytesIO()
        arrays: dict[str, Any] = {"run": np.array(self._identity), **self._arrays()}
        np.savez(data, **arrays)
        self._write(STATE, data.getvalue())
        about = json.loads(self._identity) | {"documents": self.n_documents}
        about |= {"pieces": int(self.done[0]), "tokens": int(self.done[1] + self.done[3])}
        self._write(RUN, json.dumps(about, indent=1).encode())

    def _write(self, name: str, content: bytes) -> None:
        try:
            write_atomically(self.out / name, content)
        except OSError as error:
            raise CutawayError(f"{self.out / name} cannot be written: {error.strerror}") from None

    def run(self, cancelled: Callable[[], bool]) -> Generator[Progress | None, None, None]:
        """Compute all pieces that were not done yet."""
        due = monotonic() + self.request.save_every
        passes = [(0, self._pieces(), self._add)] if self.collectors else []
        if self.squares is not None:
            passes.append((2, self._joined(), self._add_squares))
        sizes = sum(path.stat().st_size for path in self.files) * len(passes)
        read = 0
        for at, pieces, add in passes:
            for number, (piece, size) in enumerate(pieces):
                read += size
                if number < self.done[at]:
                    continue
                for _ in add(piece):
                    yield None
                self.done[at : at + 2] += (1, len(piece.tokens))
                yield Progress(self.request.id, "score", min(read, sizes), sizes)
                if cancelled():
                    self.save()
                    raise Cancelled("the recording")
                if monotonic() >= due:
                    self.save()
                    due = monotonic() + self.request.save_every
        self.save()

    def _pieces(self) -> Iterator[tuple[Piece, int]]:
        """Chunks within documents, with how many characters were read for each."""
        n_ctx = self.request.n_ctx
        for number, one in enumerate(documents(self.files, self.labels)):
            self.n_documents = number + 1
            ids, size = self._ids(one.text), one.size
            least = 1 if one.label >= 0 else LEAST_REST
            for start in range(0, len(ids), n_ctx):
                tokens = ids[start : start + n_ctx]
                if len(tokens) >= least:
                    yield Piece(number, start, self._begun(tokens), one.label), size
                    size = 0

    def _joined(self) -> Iterator[tuple[Piece, int]]:
        """Whole chunks of all texts together."""
        left: list[int] = []
        n_ctx, size = self.request.n_ctx, 0
        for number, one in enumerate(documents(self.files, self.labels)):
            self.n_documents = number + 1
            size += one.size
            ids = self._ids(one.text)
            skipped = int(number > 0 and ids[:1] == [self.model.tokenizer.bos])
            left += ids[skipped:]
            whole = len(left) // n_ctx * n_ctx
            for start in range(0, whole, n_ctx):
                yield Piece(number, start, self._begun(left[start : start + n_ctx])), size
                size = 0
            left = left[whole:]

    def _begun(self, tokens: list[int]) -> list[int]:
        """The first token is BOS if the model adds one."""
        tokenizer = self.model.tokenizer
        starts = tokenizer.add_bos and tokenizer.bos is not None
        return [tokenizer.bos, *tokens[1:]] if starts and tokenizer.bos is not None else tokens

    def _add(self, piece: Piece) -> Iterator[None]:
        patterns = tuple(dict.fromkeys(p for c in self.collectors.values() for p in c.patterns))
        number = self.sequence.number
        for start, step, _ in read_parts(
            self.model.stepper, piece.tokens, Probes(patterns), STEP, number
        ):
            rows: dict[str, Floats] = {}
            for one in step.probed():
                found = by_token(one.values, one.node, step.axes)
                if found is not None:
                    rows[one.key.name] = found
            for collector in self.collectors.values():
                collector.add(rows, piece, start)
            yield

    def _add_squares(self, piece: Piece) -> Iterator[None]:
        assert self.squares is not None
        stepper, number = self.model.stepper, self.sequence.number
        for part in read_parts(stepper, piece.tokens, self.squares.probes, STEP, number):
            self.squares.add(part.step, len(part.logits))
            yield

    def finish(self) -> DatasetRecorded:
        """Write the results into the folder."""
        request, written = self.request, []
        experts: dict[int, list[int]] = {}
        probes: list[ProbeFit] = []
        for name, one in self.collectors.items():
            if isinstance(one, ProbeRows):
                probes = self._probes(one)
                written.append("probe.safetensors")
                continue
            if isinstance(one, ExpertCounts):
                experts = dict(zip(one.layers, one.counts.tolist(), strict=True))
            data = BytesIO()
            arrays: dict[str, Any] = {"layers": np.array(getattr(one, "layers", ()))}
            arrays |= {"files": [str(path) for path in self.files], **one.arrays}
            np.savez(data, **arrays)
            self._write(f"{name}.npz", data.getvalue())
            written.append(f"{name}.npz")
        if self.squares is not None:
            written += self._imatrix(self.squares)
        n_tokens = int(max(self.done[1], self.done[3]))
        return DatasetRecorded(
            request.id,
            name_of(self.model.file),
            self.model.device.name,
            self.n_documents,
            n_tokens,
            self.resumed,
            written,
            experts,
            probes,
        )

    def _imatrix(self, squares: InputSquares) -> list[str]:
        datasets = tuple(path.name for path in self.files)
        chunks = int(self.done[2])
        if not chunks:
            expected = f"texts of at least {self.request.n_ctx} tokens together, for imatrix"
            raise BadSetting("paths", f"{int(self.done[3])} tokens", expected)
        matrix = ImportanceMatrix(
            squares.sums, squares.counts, chunks, self.request.n_ctx, datasets
        )
        new = self.out / ".imatrix.gguf.new"
        write_imatrix(new, matrix)
        self._write("imatrix.gguf", new.read_bytes())
        new.unlink()
        if not self.request.dat:
            return ["imatrix.gguf"]
        self._write("imatrix.dat", packed_dat(matrix))
        return ["imatrix.gguf", "imatrix.dat"]

    def _probes(self, one: ProbeRows) -> list[ProbeFit]:
        """Fit a probe of each layer: weights of all rows, figures of five folds."""
        n, n_classes = int(one.filled[0]), len(self.labels)
        documents, labels = one.about[:n].astype(np.int64).T
        weights: dict[str, NDArray[np.float32]] = {}
        fits = []
        for i, layer in enumerate(one.layers):
            rows = one.rows[:n, i].astype(np.float64)
            fits.append(cross_validated(layer, rows, labels, documents, n_classes))
            whole = fit(rows, labels, n_classes)
            weights[f"layer.{layer}.weight"] = whole.weight.astype(np.float32)
            weights[f"layer.{layer}.bias"] = whole.bias.astype(np.float32)
        about = {"format": "linear_probe", "labels": json.dumps(self.labels)}
        self._write("probe.safetensors", packed(weights, about))
        return fits


def _read_state(path: Path) -> Arrays:
    """Everything that was saved. Raises `BadFile` for a damaged file."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
        if arrays["done"].shape != (4,) or arrays["run"].shape != ():
            raise ValueError("its position is missing")
    except (OSError, ValueError, KeyError, EOFError, AttributeError, BadZipFile) as error:
        raise BadFile(path, f"is damaged ({error}); begin again in another folder") from None
    return arrays


def _of(arrays: Arrays, name: str) -> Arrays:
    """Return arrays whose names begin with NAME and a dot, by what follows."""
    parts = {key: key.partition(".") for key in arrays}
    return {part[2]: arrays[key] for key, part in parts.items() if part[0] == name}
