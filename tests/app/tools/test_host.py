"""Servers written with the official SDK, as real processes over stdio and over HTTP."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.tools import host as hosts
from app.tools.config import BadTools, ServerConfig
from app.tools.consent import ConsentStore
from app.tools.host import ToolHost
from app.tools.results import MOST_PICTURES
from tests.app.tools.conftest import RUDE, Served, alive, free_port, rude, served_over_http, until


@pytest.mark.parametrize("way", ["served", "over_http"])
class TestBehaviours:
    """Over both transports."""

    def test_tools_are_listed(self, way: str, request: pytest.FixtureRequest) -> None:
        server: Served = request.getfixturevalue(way)
        tool = server.tools["add"]
        assert tool.full == f"{server.config.name}__add"
        assert tool.description == "Adds two whole numbers."
        assert json.loads(tool.schema)["required"] == ["a", "b"]
        assert server.tools["dotted.name"].full == f"{server.config.name}__dotted_name"
        assert [t.name for t in server.tools.values() if t.destructive] == ["wipe"]

    def test_a_call(self, way: str, request: pytest.FixtureRequest) -> None:
        server: Served = request.getfixturevalue(way)
        assert server.call("add", '{"a": 20, "b": 22}').text == "42"
        assert server.call("dotted.name").text == "dotted"

    def test_an_error_is_a_result(self, way: str, request: pytest.FixtureRequest) -> None:
        server: Served = request.getfixturevalue(way)
        made = server.call("fail")
        assert made.failed
        assert made.text.startswith("error: ")
        assert "the disk is on fire" in made.text

    def test_pictures(self, way: str, request: pytest.FixtureRequest) -> None:
        from tests.app.tools.oracle import PNG  # which imports the SDK

        server: Served = request.getfixturevalue(way)
        made = server.call("picture", '{"count": 6}')
        assert made.pictures == (PNG,) * MOST_PICTURES
        assert made.text == "here\n[picture left out]\n[picture left out]"

    def test_a_lie_about_its_schema(self, way: str, request: pytest.FixtureRequest) -> None:
        server: Served = request.getfixturevalue(way)
        assert server.call("lies").failed
        assert server.call("add", '{"a": 1, "b": 1}').text == "2"

    def test_wrong_arguments_do_not_reach_it(
        self, way: str, request: pytest.FixtureRequest
    ) -> None:
        server: Served = request.getfixturevalue(way)
        before = server.ran
        assert "'b' is a required property" in server.call("add", '{"a": 1}').text
        assert "not valid JSON" in server.call("add", '{"a": ').text
        assert "not a JSON object" in server.call("add", "[1, 2]").text
        assert server.ran == before


def test_faults_are_results(fresh: Callable[..., Served]) -> None:
    server = fresh()
    assert server.call("prints").text == "done"  # what is no message is skipped
    assert server.call("no_content").failed
    assert "schema is not valid" in server.call("refers", '{"a": 1}').text
    assert "takes too long" in server.call("backtracks", json.dumps({"a": "a" * 60 + "!"})).text
    assert "schema is not valid" in server.call("circles").text
    assert "schema is not valid" in server.call("nonsense", '{"a": 1}').text
    assert server.call("ok").text == "done"


def test_a_huge_result_is_cut(served: Served) -> None:
    made = served.call("huge", json.dumps({"size": 18_000_000}))
    assert len(made.text) <= 16 << 20
    assert "characters left out" in made.text


def test_a_slow_call_ends(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "CALL_S", 0.3)
    assert "did not answer within 0.3 s" in served.call("slow", '{"seconds": 2}').text


def test_a_cancelled_call_is_over_at_once(served: Served) -> None:
    permit = served.consent.decide(served.tools["slow"], '{"seconds": 1}', 1, "once")
    assert permit is not None
    future = served.host.call(permit)
    until(lambda: served.ran[-1] == "slow")
    assert future.cancel()
    assert future.cancelled()


@pytest.mark.parametrize(
    ("tool", "why"),
    [("floods_lines", "lines that are not messages"), ("floods_bytes", "more than 48 MiB")],
)
def test_a_flood_ends_the_server(fresh: Callable[..., Served], tool: str, why: str) -> None:
    server = fresh()
    (pid,) = server.host.processes
    made = server.call(tool)
    assert made.failed
    assert why in made.text
    until(lambda: not alive(pid))


def test_a_server_that_dies_is_started_again_with_its_next_listing(
    fresh: Callable[..., Served],
) -> None:
    server = fresh()
    assert server.call("dies").failed
    assert "is not running" in server.call("ok").text
    server.host.tools(server.start).result(30)
    assert server.call("ok").text == "done"


def test_no_server_without_a_command(host: ToolHost) -> None:
    config = ServerConfig("gone", "/no/such/program", ("x",))
    with pytest.raises(BadTools, match="server gone: /no/such/program cannot be started"):
        host.tools(ConsentStore().allow_server(config)).result(30)


def test_what_a_broken_server_wrote_is_in_the_error(host: ToolHost) -> None:
    code = "import sys; sys.exit('no licence found')"
    config = ServerConfig("broken", sys.executable, ("-c", code))
    with pytest.raises(BadTools, match="server broken: .*no licence found"):
        host.tools(ConsentStore().allow_server(config)).result(30)


def test_a_server_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is ended, though it ignores the end of its input and SIGTERM."""
    pytest.importorskip("mcp")
    monkeypatch.setattr(hosts, "START_S", 0.5)
    host = ToolHost()
    config = rude(HANGS="1", DEAF="1", MARK=str(tmp_path))
    with pytest.raises(BadTools, match="not ready within 0.5 s"):
        host.tools(ConsentStore().allow_server(config)).result(30)
    host.close()
    assert not _running(str(tmp_path))


