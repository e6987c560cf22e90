"""Recordings over a set of texts: experts, importance matrices, neurons, norms, probes."""

from typing import ClassVar, Literal

import msgspec

from engine.protocol.message import Reply, Request, StageName

RecordKind = Literal["experts", "imatrix", "neurons", "norms", "probe"]
ProbeAt = Literal["last", "mean", "all"]


class ProbeFit(msgspec.Struct, frozen=True):
    """A linear probe of what leaves a layer, over five folds: accuracy with its standard error over
    folds, area under the ROC curve (None of more than two classes), and the accuracy with shuffled
    labels.
    """

    layer: int
    accuracy: float
    error: float
    auc: float | None
    shuffled: float


class DatasetRecorded(Reply, frozen=True):
    """`files` were written into the folder; `resumed` tokens were counted by an earlier run.

    `experts` is by layer how often each expert was chosen.
    """

    name: str
    device: str
    n_documents: int
    n_tokens: int
    resumed: int
    files: list[str]
    experts: dict[int, list[int]]
    probes: list[ProbeFit]


class RecordDataset(Request[DatasetRecorded], frozen=True):
    """Compute texts and record numbers of the model's inside into the folder `out`.

    `paths` are text files, folders of them, or JSONL with `text` and `label`. Each minute, when it
    is cancelled and at its end all is saved; with `resume` it is continued from there. `layers` are
    those of neurons, norms and probes (empty: all); `dat` adds the importance matrix in the old
    format; `with_output` counts the output matrix in it, too.
    """

    stage: ClassVar[StageName] = "score"
    in_parts: ClassVar[bool] = True

    paths: list[str]
    out: str
    what: list[RecordKind]
    n_ctx: int = 512
    resume: bool = False
    layers: list[int] = []
    probe_at: ProbeAt = "last"
    with_output: bool = False
    dat: bool = False
    save_every: float = 60.0
