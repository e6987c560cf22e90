"""The SDK's own example servers, unmodified, as real processes: ten behaviours over stdio, five
over streamable HTTP. They are in the SDK's source archive, which pip downloads.
"""

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path

import pytest

from app.tools.config import BadTools, ServerConfig
from app.tools.consent import ConsentStore
from app.tools.host import ToolHost
from app.tools.results import MOST_BYTES
from app.tools.tool import KnownTool, ToolResult
from tests.app.helpers.server import Page, Server
from tests.app.tools.conftest import free_port, listens, until
from tests.line.later import need

pytestmark = pytest.mark.full
need("mcp")
BEFORE = dict(os.environ)  # tests have no network, but for this
START = "import runpy, sys; runpy.run_path(sys.argv[1])['mcp'].run()"
WEATHER = ("temperature", "conditions", "humidity", "wind_speed", "timestamp")


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
    return next(folder.glob("mcp-*/examples"))


class Example:
    """One of the servers, with consent for each of its calls."""

    def __init__(self, host: ToolHost, config: ServerConfig) -> None:
        self.host, self.consent = host, ConsentStore()
        listed = host.tools(self.consent.allow_server(config)).result(60)
        self.tools: dict[str, KnownTool] = {tool.name: tool for tool in listed}

    def call(self, name: str, /, **arguments: object) -> ToolResult:
        (result,) = self.together(name, [arguments])
        return result

    def together(self, name: str, each: Sequence[dict[str, object]]) -> list[ToolResult]:
        """Calls that are under way at the same time."""
        permits = [
            self.consent.decide(self.tools[name], json.dumps(one), 1, "once") for one in each
        ]
        futures = [self.host.call(permit) for permit in permits if permit is not None]
        return [future.result(60) for future in futures]


@pytest.fixture
def stdio(host: ToolHost, examples: Path) -> Callable[..., Example]:
    """Start one: a module of a folder, or a script that has its server in `mcp`."""

    def start(module: str, folder: str = "") -> Example:
        words: tuple[str, ...] = ("-m", module)
        if module.endswith(".py"):
            words = ("-c", START, str(examples / module))
        env = (("PYTHONPATH", str(examples / folder)),)
        return Example(host, ServerConfig("example", sys.executable, words, env))

    return start


class TestOverStdio:
    @pytest.mark.parametrize(
        ("script", "tool", "arguments", "result"),
        [
            ("echo", "echo_tool", {"text": "hi"}, "hi"),
            ("simple_echo", "echo", {"text": "Zürich"}, "Zürich"),
            ("readme-quickstart", "sum", {"a": 2, "b": 40}, "42"),
            ("parameter_descriptions", "greet_user", {"name": "Ann"}, "Ann"),
            ("unicode_example", "hello_unicode", {}, "世界"),
        ],
    )
    def test_1_a_script_answers(
        self,
        stdio: Callable[..., Example],
        script: str,
        tool: str,
        arguments: dict[str, object],
        result: str,
    ) -> None:
        made = stdio(f"mcpserver/{script}.py").call(tool, **arguments)
        assert not made.failed, made
        assert result in made.text

    def test_2_nested_arguments_are_checked_before_they_are_sent(
        self, stdio: Callable[..., Example]
    ) -> None:
        tank = stdio("mcpserver/complex_inputs.py")
        named = tank.call("name_shrimp", tank={"shrimp": [{"name": "Ed"}]}, extra_names=["Al"])
        assert named.text.split() == ["Ed", "Al"]
        long = tank.call("name_shrimp", tank={"shrimp": [{"name": "x" * 11}]}, extra_names=[])
        assert "tank/shrimp/0/name" in long.text

    def test_3_structured_content_is_text(self, stdio: Callable[..., Example]) -> None:
        server = stdio("stories.tools.server")
        made = server.call("calc", op="mul", a=6, b=7)
        assert json.loads(made.text) == {"op": "mul", "result": 42.0}
        assert "'pow' is not one of" in server.call("calc", op="pow", a=6, b=7).text
        folder = "servers/structured-output-lowlevel"
        weather = stdio("mcp_structured_output_lowlevel", folder).call("get_weather", city="Oslo")
        assert sorted(json.loads(weather.text)) == sorted(WEATHER)

    def test_4_both_kinds_of_errors_are_results(self, stdio: Callable[..., Example]) -> None:
        server = stdio("stories.error_handling.server")
        assert server.call("divide", a=1, b=4).text == "0.25"
        for made, why in (
            (server.call("divide", a=1, b=0), "cannot divide by zero"),
            (server.call("restricted"), "this tool is gated"),
        ):
            assert made.failed
            assert why in made.text

    def test_5_tools_come_in_pages(self, stdio: Callable[..., Example]) -> None:
        server = stdio("mcp_simple_pagination", "servers/simple-pagination")
        assert list(server.tools) == [f"tool_{n}" for n in range(1, 26)]
        assert "tool_25" in server.call("tool_25", input="x").text

    def test_6_progress_and_logs_do_not_disturb(self, stdio: Callable[..., Example]) -> None:
        made = stdio("stories.streaming.server").call("countdown", steps=30)
        assert json.loads(made.text) == {"completed": 30, "total": 30}

    def test_7_calls_run_at_the_same_time(self, stdio: Callable[..., Example]) -> None:
        party = ["a", "b", "c"]
        calls: list[dict[str, object]] = [{"tag": tag, "party": party} for tag in party]
        made = stdio("stories.parallel_calls.server").together("meet", calls)
        assert [one.text for one in made] == party

    def test_8_what_is_not_announced_is_not_answered(self, stdio: Callable[..., Example]) -> None:
        """Neither the model nor the person answers a server's questions."""
        for story, tool, arguments in (
            ("sampling", "summarize", {"text": "long"}),
            ("legacy_elicitation", "register_user", {}),
        ):
            made = stdio(f"stories.{story}.server").call(tool, **arguments)
            assert made.failed, made

    def test_9_what_a_server_keeps_while_it_runs(self, stdio: Callable[..., Example]) -> None:
        server = stdio("stories.lifespan.server")
        assert [server.call("lookup", key=key).text for key in ("alpha", "beta")] == ["one", "two"]
        assert server.call("lookup", key="gamma").failed

    def test_10_a_tool_that_reads_an_address(
        self, stdio: Callable[..., Example], server: Server
    ) -> None:
        server.pages["/page"] = Page(b"The page's text.")
        fetch = stdio("mcp_simple_tool", "servers/simple-tool")
        assert fetch.call("fetch", url=f"{server.url}/page").text == "The page's text."
        assert "404" in fetch.call("fetch", url=f"{server.url}/gone").text
        assert "'url' is a required property" in fetch.call("fetch").text


