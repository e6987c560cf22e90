"""Every error raised on purpose.

Each class carries the facts as attributes; `str()` is one line that names the thing, the numbers
and the next step. Anything else that reaches the worker's loop is a bug.
"""

from collections.abc import Sequence

from engine.units import MIB

_MOST = 300


def _quoted(value: object) -> str:
    """Quote a person's or a file's text: on one line, and shortened."""
    text = repr(value)
    return text if len(text) <= _MOST else f"{text[:_MOST]}... ({len(text)} characters)"


class CutawayError(Exception):
    """Base of all errors meant for the reader."""

    @property
    def kind(self) -> str:
        """A stable name for programs that read `--json` or the worker's messages."""
        return type(self).__name__


class BadSetting(CutawayError):
    """A knob, option or request field outside its range."""

    def __init__(self, name: str, value: object, expected: str) -> None:
        self.name, self.value, self.expected = name, value, expected
        super().__init__(f"{name}: {_quoted(value)} is not valid; expected {expected}")


class BadFile(CutawayError):
    """A GGUF file (or one of its splits) that cannot be read."""

    cut_off = False
    """Whether more bytes of the same file might mend it."""

    def __init__(self, path: object, problem: str) -> None:
        self.path, self.problem = str(path), problem
        super().__init__(f"{path}: {problem}")


class BadPicture(CutawayError):
    """A picture that cannot be read, or is too large."""

    def __init__(self, name: str, problem: str) -> None:
        self.name, self.problem = name, problem
        super().__init__(f"{name}: {problem}")


class ModelNotFound(CutawayError):
    """A model's name that leads to no file, or to several."""

    def __init__(self, name: str, problem: str) -> None:
        self.name, self.problem = name, problem
        super().__init__(f"model {_quoted(name)}: {problem}")


class UnsupportedModel(CutawayError):
    """A readable file whose architecture, tokenizer or tensor type has no code here; `kind` says
    what such a file is, where that is known.
    """

    def __init__(self, what: str, name: str, supported: Sequence[str], kind: str = "") -> None:
        self.what, self.name, self.supported = what, name, tuple(supported)
        listed = ", ".join(supported)
        because = f" ({kind})" if kind else ""
        super().__init__(f"{what} {_quoted(name)} is not supported{because}; supported: {listed}")


class GivesNoText(CutawayError):
    """A model of embeddings alone, from which text is requested."""

    def __init__(self, arch: str) -> None:
        self.arch = arch
        super().__init__(
            f"{_quoted(arch)} models write no text: they compute embeddings, use `cutaway embed`"
        )


class OnlyRanks(CutawayError):
    """A reranker, which is asked to write or to embed."""

    def __init__(self) -> None:
        super().__init__(
            "this model is a reranker: it scores texts for a query, and neither writes nor embeds;"
            " use `cutaway rerank` or POST /v1/rerank"
        )


class GivesNoScores(CutawayError):
    """A model that is asked to rank texts and has no head for it, or one of several labels."""

    def __init__(self, arch: str, labels: Sequence[str] = ()) -> None:
        self.arch, self.labels = arch, tuple(labels)
        if labels:
            shown = ", ".join(_quoted(label) for label in labels[:8])
            listed = f"{shown}{', ...' if labels[8:] else ''}"
            super().__init__(
                f"the file classifies texts by {len(labels)} labels ({listed}), and ranks none;"
                " open a reranker, such as bge-reranker-v2-m3"
            )
        else:
            super().__init__(
                f"the file of {_quoted(arch)} has no head that scores texts (cls.output.weight);"
                " open a reranker, such as bge-reranker-v2-m3"
            )


class TensorMismatch(CutawayError):
    """Names or shapes in the file do not fit the model's fields; every one is listed."""

    def __init__(
        self, arch: str, missing: Sequence[str], unused: Sequence[str], wrong: Sequence[str] = ()
    ) -> None:
        self.arch = arch
        self.missing, self.unused, self.wrong = tuple(missing), tuple(unused), tuple(wrong)
        parts = [
            f"{len(names)} tensors {what}: {', '.join(names[:8])}{', ...' if names[8:] else ''}"
            for names, what in (
                (self.missing, "missing"),
                (self.unused, "in the file are not used"),
                (self.wrong, "have another shape"),
            )
            if names
        ]
        super().__init__(f"{arch}: {'; '.join(parts)}")


class ShapeError(CutawayError):
    """Operands that do not fit together, found when the node is made."""

    def __init__(self, op: str, problem: str, *shapes: Sequence[int]) -> None:
        self.op, self.shapes = op, tuple(tuple(s) for s in shapes)
        listed = " and ".join(str(list(s)) for s in self.shapes)
        super().__init__(f"{op}: {problem}" + (f": {listed}" if listed else ""))


