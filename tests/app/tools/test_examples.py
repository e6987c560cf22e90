"""The SDK's own example servers, unmodified, as real processes over stdio. They are in the SDK's
source archive, which pip downloads.
"""

import os
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path

import pytest

from app.tools.config import ServerConfig
from app.tools.consent import ConsentStore
from app.tools.host import ToolHost
from app.tools.tool import ToolResult

pytestmark = pytest.mark.full
pytest.importorskip("mcp")
BEFORE = dict(os.environ)  # tests have no network, but for this
START = "import runpy, sys; runpy.run_path(sys.argv[1])['mcp'].run(**eval(sys.argv[2]))"
CASES = [
    ("echo", "echo_tool", '{"text": "hi"}', "hi"),
    ("simple_echo", "echo", '{"text": "Zürich"}', "Zürich"),
    ("readme-quickstart", "sum", '{"a": 2, "b": 40}', "42"),
    ("parameter_descriptions", "greet_user", '{"name": "Ann"}', "Ann"),
    ("unicode_example", "hello_unicode", "{}", "世界"),
]  # fmt: skip


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdk")
    name = f"mcp=={version('mcp')}"
    words = ["download", "-q", "--no-deps", "--no-binary", ":all:", "-d", str(folder)]
    try:
        subprocess.run(
            [sys.executable, "-m", "pip", *words, name], env=BEFORE, timeout=60, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip("the SDK's source archive cannot be downloaded in a minute")
    archives = list(folder.glob("*.tar.gz"))
    if not archives:
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
