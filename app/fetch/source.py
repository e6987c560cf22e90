"""Where a file comes from, and how a failed request for it is explained and tried again."""

import re
from dataclasses import dataclass, field

import httpx2

from engine.units import MIB

TRIES = 4  # in a row without one byte more
TIMEOUT = httpx2.Timeout(30, connect=15)  # seconds; the first is per read, not for the whole file
RETRIED = frozenset({408, 429, 500, 502, 503, 504})
CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")
RESETS = re.compile(r"\bt=(\d+)")
LONGEST_WAIT = 300.0  # seconds; the Hub counts requests in windows of five minutes
MOST_UNKNOWN = 4096 * MIB  # of a file whose size nobody has announced


@dataclass(frozen=True)
class Source:
    """Where a file is and what is known of it beforehand. `most` bounds one of unknown size."""

    url: str
    size: int | None
    sha256: str | None
    headers: dict[str, str] = field(default_factory=dict)
    most: int = MOST_UNKNOWN

    @property
    def label(self) -> str:
        """The file's name and server, without a password or a signature."""
        url = httpx2.URL(self.url)
        return f"{url.path.rpartition('/')[2]} of {url.host}"

    def other_size(self, size: int) -> str:
        """The problem that the server's file has another size than announced."""
        return (
            f"{self.label} has {size} bytes, {self.size} expected; "
            "try again later, or another server"
        )


def reset_seconds(headers: httpx2.Headers) -> float:
    """How long to wait after a 429: `RateLimit`'s t, else `Retry-After`, else a second."""
    resets = RESETS.search(headers.get("RateLimit", ""))
    text = resets[1] if resets else headers.get("Retry-After", "")
    return min(float(text), LONGEST_WAIT) if text.isascii() and text.isdecimal() else 1.0


def pause_before_retry(error: httpx2.HTTPError, failures: int) -> float:
    """Seconds: as long as a server says that limits its rate or is busy, else ever longer."""
    pause: float = 0.25 * 2**failures
    if isinstance(error, httpx2.HTTPStatusError):
        headers = error.response.headers
        if "Retry-After" in headers or "RateLimit" in headers:
            return max(pause, reset_seconds(headers))
    return pause


def explained(source: Source, size: int, error: httpx2.HTTPError) -> str:
    """Why a file did not come, at how many bytes, and the next step."""
    if isinstance(error, httpx2.HTTPStatusError):
        code = error.response.status_code
        return f"{source.label}: the server answered {code} {error.response.reason_phrase}"
    reason = str(error) or type(error).__name__
    return (
        f"the connection for {source.label} broke at {size / 1e6:.1f} MB ({reason}); "
        "check the network and try again: the download resumes"
    )