class NoMem(CutawayError):
    """An allocation that was refused, by our budget or by the driver.

    `wanted` and `left` are bytes. `memory`, where a model was being loaded, is the BackendMemory of
    that moment with the failing entry marked.
    """

    memory: object | None = None

    def __init__(
        self,
        device: str,
        component: str,
        wanted: int,
        left: int,
        detail: str = "",
        layer: int | None = None,
        name: str = "",
    ) -> None:
        self.device, self.component, self.layer = device, str(component), layer
        self.wanted, self.left = wanted, left
        where = ("" if layer is None else f" of layer {layer}") + (f" {name}" if name else "")
        super().__init__(
            f"{device}: no room for {component}{where}: {wanted / MIB:.1f} MiB wanted, "
            f"{max(left, 0) / MIB:.1f} MiB left{'; ' + detail if detail else ''}"
        )


class DeviceError(CutawayError):
    """A device that is missing, was named wrongly, or failed while computing."""

    def __init__(self, device: str, problem: str) -> None:
        self.device, self.problem = device, problem
        super().__init__(f"device {device}: {problem}")


class KernelBuildFailed(CutawayError):
    """A driver's compiler refused one of our programs."""

    def __init__(self, device: str, family: str, defines: object, log: str) -> None:
        self.device, self.family, self.defines, self.log = device, family, defines, log
        first = next((line for line in log.splitlines() if "error" in line.lower()), log[:200])
        super().__init__(f"{device}: kernel family {family} {defines} does not build: {first}")


class NotSupported(CutawayError):
    """An operation that this model or cache has no way to do."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"{what} is not supported")


class CannotPlace(CutawayError):
    """An operation that has to run on a device, which cannot run it."""

    def __init__(self, op: str, name: str, device: str, why: str, instead: str) -> None:
        self.op, self.name, self.device, self.why = str(op), name, device, why
        super().__init__(f"{op} {name} cannot run on {device}: {why}; {instead}")


class NeedsReload(CutawayError):
    """A setting that cannot change while the model is open."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"{what} cannot change while the model is open; reload the model with it")


class CannotProbe(CutawayError):
    """Results of a step that cannot be copied out; `too_large` where fewer could be."""

    def __init__(self, problem: str, instead: str, too_large: bool = False) -> None:
        self.problem, self.too_large = problem, too_large
        super().__init__(f"{problem}; {instead}")


class SequenceBusy(Exception):
    """A sequence that is being answered is wanted for something else. No client sees it: what wants
    it waits.
    """


class Cancelled(CutawayError):
    """Work that ended because the person requested it."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"{what} was cancelled")


class TokenizerError(CutawayError):
    """Vocabulary or text that the tokenizer cannot handle."""


class TemplateError(CutawayError):
    """A chat template that fails, loops, or grows past its bounds."""


class TemplateTooSlow(TemplateError):
    """A chat template that is not rendered in time; it would not be, a moment later."""

    @property
    def kind(self) -> str:
        return "TemplateError"


class ContextFull(CutawayError):
    """More tokens than the context holds."""

    def __init__(self, wanted: int, capacity: int, detail: str = "") -> None:
        self.wanted, self.capacity = wanted, capacity
        super().__init__(
            f"{wanted} tokens do not fit the context of {capacity}"
            f"{'; ' + detail if detail else '; shorten the prompt or raise --ctx'}"
        )


class CannotSee(CutawayError):
    """A picture for a model that reads text only, on this machine or on a `server`."""

    def __init__(self, server: str = "") -> None:
        super().__init__(
            f"the model on the server {server} reads text only; choose one that reads pictures"
            if server
            else "the open model reads text only; if there is a vision file (mmproj) for it,"
            " put it into the model's folder or name it with --mmproj"
        )


class CannotFill(CutawayError):
    """A place in a text for a model without the tokens that mark one; `missing` are their names."""

    def __init__(self, missing: Sequence[str]) -> None:
        self.missing = tuple(missing)
        super().__init__(
            "the open model cannot fill in the middle of a text: its vocabulary has no token for"
            f" {', '.join(missing)}; choose a code model that has them, such as Qwen2.5-Coder"
        )


class UnknownPictures(CutawayError):
    """Pictures that a request names and the engine does not hold; `digests` show which."""

    def __init__(self, digests: Sequence[str]) -> None:
        self.digests = tuple(digests)
        listed = ", ".join(digest[:12] for digest in digests)
        super().__init__(f"the engine no longer has the pictures {listed}; add them again")


class DownloadError(CutawayError):
    """A fetch that failed; nothing half-done is left behind."""

    def __init__(self, name: str, problem: str) -> None:
        self.name, self.problem = name, problem
        super().__init__(f"{name}: {problem}")


class MissingPackage(CutawayError):
    """An optional package that is not installed, or does not import."""

    def __init__(self, package: str, extra: str, problem: str) -> None:
        self.package, self.extra, self.problem = package, extra, problem
        super().__init__(
            f"{package} cannot be imported ({problem}); pip install 'cutaway[{extra}]'"
        )


class PeerFailed(CutawayError):
    """The other engine of a comparison could not do its part."""

    def __init__(self, peer: str, problem: str) -> None:
        self.peer, self.problem = peer, problem
        super().__init__(f"{peer}: {problem}")


class WorkerDied(CutawayError):
    """The engine process ended unexpectedly."""

    def __init__(self, exit_code: int | None, reason: str) -> None:
        self.exit_code, self.reason = exit_code, reason
        super().__init__(f"the engine stopped: {reason}")
