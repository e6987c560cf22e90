"""The file `mcp.json`: which tool servers there are, in the form that other programs use.

`{"mcpServers": {NAME: {"command", "args", "env", "cwd"} | {"url", "headers"}}}`; the key `servers`
of VS Code is read as well. Values of `env` and `headers` may name a variable of the environment,
`${env:NAME}`, or a secret of the system's keyring, `${keyring:NAME}`, which is for this very
server: with another command or address it is not found.
"""

import json
import os
import re
import shlex
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from engine.errors import CutawayError
from engine.kept import read_kept, write_atomically

LARGEST = 1 << 20  # bytes of the file
MOST_SERVERS = 64
LONGEST_NAME = 64
KEYS = ("mcpServers", "servers")
REFERENCE = re.compile(r"\$\{(env|keyring):([^}]*)\}")
FOREIGN = re.compile(r"\$\{(?!env:|keyring:)[^}]*\}")
SECRET = re.compile(r"(?i)key|token|secret|passw|auth|credential")
SERVICE = "cutaway"  # in the keyring
NO_SECRET = "the keyring has no {} for it; write its value in mcp.json and move it there again"
Pairs = tuple[tuple[str, str], ...]


class BadTools(CutawayError):
    """A tool server, or the file that names it, which cannot be used."""


class _Entry(msgspec.Struct):
    """A server as it is written; other keys are left alone."""

    command: str = ""
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: str = ""
    url: str = ""
    headers: dict[str, str] = {}
    disabled: bool = False


@dataclass(frozen=True)
class ServerConfig:
    """A program to start, or an address. Values of `env` and `headers` are as written: references
    are replaced at the start.
    """

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Pairs = ()
    cwd: str = ""
    url: str = ""
    headers: Pairs = ()

    @property
    def hash(self) -> str:
        """SHA-256 of all of it, in hex. Consent is for this, so that any change needs a new one."""
        parts = [self.name, self.command, self.args, self.env, self.cwd, self.url, self.headers]
        return sha256(json.dumps(parts).encode()).hexdigest()

    @property
    def slug(self) -> str:
        """Its name as the first part of its tools' names; never with two underscores in a row."""
        return re.sub(r"_{2,}", "_", re.sub(r"[^A-Za-z0-9_-]", "_", self.name)).strip("_")

    @property
    def shown(self) -> str:
        """The whole command or address for a person to read: nothing in it is hidden or acts."""
        if self.url:
            lines = [visible(self.url)]
            lines += [f"{visible(name)}: {visible(value)}" for name, value in self.headers]
            return "\n".join(lines)
        lines = [visible(shlex.join([self.command, *self.args]))]
        lines += [f"in {visible(self.cwd)}"] if self.cwd else []
        lines += [f"{visible(name)}={visible(value)}" for name, value in self.env]
        return "\n".join(lines)

    def environment(self) -> dict[str, str]:
        """The variables of `env`, with references replaced, for which a person may have to unlock
        the keyring. Raises BadTools.
        """
        return {name: self._replaced(value) for name, value in self.env}

    def http_headers(self) -> dict[str, str]:
        """The headers, with references replaced. Raises BadTools."""
        return {name: self._replaced(value) for name, value in self.headers}

    def account(self, name: str) -> str:
        """Where the keyring has this server's secret of that name."""
        parts = [self.name, self.command, self.args, self.cwd, self.url]
        return f"tools {name} {sha256(json.dumps(parts).encode()).hexdigest()}"

    @property
    def secrets(self) -> Pairs:
        """The names and values of keys that are written out."""
        pairs = self.headers if self.url else self.env
        return tuple((n, v) for n, v in pairs if v and SECRET.search(n) and not REFERENCE.search(v))

    def _replaced(self, value: str) -> str:
        def found(match: "re.Match[str]") -> str:
            kind, name = match.groups()
            secret = os.environ.get(name) if kind == "env" else self._secret(name)
            if secret is None:
                problem = "the variable {} is not set" if kind == "env" else NO_SECRET
                raise BadTools(f"server {self.name}: {problem.format(visible(name))}")
            return secret

        return REFERENCE.sub(found, value)

    def _secret(self, name: str) -> str | None:
        import keyring

        try:
            return keyring.get_password(SERVICE, self.account(name))
        except Exception:  # noqa: BLE001  backends raise what their system does
            return None


