"""Searching the Hugging Face Hub, and listing the files of one repository.

The Hub's own interface: GET, JSON, the next page in a `Link` header. A row is read leniently, since
each field may be missing; text of it is only ever shown.
"""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import quote

import httpx2
import msgspec

from app import names
from app.fetch.config import web_client
from app.fetch.source import CONTENT_RANGE, LONGEST_WAIT, reset_seconds
from engine.errors import CutawayError
from engine.settings import Setting

Task = Literal["any", "chat", "images", "embeddings", "reranking"]
Sort = Literal["trending", "downloads", "likes", "recent"]
Gated = Literal[False, "auto", "manual"]

SORTS: dict[Sort, str] = {
    "trending": "trendingScore",
    "downloads": "downloads",
    "likes": "likes",
    "recent": "lastModified",
}
# Tags of the Hub by what people look for.
TASKS: dict[str, str] = {
    "text-generation": "chat",
    "image-text-to-text": "images",
    "feature-extraction": "embeddings",
    "sentence-similarity": "embeddings",
    "text-ranking": "reranking",
}
FILTERS: dict[Task, str] = {
    "chat": "text-generation",
    "images": "image-text-to-text",
    "embeddings": "feature-extraction",
    "reranking": "text-ranking",
}
EXPANDED = ("gguf", "gated", "downloads", "likes", "lastModified", "tags", "pipeline_tag")
BASE = "base_model:quantized:"
PER_PAGE = 30
MOST_BYTES = 32 << 20  # of one response
MOST_PAGES = 50  # of a repository's file list, 1000 files each
ERROR_NUMBER = re.compile(r"^\[Errno -?\d+\] ")  # of the system, before its words
TIMEOUT = httpx2.Timeout(4.5, connect=4.5)  # seconds; nobody waits longer for an offline Hub
NEXT = re.compile(r'<([^>]+)>\s*;\s*rel="?next"?')

Params = list[tuple[str, str | int | float | bool | None]]
HubCause = Literal["offline", "gated", "missing", "busy", "failed"]


def _endpoint(text: str) -> str:
    try:
        url = httpx2.URL(text)
    except httpx2.InvalidURL:
        url = httpx2.URL("")
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError("an address like https://huggingface.co")
    return text.rstrip("/")


ENDPOINT = Setting("HF_ENDPOINT", "https://huggingface.co", _endpoint, "the Hugging Face Hub")


class HubError(CutawayError):
    """A request that the Hub did not answer as hoped. `page` is where a person can act on it."""

    def __init__(self, cause: HubCause, problem: str, page: str = "") -> None:
        self.cause, self.page = cause, page
        super().__init__(problem)


@dataclass(frozen=True)
class SearchQuery:
    """Words and filters. `largest` is a number of parameters."""

    words: str = ""
    task: Task = "any"
    largest: int | None = None
    licence: str | None = None
    sort: Sort = "trending"


@dataclass(frozen=True)
class FoundRepo:
    """A repository with GGUF files. `parameters` and `architecture` describe one of its files."""

    repo: str
    author: str
    downloads: int = 0
    likes: int = 0
    modified: str = ""
    licence: str | None = None
    parameters: int | None = None
    architecture: str | None = None
    gated: Gated = False
    task: Task = "any"


@dataclass(frozen=True)
class RepoFile:
    """A file of a repository. `sha256` is empty for small files, which are not stored by hash."""

    path: str
    size: int
    sha256: str = ""


