"""`mcp.json` as other programs write it, and hostile ones."""

import json
import stat
from pathlib import Path

import pytest

from app.tools.config import BadTools, ServerConfig, read_servers, servers_of, write_servers


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
