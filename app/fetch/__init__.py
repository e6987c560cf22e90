"""Downloads, the only part of the program that touches the network, and only when asked to.

known (names) -> index (package index) or hub (Hugging Face) -> transfer (one file, resumable).
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from app.fetch.known import KNOWN, Terms
from app.names import REPOSITORY
from engine.errors import CutawayError, ModelNotFound


@dataclass(frozen=True)
class Progress:
    """How far a fetch is, in bytes over all its files. `stage` is "download" or "verify"."""

    stage: str
    done: int
    total: int


class Cancelled(CutawayError):
    """A fetch that was told to stop; what it has stays on disk and is used by the next try."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name}: stopped; the next `cutaway get {name}` goes on from here")


class TermsNotAccepted(CutawayError):
    """A model whose terms of use must be accepted first."""

    def __init__(self, name: str, terms: Terms) -> None:
        self.name, self.terms = name, terms
        super().__init__(
            f"{name} comes under {terms.title} ({terms.url}); read them and say so "
            f"with `cutaway get {name} --accept-terms`"
        )


def _silent(_: Progress) -> None:
    return


def _never() -> bool:
    return False


def fetch(
    name: str,
    progress: Callable[[Progress], None] = _silent,
    cancelled: Callable[[], bool] = _never,
    accept_terms: bool = False,
) -> Path:
    """Downloads a known model or a Hugging Face `org/repo[:quant]`; returns its (first) file.

    Both callables are used from the calling thread, several times a second. Raises DownloadError,
    Cancelled, TermsNotAccepted, or ModelNotFound for a name that is neither.
    """
    if name in KNOWN:
        from app.fetch.index import fetch_known

        model = KNOWN[name]
        if model.terms and not accept_terms:
            raise TermsNotAccepted(name, model.terms)
        return fetch_known(model, progress, cancelled)
    repository = REPOSITORY.match(name)
    if repository:
        from app.fetch.hub import fetch_repository

        return fetch_repository(repository["repo"], repository["quant"], progress, cancelled)
    known = ", ".join(KNOWN)
    raise ModelNotFound(name, f"not a name to fetch; there are {known} and Hugging Face `org/repo`")
