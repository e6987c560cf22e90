"""Settings of the server."""

import ipaddress
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from engine.errors import BadSetting
from engine.protocol import Edit

PORT = 8085
QUEUE = 64  # requests that may wait
MOST_KEY = 4096


@dataclass(frozen=True)
class ServeSettings:
    """How to serve; `host` "" is loopback, both of IPv4 and IPv6, and `port` 0 is any free one.

    With a `key`, clients must send it. `aliases` are the names that the model goes by instead
    of its own, `any_model` has it answer for every name; of `models` it is the one
    that is requested. `allowed_hosts` and `allow_origins` are
    accepted besides loopback, pictures fetched from the domains of `fetch_images` alone. `slots`
    requests are answered at once and `queue` more may wait.

    Values of `sampling` come before the model's own, which count where `suggested`; `stop_loops`
    ends answers that repeat themselves; with `spm_infill` what stands behind a place that is
    filled in is read first; `edits` come before those of a request. What requests say
    is kept on the disk, as the engine does that, only where it `keeps`.
    """

    host: str = ""
    port: int = PORT
    key: str = ""
    slots: int = 1
    queue: int = QUEUE
    aliases: tuple[str, ...] = ()
    any_model: bool = False
    models: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    allow_origins: tuple[str, ...] = ()
    fetch_images: tuple[str, ...] = ()
    metrics: bool = False
    openai_defaults: bool = False
    suggested: bool = True
    sampling: Mapping[str, float] = field(default_factory=dict)
    stop_loops: bool = False
    spm_infill: bool = False
    edits: tuple[Edit, ...] = ()
    keeps: bool = False

    def check(self) -> None:
        """Raise `BadSetting` for an address beyond this machine without a key."""
        if not self.key and not is_loopback(self.host):
            expected = "a loopback address, or an API key: --api-key, or --host ''"
            raise BadSetting("--host", self.host, expected)
        if len(self.key) > MOST_KEY or not (self.key.isascii() and self.key.isprintable()):
            expected = f"at most {MOST_KEY} printable ASCII characters"
            raise BadSetting("--api-key", f"{len(self.key)} characters", expected)
        if not 0 <= self.port < 1 << 16:
            raise BadSetting("--port", self.port, "a number from 0 to 65535")


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    if host in ("", "localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_key(path: Path) -> str:
    """The key in a file that nobody else may read. Raises BadSetting."""
    try:
        with path.open("rb") as file:
            open_to = stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077
            data = file.read(MOST_KEY + 1)
    except OSError as error:
        raise BadSetting("--api-key-file", str(path), f"a file ({error.strerror})") from None
    if open_to:
        raise BadSetting("--api-key-file", str(path), "a file that only you can read (chmod 600)")
    try:
        key = data.decode("ascii").strip()
    except UnicodeDecodeError:
        key = ""
    if not key:
        raise BadSetting("--api-key-file", str(path), "a file with a key, in ASCII")
    return key
