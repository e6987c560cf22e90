"""A repository of the Hugging Face Hub, into its cache.

Metadata and the cache's layout are `huggingface_hub`'s; the bytes come through our own transfer,
which goes on in a later try and checks the hash. The library then finds the blob already there
and only adds the snapshot's link.
"""

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx2
from huggingface_hub import HfApi, constants, get_token, hf_hub_url
from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError
from huggingface_hub.file_download import repo_folder_name

import app.fetch.ranges as ranges
from app.defaults.places import GENERATION_CONFIG, MOST_BYTES, keep_generation_config
from app.fetch.config import web_client
from app.fetch.job import GatedModel, Job
from app.fetch.quants import choose_group, projector_files
from app.fetch.search import Hub, HubError
from app.fetch.source import Source
from app.fetch.transfer import download
from engine.errors import CutawayError, DownloadError


@dataclass(frozen=True)
class _Blob:
    """One file of a repository and where the cache keeps its bytes."""

    file: str
    path: Path
    lock: Path
    source: Source

    @property
    def size(self) -> int:
        return self.source.size or 0


def fetch_repository(repo: str, quant: str | None, job: Job, text_only: bool = False) -> Path:
    """The (first) file of the model in the Hugging Face cache; every split is fetched, and unless
    `text_only` the projector that makes it see.

    Raises ModelNotFound where the repository has no such model, or several; DownloadError;
    FetchStopped.
    """
    # Else it requests a list from the Hub that identifies the program: nobody wanted that.
    constants.HF_HUB_DISABLE_TELEMETRY = True
    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT"))
    try:
        files = [sibling.rfilename for sibling in api.model_info(repo).siblings or ()]
        group = choose_group(repo, quant, files)
        blobs = [_blob(api, repo, file, job) for file in group.files]
        for file in () if text_only else projector_files(group, files):
            blobs.append(_blob(api, repo, file, job))
            job.along = f"with {file}, {blobs[-1].size / 1e6:.0f} MB"
        _download(blobs, job)
        _keep_generation_config(repo, blobs[0].path.name)
        return [_link(api, repo, blob) for blob in reversed(blobs)][-1]  # the model's name is last
    except CutawayError:
        raise
    except OSError as error:
        if error.filename is None:  # the library's own errors of the network are OSErrors, too
            raise _explain(api, repo, error, job) from error
        raise job.disk_error(error, Path(str(error.filename)).parent) from error
    except Exception as error:  # the library's HTTP client, so its errors, differ by version
        raise _explain(api, repo, error, job) from error


def _blob(api: HfApi, repo: str, file: str, job: Job) -> _Blob:
    job.check()
    token = get_token()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    url = hf_hub_url(repo, file, endpoint=api.endpoint)
    about = api.get_hf_file_metadata(url=url)
    if not about.etag or not re.fullmatch(r"[\w-]+", about.etag):
        raise job.fail(f"{api.endpoint} sent no usable ETag for {file}")
    # A large file's ETag is its sha256 (the Hub's documentation of LFS files); a git blob's is not.
    sha256 = about.etag if re.fullmatch(r"[0-9a-f]{64}", about.etag) else None
    cache, folder = Path(constants.HF_HUB_CACHE), repo_folder_name(repo_id=repo, repo_type="model")
    return _Blob(
        file,
        cache / folder / "blobs" / about.etag,
        cache / ".locks" / folder / f"{about.etag}.lock",
        Source(url, about.size, sha256, headers),
    )


def _download(blobs: list[_Blob], job: Job) -> None:
    total = sum(blob.size for blob in blobs)
    job.need_space(blobs[0].path.parent, sum(_left(blob) for blob in blobs))
    before = 0
    with web_client() as client:
        for blob in blobs:

            def on_size(size: int, before: int = before) -> None:
                job.report("download", before + size, total)

            with job.locked(blob.lock):
                if not blob.path.exists():
                    download(client, blob.source, blob.path, job, on_size)
            before += blob.size
            on_size(blob.size)


def _keep_generation_config(repo: str, blob: str) -> None:
    """Keep what the model's makers say of sampling, under the name of its file's blob; from the
    repository, or else from the one that it was quantised from. Most have none.
    """
    hub = Hub()
    with suppress(HubError, OSError, ValueError):
        for source in (repo, *hub.bases(repo)):
            content = hub.small_file(source, GENERATION_CONFIG, MOST_BYTES)
            if content is not None:
                keep_generation_config(blob, content)
                return


def _left(blob: _Blob) -> int:
    if blob.path.exists():
        return 0
    part = blob.path.with_name(f"{blob.path.name}.part")
    return blob.size - ranges.present(part)


def _link(api: HfApi, repo: str, blob: _Blob) -> Path:
    path = Path(api.hf_hub_download(repo, blob.file))
    if not path.is_symlink():
        blob.path.unlink(missing_ok=True)  # where links are not allowed, the library copied it
    return path


def _explain(api: HfApi, repo: str, error: Exception, job: Job) -> DownloadError:
    place = httpx2.URL(api.endpoint).host
    if isinstance(error, GatedRepoError):
        return GatedModel(job.name, f"{api.endpoint}/{repo}")
    if isinstance(error, RepositoryNotFoundError):
        return job.fail(
            f"{place} has no such repository, or it is private; check the name, or set HF_TOKEN"
        )
    reason = str(error).strip().partition("\n")[0] or type(error).__name__
    return job.fail(f"{place}: {reason}; check the network, the proxy and HF_ENDPOINT")
