"""The SDK's own example servers, unmodified, as real processes: ten behaviours over stdio, five
over HTTP. They are in the SDK's source archive, which pip downloads.
"""

import os
import socket
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import pytest

from app.tools.config import ServerConfig
from app.tools.consent import ConsentStore
from app.tools.host import ToolHost
from app.tools.tool import ToolResult
from tests.app.tools.conftest import _listens, until

pytestmark = pytest.mark.full
pytest.importorskip("mcp")
START = "import runpy, sys; runpy.run_path(sys.argv[1])['mcp'].run(**eval(sys.argv[2]))"
CASES = [
    ("echo", "echo_tool", '{"text": "hi"}', "hi"),
    ("simple_echo", "echo", '{"text": "Zürich"}', "Zürich"),
    ("readme-quickstart", "sum", '{"a": 2, "b": 40}', "42"),
    ("parameter_descriptions", "greet_user", '{"name": "Ann"}', "Ann"),
    ("unicode_example", "hello_unicode", "{}", "世界"),
    ("logging_and_progress", "echo", '{"text": "hi"}', "hi"),
    ("direct_call_tool_result_return", "echo", '{"text": "hi"}', "hi"),
    ("weather_structured", "get_temperature", '{"city": "Rome"}', "22.5"),
    ("icons_demo", "demo_tool", '{"message": "hi"}', "hi"),
    ("complex_inputs", "name_shrimp", '{"tank": {"shrimp": [{"name": "x"}]}, "extra_names": ["y"]}',
     "y"),
]  # fmt: skip


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdk")
    name = f"mcp=={version('mcp')}"
    words = ["download", "-q", "--no-deps", "--no-binary", ":all:", "--no-build-isolation"]
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    made = subprocess.run(
        [sys.executable, "-m", "pip", *words, "-d", str(folder), name], env=env, check=False
    )
    archives = list(folder.glob("*.tar.gz"))
    if made.returncode or not archives:
        pytest.skip("the SDK's source archive cannot be downloaded")
    with tarfile.open(archives[0]) as archive:
        archive.extractall(folder, filter="data")
    return next(folder.glob("mcp-*/examples/mcpserver"))


def called(host: ToolHost, config: ServerConfig, tool: str, arguments: str) -> ToolResult:
    consent = ConsentStore()
    known = {t.name: t for t in host.tools(consent.allow_server(config)).result(60)}
    permit = consent.decide(known[tool], arguments, 1, "once")
    assert permit is not None
    return host.call(permit).result(60)


@pytest.mark.parametrize(("name", "tool", "arguments", "result"), CASES)
def test_over_stdio(
    host: ToolHost, examples: Path, name: str, tool: str, arguments: str, result: str
) -> None:
    words = ("-c", START, str(examples / f"{name}.py"), "{}")
    made = called(host, ServerConfig(name, sys.executable, words), tool, arguments)
    assert not made.failed, made
    assert result in made.text


@contextmanager
def serving(path: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    how = repr({"transport": "streamable-http", "host": "127.0.0.1", "port": port})
    process = subprocess.Popen([sys.executable, "-c", START, str(path), how])
    try:
        until(lambda: _listens(port))
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(("name", "tool", "arguments", "result"), CASES[1:6])
def test_over_http(
    host: ToolHost, examples: Path, name: str, tool: str, arguments: str, result: str
) -> None:
    with serving(examples / f"{name}.py") as url:
        made = called(host, ServerConfig(name, url=url), tool, arguments)
    assert not made.failed, made
    assert result in made.text