@pytest.fixture
def over_http(
    host: ToolHost, examples: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Example]]:
    """Start one on a free port and connect to it."""
    monkeypatch.setenv("EXAMPLE_TOKEN", "demo-token")
    processes = []

    def start(module: str, folder: str = "", words: Sequence[str] = (), token: str = "") -> Example:
        port = free_port()
        processes.append(
            subprocess.Popen(
                [sys.executable, "-m", module, *words, "--port", str(port)],
                env=os.environ | {"PYTHONPATH": str(examples / folder)},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )
        until(partial(listens, port))
        headers = (("Authorization", token),) if token else ()
        return Example(
            host, ServerConfig("web", url=f"http://127.0.0.1:{port}/mcp", headers=headers)
        )

    yield start
    for process in processes:
        process.kill()
        process.wait()


class TestOverHttp:
    def test_1_everything(self, over_http: Callable[..., Example]) -> None:
        server = over_http("mcp_everything_server", "servers/everything-server")
        assert "simple text" in server.call("test_simple_text").text
        (picture,) = server.call("test_image_content").pictures
        assert picture.startswith(b"\x89PNG")
        assert server.call("test_audio_content").text == "[audio left out]"
        assert "embedded resource" in server.call("test_embedded_resource").text
        assert "intentionally returns an error" in server.call("test_error_handling").text
        assert not server.call("test_tool_with_progress").failed
        assert len(server.call("test_multiple_content_types").text) < MOST_BYTES

    @pytest.mark.parametrize("folder", ["simple-streamablehttp", "simple-streamablehttp-stateless"])
    def test_2_a_stream_of_notifications(
        self, over_http: Callable[..., Example], folder: str
    ) -> None:
        server = over_http(f"mcp_{folder.replace('-', '_')}", f"servers/{folder}")
        made = server.call("start-notification-stream", interval=0.01, count=20, caller="me")
        assert made.text == "Sent 20 notifications with 0.01s interval for caller: me"

    def test_3_json_without_a_stream(self, over_http: Callable[..., Example]) -> None:
        assert over_http("stories.json_response.server").call("greet", name="Ann").text == (
            "Hello, Ann!"
        )

    def test_4_a_token_of_the_environment(self, over_http: Callable[..., Example]) -> None:
        words = "stories.bearer_auth.server"
        made = over_http(words, token="Bearer ${env:EXAMPLE_TOKEN}").call("whoami")
        assert json.loads(made.text)["subject"] == "demo-user"
        for token in ("", "Bearer wrong"):
            with pytest.raises(BadTools, match="needs a sign-in"):
                over_http(words, token=token)

    def test_5_the_newest_protocol(self, over_http: Callable[..., Example]) -> None:
        made = over_http("stories.dual_era.server", words=["--http"]).call("greet", name="Ann")
        assert "modern era at 2026" in made.text
