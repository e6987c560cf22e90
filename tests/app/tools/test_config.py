"""`mcp.json` as other programs write it, and hostile ones."""

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import keyring.backend
import keyring.errors
import pytest

from app.tools import config
from app.tools.config import (
    BadTools,
    ServerConfig,
    keep_secrets,
    read_servers,
    servers_of,
    write_servers,
)


def of(**servers: object) -> list[ServerConfig]:
    return servers_of(json.dumps({"mcpServers": servers}).encode(), "mcp.json")


def test_the_forms_of_other_programs() -> None:
    stdio = {"command": "npx", "args": ["-y", "files", "/tmp"], "env": {"KEY": "${env:HOME}"}}
    (one,) = of(files=stdio)
    assert (one.name, one.command, one.args) == ("files", "npx", ("-y", "files", "/tmp"))
    code = {"servers": {"web": {"type": "http", "url": "https://x.y/mcp", "headers": {"K": "v"}}}}
    (web,) = servers_of(json.dumps(code).encode(), "mcp.json")
    assert (web.url, web.headers) == ("https://x.y/mcp", (("K", "v"),))
    assert of(off={"command": "x", "disabled": True}) == []


def test_a_file_is_written_as_it_is_read(tmp_path: Path) -> None:
    servers = of(
        a={"command": "x y", "args": ["ü", '"'], "env": {"A": "1"}, "cwd": "/tmp"},
        b={"url": "http://127.0.0.1:8/mcp", "headers": {"K": "${env:HOME}"}},
    )
    path = tmp_path / "folder" / "mcp.json"
    assert read_servers(path) == []
    write_servers(path, servers)
    assert read_servers(path) == servers
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("{}", 'no object "mcpServers"'),
        ('{"mcpServers": []}', 'no object "mcpServers"'),
        ('{"mcpServers": {"a": {}}}', 'either "command" or "url"'),
        ('{"mcpServers": {"a": {"command": "x", "url": "https://x"}}}', 'either "command" or'),
        ('{"mcpServers": {"a": {"command": 7}}}', "server a: "),
        ('{"mcpServers": {"a": {"command": "x", "args": "rm"}}}', "server a: "),
        ('{"mcpServers": {"a": {"command": "x\\u0000y"}}}', "NUL"),
        ('{"mcpServers": {"a": {"command": "x", "env": {"K": "${input:key}"}}}}', "${input:key}"),
        ('{"mcpServers": {"a": {"url": "http://example.com/mcp"}}}', "use https"),
        ('{"mcpServers": {"a": {"url": "http://127.0.0.1.example.com/"}}}', "use https"),
        ('{"mcpServers": {"a": {"url": "http://127.0.0.1@example.com/"}}}', "use https"),
        ('{"mcpServers": {"a": {"url": "file:///etc/passwd"}}}', "use https"),
        ('{"mcpServers": {"a": {"url": "https://[::"}}}', "not valid"),
        ('{"mcpServers": {"": {"command": "x"}}}', "a name has"),
        ('{"mcpServers": {"a\\u202eb": {"command": "x"}}}', "a name has"),
        ('{"mcpServers": {"a b": {"command": "x"}, "a_b": {"command": "y"}}}', "called a_b"),
    ],
)
def test_refused(text: str, why: str) -> None:
    with pytest.raises(BadTools) as refused:
        servers_of(text.encode(), "mcp.json")
    assert why in str(refused.value)
    assert "\u202e" not in str(refused.value)


def test_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    (one,) = of(a={"command": "${env:KEY}", "env": {"A": "x${env:KEY}y", "B": "$KEY"}})
    monkeypatch.setenv("KEY", "s3cret")
    assert one.environment() == {"A": "xs3crety", "B": "$KEY"}
    assert one.command == "${env:KEY}"  # nothing is replaced in a command
    monkeypatch.delenv("KEY")
    with pytest.raises(BadTools, match="the variable KEY is not set"):
        one.environment()


