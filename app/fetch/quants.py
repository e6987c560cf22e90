"""The models inside a repository, one for each quantisation, and which of them to take."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from app import names
from app.fetch.search import RepoFile
from engine.errors import ModelNotFound
from engine.gguf import projectors
from engine.gguf.formats import UNREADABLE
from engine.protocol import Planned
from engine.units import GB

Verdict = Literal["fits", "fits_smaller", "too_big"]
BEST = ("Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "IQ4_XS", "Q4_0", "Q3_K_M", "Q2_K")
"""Which quantisation to take of those that fit."""
BEST_OF_LARGE = BEST[BEST.index("Q4_K_M") :]
REPACKED = re.compile(r"_[48]_[48]$")  # tensor types that ggml has removed
LARGE = 8e9  # parameters above which BEST_OF_LARGE is the order


@dataclass(frozen=True)
class HeaderPlan:
    """The engine's plan, made from the header alone. Bytes: `wanted` of `limit` on `device`, the
    fullest one. `text` is one sentence.
    """

    verdict: Verdict
    n_ctx: int
    wanted: int
    limit: int
    device: str
    tokens_per_s: float | None
    text: str


@dataclass(frozen=True)
class FoundQuant:
    """One model of a repository: `name` is what `fetch` takes, `files` all its parts. `size` is
    without the projector. `supported` is False, with a `reason`, where it cannot be opened.
    """

    key: str
    repo: str
    label: str
    files: tuple[RepoFile, ...]
    size: int
    projector: RepoFile | None = None
    supported: bool = True
    reason: str = ""
    plan: HeaderPlan | None = None
    problem: str = ""

    @property
    def name(self) -> str:
        """`org/repo:quant`."""
        return f"{self.repo}:{self.label}"

    @property
    def n_parts(self) -> int:
        """How many files the model itself has."""
        return len(self.files)


def quants(repo: str, files: Sequence[RepoFile]) -> list[FoundQuant]:
    """The models of a repository, the smallest first, each with the projector that goes with it."""
    by_path = {file.path: file for file in files}
    found = names.groups(by_path)
    labels = dict(zip((group.stem for group in found), names.labels(found), strict=True))
    models = [group for group in found if not names.is_projector(group.stem)]
    towers = _towers(found)
    rows = [_quant(repo, labels[group.stem], group, towers, by_path) for group in models]
    return sorted(rows, key=lambda row: (row.size, row.label))


def choose_group(repo: str, quant: str | None, files: Sequence[str]) -> names.Group:
    """The model of a repository that a name means. Raises ModelNotFound."""
    found = names.groups(files)
    models = names.choose(found, quant)
    if len(models) == 1:
        if models[0].missing:
            raise ModelNotFound(repo, f"{models[0].missing} splits are not in the repository")
        return models[0]
    choices = ", ".join(f"{repo}:{label}" for label in names.labels(found))
    if not found:
        raise ModelNotFound(repo, "the repository has no GGUF file")
    if models or quant is None:
        raise ModelNotFound(repo, f"there are several; name one: {choices}")
    raise ModelNotFound(repo, f"no {quant}; there are {choices}")


def find_quant(repo: str, quant: str | None, files: Sequence[RepoFile]) -> FoundQuant:
    """The same with its sizes and its projector."""
    by_path = {file.path: file for file in files}
    group = choose_group(repo, quant, list(by_path))
    towers = _towers(names.groups(by_path))
    return _quant(repo, quant or names.label(group), group, towers, by_path)


def _quant(
    repo: str,
    label: str,
    group: names.Group,
    towers: Sequence[names.Group],
    by_path: dict[str, RepoFile],
) -> FoundQuant:
    parts = tuple(by_path[path] for path in group.files)
    projector = _projector(group, towers)
    kind = names.quant(group.files[0])
    reason = ""
    if group.missing:
        reason = f"{group.missing} of {group.count} parts are not in the repository"
    elif kind and not is_readable(kind):
        reason = f"{kind} cannot be read by Cutaway"
    return FoundQuant(
        parts[0].sha256 or f"{repo}/{parts[0].path}",
        repo,
        label,
        parts,
        sum(part.size for part in parts),
        by_path[projector.files[0]] if projector is not None else None,
        not reason,
        reason,
    )


def projector_files(model: names.Group, files: Sequence[str]) -> tuple[str, ...]:
    """The projector of the repository that goes best with a model's file."""
    found = _projector(model, _towers(names.groups(files)))
    return found.files if found is not None else ()


def _towers(found: Sequence[names.Group]) -> list[names.Group]:
    return [group for group in found if names.is_projector(group.stem)]


def _projector(model: names.Group, towers: Sequence[names.Group]) -> names.Group | None:
    def rank(group: names.Group) -> tuple[int, int, str]:
        quality = projectors.quality(names.quant(group.files[0]))
        return -projectors.alike(names.label(model), names.label(group)), quality, group.stem

    return None if names.is_projector(model.stem) else min(towers, key=rank, default=None)


def is_readable(kind: str) -> bool:
    """Return whether a quantisation's tensors can be decoded, judging by its name."""
    plain = kind.removeprefix("UD-")
    return plain not in {fmt.name for fmt in UNREADABLE} and not REPACKED.search(plain)


def preselected(rows: Sequence[FoundQuant], parameters: int | None) -> FoundQuant | None:
    """The best by `BEST` of those that fit; while none is planned, of all that can be opened."""
    usable = [row for row in rows if row.supported]
    planned = [row for row in usable if row.plan is not None]
    fitting = [row for row in planned if row.plan is not None and row.plan.verdict == "fits"]
    order = BEST_OF_LARGE if parameters is not None and parameters > LARGE else BEST

    def rank(row: FoundQuant) -> tuple[int, int]:
        kind = names.quant(row.files[0].path) or ""
        return order.index(kind) if kind in order else len(order), row.size

    if planned and not fitting:
        smaller = [row for row in planned if row.plan and row.plan.verdict == "fits_smaller"]
        return min(smaller, key=lambda row: row.size, default=None)
    return min(fitting or usable, key=rank, default=None)


def header_plan(planned: Planned, smaller: bool) -> HeaderPlan:
    """An engine's plan as a row's verdict; `smaller` where a larger context did not fit."""
    fullest = max(planned.budgets, key=lambda row: row.wanted - row.limit)
    speed = planned.speed.tokens_per_s if planned.speed is not None else None
    verdict: Verdict = "fits_smaller" if smaller else "fits"
    plan = HeaderPlan(
        "too_big" if planned.problem else verdict,
        planned.n_ctx,
        fullest.wanted,
        fullest.limit,
        fullest.device,
        speed,
        "",
    )
    return replace(plan, text=_sentence(plan))


def _sentence(plan: HeaderPlan) -> str:
    if plan.verdict == "too_big":
        over = max(plan.wanted - plan.limit, 0) / GB
        return f"does not fit: {over:.1f} GB too much on {plan.device}"
    amount = f"{plan.wanted / GB:.1f} of {plan.limit / GB:.1f} GB on {plan.device}"
    context = "" if plan.verdict == "fits" else f" with {plan.n_ctx} tokens of context"
    speed = f", about {plan.tokens_per_s:.0f} tokens a second" if plan.tokens_per_s else ""
    return f"fits{context}, {amount}{speed}"
