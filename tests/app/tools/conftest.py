"""Servers of tools as real processes."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.tools.config import ServerConfig
from app.tools.consent import ConsentStore
from app.tools.host import ToolHost
from app.tools.tool import ToolResult

ORACLE = Path(__file__).with_name("oracle.py")
RUDE = Path(__file__).with_name("rude.py")


class Served:
    """A running server and what was allowed of it."""

    def __init__(self, host: ToolHost, config: ServerConfig, calls: Path) -> None:
        self.host, self.config, self.calls = host, config, calls
        self.consent = ConsentStore()
        self.start = self.consent.allow_server(config)
        self.tools = {t.name: t for t in host.tools(self.start).result(30)}

    def call(self, name: str, arguments: str = "{}") -> ToolResult:
        """One call with consent."""
        permit = self.consent.decide(self.tools[name], arguments, 1, "once")
        assert permit is not None
        return self.host.call(permit).result(90)

    @property
    def ran(self) -> list[str]:
        """The calls that the server has noted."""
        return self.calls.read_text().splitlines() if self.calls.exists() else []


def stdio(calls: Path) -> ServerConfig:
    """The server written with the SDK."""
    return ServerConfig("oracle", sys.executable, (str(ORACLE),), (("CALLS", str(calls)),))


def rude(**env: str) -> ServerConfig:
    """The server that behaves badly."""
    return ServerConfig("rude", sys.executable, ("-S", str(RUDE)), tuple(sorted(env.items())))


@pytest.fixture(autouse=True)
def loopback(refused: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections to servers of a test are not refused."""
    monkeypatch.setenv("CUTAWAY_TEST_HOSTS", "127.0.0.1")


@pytest.fixture(scope="module")
def host() -> Iterator[ToolHost]:
    pytest.importorskip("mcp")
    made = ToolHost()
    yield made
    made.close()


@pytest.fixture(scope="module")
def served(host: ToolHost, tmp_path_factory: pytest.TempPathFactory) -> Served:
    """One server over stdio for many tests."""
    calls = tmp_path_factory.mktemp("calls") / "calls"
    return Served(host, stdio(calls), calls)


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Rude servers that a test may kill, each with a host of its own."""
    pytest.importorskip("mcp")
    hosts = []

    def made(**env: str) -> Served:
        hosts.append(ToolHost())
        return Served(hosts[-1], rude(**env), tmp_path / "calls")

    yield made
    for one in hosts:
        one.close()


@pytest.fixture(scope="module")
def over_http(host: ToolHost, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The same server over streamable HTTP on loopback."""
    with served_over_http(host, tmp_path_factory.mktemp("http") / "calls") as (made, _):
        yield made


@contextmanager
def served_over_http(
    host: ToolHost, calls: Path, port: int | None = None
) -> Iterator[tuple[Served, int]]:
    """The server over HTTP, and the id of its process."""
    port = port or free_port()
    process = subprocess.Popen(
        [sys.executable, str(ORACLE), str(port)],
        env=os.environ | {"CALLS": str(calls)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: listens(port))
        config = ServerConfig("web", url=f"http://127.0.0.1:{port}/mcp")
        yield Served(host, config, calls), process.pid
    finally:
        process.kill()
        process.wait()


def free_port() -> int:
    """A port of this machine on which nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def listens(port: int) -> bool:
    """True once connections to it are accepted."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def until(true: Callable[[], bool], seconds: float = 30) -> None:
    """Wait until it is true."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """True while a process runs; one that has ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