def visible(text: str) -> str:
    """`text` on one line: characters that would not show are spelled out."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def read_servers(path: Path) -> list[ServerConfig]:
    """The servers of a file, in its order; none where there is no file. Raises BadTools."""
    try:
        data = read_kept(path)
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise BadTools(f"{path} cannot be read: {why or error}") from None
    if len(data) > LARGEST:
        raise BadTools(f"{path} is larger than {LARGEST >> 10} KiB")
    return servers_of(data, str(path))


def servers_of(data: bytes, name: str) -> list[ServerConfig]:
    """The servers in the bytes of a file called `name`. Raises BadTools."""
    try:
        whole = msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadTools(f"{name} is not valid JSON ({error})") from None
    entries = next((whole[key] for key in KEYS if key in whole), None)
    if not isinstance(entries, dict):
        raise BadTools(f'{name} has no object "mcpServers"')
    if len(entries) > MOST_SERVERS:
        raise BadTools(f"{name} names {len(entries)} servers; {MOST_SERVERS} are the most")
    found = []
    for title, entry in entries.items():
        try:
            made = msgspec.convert(entry, _Entry)
        except msgspec.ValidationError as error:
            raise BadTools(f"{name}: server {visible(title)[:LONGEST_NAME]}: {error}") from None
        if not made.disabled:
            found.append(_checked(title, made, name))
    slugs = [server.slug for server in found]
    twice = next((slug for slug in slugs if slugs.count(slug) > 1), None)
    if twice is not None:
        raise BadTools(f"{name}: two servers are called {twice}; rename one")
    return found


def write_servers(path: Path, servers: list[ServerConfig]) -> None:
    """Write the file, readable for this user alone. Raises OSError."""
    entries: dict[str, dict[str, Any]] = {}
    for server in servers:
        fields = {"command": server.command, "args": list(server.args), "env": dict(server.env)}
        fields |= {"cwd": server.cwd, "url": server.url, "headers": dict(server.headers)}
        entries[server.name] = {key: value for key, value in fields.items() if value}
    text = json.dumps({"mcpServers": entries}, indent=2, ensure_ascii=False)
    write_atomically(path, f"{text}\n".encode())


def keep_secrets(path: Path) -> int:
    """Move the keys that a file has written out into the system's keyring; how many they were. What
    fails changes nothing. Raises BadTools, without a key in its text.
    """
    import keyring

    servers, kept = read_servers(path), list[str]()
    try:
        whole = json.loads(read_kept(path))
        entries = next(whole[key] for key in KEYS if key in whole)
        for server in servers:
            for name, value in server.secrets:
                keyring.set_password(SERVICE, server.account(name), value)
                kept.append(server.account(name))
                part = entries[server.name]["headers" if server.url else "env"]
                part[name] = f"${{keyring:{name}}}"
        text = json.dumps(whole, indent=2, ensure_ascii=False)
        write_atomically(path, f"{text}\n".encode())
    except Exception as error:  # noqa: BLE001  backends raise what their system does
        for account in kept:
            with suppress(Exception):  # backends raise what their system does
                keyring.delete_password(SERVICE, account)
        why = error.strerror if isinstance(error, OSError) else "there is no system keyring"
        raise BadTools(f"the keys stay in {path}: {why}") from None
    return len(kept)


def _checked(title: str, entry: _Entry, file: str) -> ServerConfig:
    where = f"{file}: server {visible(title)[:LONGEST_NAME]}"
    server = ServerConfig(
        title,
        entry.command,
        tuple(entry.args),
        tuple(sorted(entry.env.items())),
        entry.cwd,
        entry.url,
        tuple(sorted(entry.headers.items())),
    )
    if not server.slug or len(title) > LONGEST_NAME or not title.isprintable():
        raise BadTools(
            f"{where}: a name has 1 to {LONGEST_NAME} letters, digits, underscores or hyphens"
        )
    if bool(entry.command) == bool(entry.url):
        raise BadTools(f'{where}: needs either "command" or "url"')
    texts = [entry.command, entry.cwd, entry.url, *entry.args]
    texts += [text for pairs in (server.env, server.headers) for pair in pairs for text in pair]
    if any("\0" in text for text in texts):
        raise BadTools(f"{where}: contains a NUL character")
    foreign = next((found[0] for text in texts if (found := FOREIGN.search(text))), None)
    if foreign is not None:
        raise BadTools(f"{where}: {foreign} is not known here; use ${{env:NAME}}")
    if entry.url:
        _check_address(entry.url, where)
    return server


def _check_address(url: str, where: str) -> None:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        raise BadTools(f"{where}: the address is not valid") from None
    if parts.scheme == "https" and host:
        return
    if parts.scheme != "http" or not is_loopback(host):
        raise BadTools(f"{where}: use https, or http for this machine only (127.0.0.1)")


def is_loopback(host: str) -> bool:
    """True for the names and addresses of this machine."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