@dataclass
class Hub:
    """Requests to the Hub. `cancelled` is polled while waiting; `waiting` gets the seconds left
    when the Hub limits the rate.
    """

    cancelled: Callable[[], bool] = lambda: False
    waiting: Callable[[float], None] = lambda seconds: None
    endpoint: str = field(default_factory=ENDPOINT.get)

    def search(self, query: SearchQuery) -> tuple[list[FoundRepo], str]:
        """The first page, and the address of the next one (empty: there is none)."""
        params: list[tuple[str, str | int | float | bool | None]] = [
            ("filter", "gguf"),
            ("limit", str(PER_PAGE)),
        ]
        params += [("expand[]", name) for name in EXPANDED]
        params.append(("sort", SORTS[query.sort]))
        if query.words.strip():
            params.append(("search", query.words.strip()))
        if query.task in FILTERS:
            params.append(("filter", FILTERS[query.task]))
        if query.licence:
            params.append(("filter", f"license:{query.licence}"))
        if query.largest is not None:
            params.append(("num_parameters", f"min:0,max:{query.largest}"))
        return self.page(f"{self.endpoint}/api/models?{httpx2.QueryParams(params)}")

    def page(self, url: str) -> tuple[list[FoundRepo], str]:
        """One page of a search, and the address of the next one."""
        rows, following = self._get(url)
        if not isinstance(rows, list):
            raise self._fail("the search result is not a list")
        found = [_repo_of(row) for row in rows if isinstance(row, dict)]
        return [repo for repo in found if repo.repo], following

    def repository(self, repo: str) -> FoundRepo:
        """Return the description of one repository."""
        params = httpx2.QueryParams([("expand[]", name) for name in EXPANDED])
        row, _ = self._get(f"{self.endpoint}/api/models/{repo}?{params}", repo)
        return _repo_of(row if isinstance(row, dict) else {})

    def bases(self, repo: str) -> list[str]:
        """The repositories that a repository's tags name as what it was quantised from."""
        row, _ = self._get(f"{self.endpoint}/api/models/{repo}?expand[]=tags", repo)
        tags = row.get("tags") if isinstance(row, dict) else None
        found = [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []
        named = [tag.removeprefix(BASE) for tag in found if tag.startswith(BASE)]
        return [name for name in named if names.REPOSITORY.match(name) and ":" not in name][:1]

    def files(self, repo: str, revision: str = "main") -> list[RepoFile]:
        """All files of a repository."""
        url = f"{self.endpoint}/api/models/{repo}/tree/{revision}?recursive=true"
        found: list[RepoFile] = []
        for _ in range(MOST_PAGES):
            rows, url = self._get(url, repo)
            found += _files_of(rows)
            if not url:
                return found
        raise self._fail(f"{repo} lists more than {MOST_PAGES * 1000} files")

    def headers_for(self, url: str | httpx2.URL) -> dict[str, str]:
        """The token, for the endpoint's own scheme, host and port only."""
        from huggingface_hub import get_token

        token = get_token()
        if not token or not same_origin(httpx2.URL(url), httpx2.URL(self.endpoint)):
            return {}
        return {"Authorization": f"Bearer {token}"}

    def read_range(self, repo: str, path: str, start: int, length: int) -> tuple[bytes, int]:
        """Bytes of a file from `start` on, and the whole file's size. A server that ignores ranges
        is read up to there.
        """
        last = start + length - 1
        headers = {"Range": f"bytes={start}-{last}", "Accept-Encoding": "identity"}
        url = f"{self.endpoint}/{repo}/resolve/main/{quote(path)}"
        content, response = self._request(url, repo, headers, last + 1)
        found = CONTENT_RANGE.match(response.headers.get("Content-Range", ""))
        if response.status_code != httpx2.codes.PARTIAL_CONTENT:
            size = response.headers.get("Content-Length", "")
            if not (size.isascii() and size.isdecimal()):
                raise self._fail(f"it reports no size for {path}")
            return content[start : last + 1], int(size)
        if found is None or int(found[1]) != start or found[2] == "*":
            raise self._fail(f"it sent another part of {path} than requested")
        return content[:length], int(found[2])

    def small_file(self, repo: str, path: str, most: int) -> bytes | None:
        """A whole file of at most `most` bytes; None where there is none or it is larger."""
        url = f"{self.endpoint}/{repo}/resolve/main/{quote(path)}"
        try:
            content, _ = self._request(url, repo, {}, most + 1)
        except HubError as error:
            if error.cause == "missing":
                return None
            raise
        return content if len(content) <= most else None

    def _get(self, url: str, repo: str = "") -> tuple[Any, str]:
        """Decoded JSON and the next page's address. Raises HubError."""
        content, response = self._request(url, repo, {}, MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise self._fail(f"the response is larger than {MOST_BYTES >> 20} MiB")
        try:
            decoded = msgspec.json.decode(content)
        except (msgspec.MsgspecError, RecursionError):
            raise self._fail("the response is not JSON") from None
        return decoded, self._next(response)

    def _request(
        self, url: str, repo: str, headers: dict[str, str], most: int
    ) -> tuple[bytes, httpx2.Response]:
        """The first `most` bytes of a response. A limited rate is waited for once."""
        from huggingface_hub.constants import is_offline_mode

        if is_offline_mode():
            raise HubError("offline", "HF_HUB_OFFLINE is set, so searching is off; unset it")
        for attempt in (1, 2):
            try:
                with web_client() as client:
                    content, response = self._read(client, url, headers, most)
            except httpx2.TransportError as error:
                raise self._offline(error) from None
            except (httpx2.HTTPError, httpx2.InvalidURL) as error:
                raise self._fail(str(error) or type(error).__name__) from None
            if response.status_code != httpx2.codes.TOO_MANY_REQUESTS or attempt == 2:
                break
            self._wait(reset_seconds(response.headers))
        self._check(response, repo)
        return content, response

    def _read(
        self, client: httpx2.Client, url: str, headers: dict[str, str], most: int
    ) -> tuple[bytes, httpx2.Response]:
        content = bytearray()
        sent = headers | self.headers_for(url)
        with client.stream("GET", url, headers=sent, timeout=TIMEOUT) as response:
            for chunk in response.iter_bytes():
                content += chunk
                if self.cancelled():
                    raise HubError("failed", "stopped")
                if len(content) >= most:
                    break
        return bytes(content[:most]), response

    def _next(self, response: httpx2.Response) -> str:
        """The next page; only at the endpoint itself, since the token goes there."""
        found = NEXT.search(response.headers.get("Link", ""))
        if found is None:
            return ""
        url = response.url.join(found[1])
        return str(url) if same_origin(url, httpx2.URL(self.endpoint)) else ""

    def _wait(self, seconds: float) -> None:
        """Until the Hub's window has passed, unless cancelled."""
        until = time.monotonic() + min(seconds, LONGEST_WAIT)
        while (left := until - time.monotonic()) > 0 and not self.cancelled():
            self.waiting(left)
            time.sleep(min(0.2, left))

    def _check(self, response: httpx2.Response, repo: str) -> None:
        status, code = response.status_code, response.headers.get("X-Error-Code", "")
        page = f"{self.endpoint}/{repo}" if repo else self.endpoint
        if status < 400:
            return
        if status == httpx2.codes.TOO_MANY_REQUESTS:
            seconds = reset_seconds(response.headers)
            problem = f"{self.host} limits the rate of requests; try again in {seconds:.0f} s"
            raise HubError("busy", problem)
        if code == "GatedRepo":
            raise HubError(
                "gated", f"{repo} is gated: open {page} and accept its terms, then try again", page
            )
        if code == "EntryNotFound":
            raise HubError("missing", f"{repo} has no such file any more; search again", page)
        if code == "RepoNotFound" or (repo and status in (401, 404)):
            problem = f"{self.host} has no repository {repo}, or it is private; check the name"
            raise HubError("missing", problem, page)
        if status in (401, 403):
            problem = f"{self.host} refuses the token ({status}); check HF_TOKEN, or log in again"
            raise HubError("failed", problem)
        raise self._fail(f"it responded {status} {response.reason_phrase}")

    @property
    def host(self) -> str:
        """The endpoint's host, for sentences."""
        return httpx2.URL(self.endpoint).host

    def _fail(self, problem: str) -> HubError:
        return HubError("failed", f"{self.host}: {problem}; try again later")

    def _offline(self, error: Exception) -> HubError:
        reason = ERROR_NUMBER.sub("", str(error)) or type(error).__name__
        return HubError(
            "offline",
            f"{self.host} cannot be reached ({reason}); check the network and the proxy. Models "
            "on this disk can be used without it",
        )


def same_origin(one: httpx2.URL, other: httpx2.URL) -> bool:
    """Equal scheme, host and port."""
    return _origin(one) == _origin(other)


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}.get(url.scheme)


def _repo_of(row: dict[str, Any]) -> FoundRepo:
    """A row of the search; every field of a wrong type counts as missing."""
    repo = _text(row.get("id"))
    repo = repo if names.REPOSITORY.match(repo) and ":" not in repo else ""
    tags = row.get("tags")
    tags = [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []
    licences = [tag.partition(":")[2] for tag in tags if tag.startswith("license:")]
    tasks = [TASKS[name] for name in (_text(row.get("pipeline_tag")), *tags) if name in TASKS]
    about = row.get("gguf")
    about = about if isinstance(about, dict) else {}
    gated = row.get("gated")
    return FoundRepo(
        repo,
        repo.partition("/")[0],
        _number(row.get("downloads")) or 0,
        _number(row.get("likes")) or 0,
        _text(row.get("lastModified")),
        licences[0] if licences else None,
        _number(about.get("total")),
        _text(about.get("architecture")) or None,
        gated if gated in ("auto", "manual") else False,
        tasks[0] if tasks else "any",  # type: ignore[arg-type]
    )


def _files_of(rows: Any) -> Iterator[RepoFile]:
    for row in rows if isinstance(rows, list) else ():
        if not isinstance(row, dict) or row.get("type") != "file":
            continue
        path, size = _text(row.get("path")), _number(row.get("size"))
        about = row.get("lfs")
        oid = _text(about.get("oid")) if isinstance(about, dict) else ""
        sha256 = oid if re.fullmatch(r"[0-9a-f]{64}", oid) else ""
        if path and size is not None and size >= 0 and ".." not in path.split("/"):
            yield RepoFile(path, size, sha256)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) and 0 <= value < 1e18 else None