def test_the_command_is_shown_whole() -> None:
    (one,) = of(a={"command": "sh", "args": ["-c", "rm -rf /\n\x1b[2K\u202e"], "env": {"A": "b"}})
    assert one.shown == "sh -c 'rm -rf /\\n\\x1b[2K\\u202e'\nA=b"


def test_every_change_is_another_server() -> None:
    base = {"command": "x", "args": ["a"], "env": {"K": "v"}, "cwd": "/"}
    changes: list[dict[str, object]] = [
        {"command": "y"}, {"args": ["b"]}, {"args": ["a", ""]}, {"env": {"L": "v"}},
        {"env": {"K": "w"}}, {"env": {}}, {"cwd": "/tmp"},
    ]  # fmt: skip
    found = {of(a={**base, **change})[0].hash for change in [{}, *changes]}
    assert len(found) == len(changes) + 1
    assert of(b=base)[0].hash not in found
    assert of(a=base)[0].hash == of(a={**base, "icon": "x"})[0].hash


class Ring(keyring.backend.KeyringBackend):
    """A keyring in memory; `left` is how many more secrets it takes."""

    priority = 1.0  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], str] = {}
        self.left = 9

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.left -= 1
        if self.left < 0:
            raise keyring.errors.PasswordSetError("s3cret is too long")
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.kept[service, username]


@pytest.fixture
def ring() -> Iterator[Ring]:
    before, made = keyring.get_keyring(), Ring()
    keyring.set_keyring(made)
    yield made
    keyring.set_keyring(before)


PLAIN = {
    "mcpServers": {
        "files": {"command": "npx", "env": {"API_KEY": "s3cret", "LEVEL": "7"}, "icon": "x"},
        "web": {"url": "https://x.y/mcp", "headers": {"Authorization": "Bearer s3cret"}},
        "set": {"command": "npx", "env": {"TOKEN": "${env:TOKEN}"}},
        "off": {"command": "npx", "disabled": True},
    }
}


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps(PLAIN))
    return path


def test_keys_move_to_the_keyring_and_come_back_at_the_start(plain: Path, ring: Ring) -> None:
    assert [len(server.secrets) for server in read_servers(plain)] == [1, 1, 0]
    assert keep_secrets(plain) == 2
    assert "s3cret" not in plain.read_text()
    whole = json.loads(plain.read_text())["mcpServers"]
    assert (whole["files"]["icon"], whole["off"]["disabled"]) == ("x", True)
    files, web, _ = read_servers(plain)
    assert files.environment() == {"API_KEY": "s3cret", "LEVEL": "7"}
    assert web.http_headers() == {"Authorization": "Bearer s3cret"}
    assert "s3cret" not in files.shown + web.shown
    assert keep_secrets(plain) == 0


@pytest.mark.parametrize(
    "changes", [{"command": "sh"}, {"args": ["-c", "env"]}, {"cwd": "/"}, {"name": "other"}]
)
def test_a_key_is_for_this_very_server(plain: Path, ring: Ring, changes: dict[str, object]) -> None:
    """Another program's file cannot ask for it by its name."""
    keep_secrets(plain)
    entry = {"command": "npx", "env": {"API_KEY": "${keyring:API_KEY}"}} | changes
    (server,) = of(**{str(entry.pop("name", "files")): entry})
    with pytest.raises(BadTools, match="the keyring has no API_KEY for it"):
        server.environment()


@pytest.mark.parametrize("fails", ["keyring", "file"])
def test_keys_that_cannot_be_moved_stay(
    plain: Path, ring: Ring, fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left in one place and taken from the other."""

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    before = plain.read_bytes()
    if fails == "keyring":
        ring.left = 1
    else:
        monkeypatch.setattr(config, "write_atomically", refuse)
    with pytest.raises(BadTools, match="the keys stay in") as failed:
        keep_secrets(plain)
    assert "s3cret" not in str(failed.value)
    assert plain.read_bytes() == before
    assert not ring.kept