def test_a_refused_sign_in_is_named(host: ToolHost, tmp_path: Path) -> None:
    code = (
        "import http.server as s\n"
        "class H(s.BaseHTTPRequestHandler):\n"
        " def do_POST(self): self.send_response(401); self.end_headers()\n"
        "h = s.HTTPServer(('127.0.0.1', 0), H); print(h.server_port, flush=True); h.serve_forever()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    try:
        port = int(process.stdout.readline())
        config = ServerConfig("locked", url=f"http://127.0.0.1:{port}/mcp")
        with pytest.raises(BadTools, match="needs a sign-in"):
            host.tools(ConsentStore().allow_server(config)).result(30)
    finally:
        process.kill()
        process.wait()


class TestFaultsOverHttp:
    """A server that dies, hangs or floods; that lies in its schema is above."""

    def test_dies_and_comes_back(self, host: ToolHost, tmp_path: Path) -> None:
        calls, port = tmp_path / "calls", free_port()
        with served_over_http(host, calls, port) as (server, pid):
            assert server.call("add", '{"a": 1, "b": 1}').text == "2"
            os.kill(pid, signal.SIGKILL)
            made = server.call("add", '{"a": 1, "b": 1}')
            assert made.failed
            assert made.text.startswith("error: ")
            with pytest.raises(BadTools, match="server web: "):
                host.tools(server.start).result(30)
        with served_over_http(host, calls, port) as (server, _):
            assert server.call("add", '{"a": 1, "b": 2}').text == "3"

    def test_dies_during_a_call(self, host: ToolHost, tmp_path: Path) -> None:
        with served_over_http(host, tmp_path / "calls") as (server, pid):
            permit = server.consent.decide(server.tools["slow"], '{"seconds": 60}', 1, "once")
            assert permit is not None
            future = server.host.call(permit)
            until(lambda: server.ran == ["slow"])
            os.kill(pid, signal.SIGKILL)
            assert future.result(30).failed

    def test_hangs(self, host: ToolHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with served_over_http(host, tmp_path / "calls") as (server, pid):
            with monkeypatch.context() as patch:
                patch.setattr(hosts, "CALL_S", 0.5)
                os.kill(pid, signal.SIGSTOP)
                made = server.call("add", '{"a": 1, "b": 1}')
            assert "did not answer within 0.5 s" in made.text
            os.kill(pid, signal.SIGCONT)
            assert server.call("add", '{"a": 20, "b": 22}').text == "42"

    def test_floods(self, host: ToolHost, flood: str) -> None:
        with pytest.raises(BadTools, match="more than 64 MiB in one response"):
            host.tools(ConsentStore().allow_server(ServerConfig("flood", url=flood))).result(60)


@pytest.fixture
def flood(tmp_path: Path) -> Iterator[str]:
    """The address of a server whose response has no end."""
    code = (
        "import http.server as s\n"
        "class H(s.BaseHTTPRequestHandler):\n"
        " def do_POST(self):\n"
        "  self.send_response(200); self.send_header('Content-Type', 'application/json')\n"
        "  self.end_headers()\n"
        "  while True: self.wfile.write(b' ' * 65536)\n"
        "h = s.HTTPServer(('127.0.0.1', 0), H); print(h.server_port, flush=True); h.serve_forever()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
        process.kill()


def test_a_server_that_stays_and_its_children_end(fresh: Callable[..., Served]) -> None:
    """Ignoring the end of its input does not help it."""
    server = fresh(STAYS="1", DEAF="1")
    child = int(server.call("spawns").text)
    (pid,) = server.host.processes
    assert alive(pid)
    assert alive(child)
    server.host.close()
    until(lambda: not (alive(pid) or alive(child)), 5)  # the system takes a moment to end them


@pytest.mark.only_linux("it ends the children of a process that ended")
def test_no_server_outlives_a_program_that_is_killed(tmp_path: Path) -> None:
    pytest.importorskip("mcp")
    code = f"""
import sys
from app.tools.consent import ConsentStore
from app.tools.host import ToolHost
from app.tools.config import ServerConfig
config = ServerConfig("rude", sys.executable, ("-S", {str(RUDE)!r}), (("STAYS", "1"),))
host = ToolHost()
host.tools(ConsentStore().allow_server(config)).result(30)
print(*host.processes, flush=True)
sys.stdin.read()
"""
    program = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert program.stdout is not None
    pid = int(program.stdout.readline())
    assert alive(pid)
    os.kill(program.pid, signal.SIGKILL)
    program.wait()
    until(lambda: not alive(pid), 5)


def _running(mark: str) -> bool:
    """True if a process of ours runs with this in its environment."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if mark.encode() in (folder / "environ").read_bytes() and alive(int(folder.name)):
                    return b"rude" in (folder / "cmdline").read_bytes()
            except OSError:
                continue
    return False
