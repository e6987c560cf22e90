"""A server: its name and address as the person wrote them, a model of it as a path, and requests to
remote engines beyond the protocol (test a server, open a model of it).
"""

import re
from ipaddress import ip_address
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import quote, unquote, urlsplit

import msgspec

from app.names import stem
from engine.errors import BadSetting
from engine.protocol import Loaded, Reply, Request

LONGEST_NAME = 60
LONGEST_URL = 2000
SCHEME = "server:"
HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# Headers that carry keys, which are kept in the keyring and not in a file.
SECRET = ("authorization", "proxy-authorization", "cookie", "x-api-key", "api-key")


class Connection(msgspec.Struct, frozen=True):
    """A server. `headers` are sent with each request, `ca` is a file of certificates to trust.

    `key_in_clear` is the person's yes to a key that travels without encryption. The key itself is
    never here: see `app.remote.keys`.
    """

    name: str
    url: str
    headers: dict[str, str] = {}
    ca: str = ""
    key_in_clear: bool = False

    def check(self) -> None:
        """Raise `BadSetting` for the first part that cannot be used."""
        name = self.name
        if not name.strip() or not name.isprintable() or len(name) > LONGEST_NAME:
            raise BadSetting("name", name, f"1 to {LONGEST_NAME} characters on one line")
        try:
            url = urlsplit(self.url)
            good = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
        except ValueError:
            url, good = urlsplit(""), False
        if not good or len(self.url) > LONGEST_URL or not self.url.isprintable():
            raise BadSetting("address", self.url, "one such as http://localhost:8085/v1")
        if url.username is not None or url.query or url.fragment:
            what = f"{url.scheme}://{url.hostname}/…"  # without what may be a secret
            raise BadSetting("address", what, "one without a password, ? or #; a key has a field")
        for header, value in self.headers.items():
            if header.lower() in SECRET:
                raise BadSetting("header", header, "another: the key has a field of its own")
            if not HEADER.fullmatch(header) or not value.isprintable() or not value.isascii():
                raise BadSetting("header", header, "a name and a value in ASCII, on one line")

    @property
    def api(self) -> str:
        """Where the OpenAI interface begins; an address without a path gets its /v1."""
        plain = self.url.rstrip("/")
        return plain if urlsplit(plain).path else f"{plain}/v1"

    @property
    def root(self) -> str:
        """Where the server's own interface begins."""
        return self.api.removesuffix("/v1")

    @property
    def host(self) -> str:
        """The host with its port, as people read it."""
        return urlsplit(self.url).netloc

    @property
    def origin(self) -> str:
        """Scheme, host and port: whom a key is for."""
        url = urlsplit(self.url)
        return f"{url.scheme}://{url.netloc}".lower()

    @property
    def is_here(self) -> bool:
        """True if the address is this machine's; names are not looked up."""
        host = (urlsplit(self.url).hostname or "").lower()
        if host == "localhost" or host.endswith(".localhost"):
            return True
        try:
            return ip_address(host).is_loopback
        except ValueError:
            return False

    @property
    def shows_key(self) -> bool:
        """True if others on the network could read a key."""
        return urlsplit(self.url).scheme == "http" and not self.is_here


class ServerAddress(NamedTuple):
    """A model of a server. As a path it stands where a model's file would: `server:NAME/MODEL`."""

    connection: str
    model: str

    @property
    def path(self) -> Path:
        """Percent signs keep slashes, which are common in models' names, and a name of dots."""
        model = quote(self.model, safe="")
        last = model if model.strip(".") else model.replace(".", "%2E")
        return Path(f"{SCHEME}{quote(self.connection, safe='')}", last)

    @property
    def title(self) -> str:
        """The model and where it is, as people read it."""
        plain = stem(self.model.rstrip("/").rpartition("/")[2])
        return f"{plain or self.model} on {self.connection}"


def address_of(path: str | Path) -> ServerAddress | None:
    """The model that a path stands for; None of a file."""
    parts = Path(path).parts
    if len(parts) != 2 or not parts[0].startswith(SCHEME):
        return None
    return ServerAddress(unquote(parts[0].removeprefix(SCHEME)), unquote(parts[1]))


ServerKind = Literal["cutaway", "llama-server", "vllm", "sglang", "ollama", "lm studio", "openai"]

KINDS: dict[ServerKind, str] = {
    "cutaway": "Cutaway",
    "llama-server": "llama-server",
    "vllm": "vLLM",
    "sglang": "SGLang",
    "ollama": "Ollama",
    "lm studio": "LM Studio",
    "openai": "OpenAI-compatible server",
}
"""What each is called where people read."""


class ServedModel(msgspec.Struct, frozen=True):
    """A model of a server; None is what it does not report. `writes` is false of one that gives
    embeddings alone.
    """

    id: str
    n_ctx: int | None = None
    sees: bool | None = None
    writes: bool = True


class ServerProbed(Reply, frozen=True):
    """A server has answered. `seconds` is what the first answer took, name and network included."""

    kind: ServerKind
    version: str
    models: list[ServedModel]
    seconds: float


class ProbeServer(Request[ServerProbed], frozen=True):
    """Which server this is and what it has. Without a `key` the one that is kept is used."""

    connection: Connection
    key: str | None = None


class OpenServer(Request[Loaded], frozen=True):
    """Open a model of a server, which must be reachable. Without
    `writes` it may be one that gives embeddings alone.
    """

    connection: Connection
    model: str
    path: str
    writes: bool = True
