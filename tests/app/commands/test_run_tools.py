"""`cutaway run` with tools: a model that is held to a call, real servers, consent on a terminal."""

import json
import sys
from contextlib import closing
from pathlib import Path

import gguf
import pytest

from app.terminal.engine import Interrupt
from app.terminal.tools import TerminalTools
from app.tools.calling import MOST_ROUNDS
from app.tools.config import read_servers
from app.tools.consent import ConsentStore
from engine.protocol import ToolCall
from tests.app.tools.conftest import RUDE, until
from tests.goldens.tiny import write_tiny
from tests.in_process import run_here
from tests.program import Terminal

pytestmark = pytest.mark.usefixtures("nothing_left")
HERMES = (
    "{% for t in tools %}{{ t|tojson }}{% endfor %}"
    "{% for m in messages %}{{ m.role }}: {{ m.content }}"
    "{% for c in m.tool_calls %}<tool_call>\n{{ c.function|tojson }}\n</tool_call>{% endfor %}\n"
    "{% endfor %}{# <think> </think> #}"
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A random model whose template knows tools."""
    chat = {
        "tokenizer.chat_template": (HERMES, gguf.GGUFValueType.STRING),
        "llama.context_length": (16384, gguf.GGUFValueType.UINT32),
    }
    return str(write_tiny(tmp_path_factory.mktemp("m") / "tiny.gguf", "llama", metadata=chat))


@pytest.fixture(autouse=True)
def own_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "cutaway" / "tools.json"


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    return tmp_path / "calls"


@pytest.fixture
def mcp(tmp_path: Path, calls: Path) -> str:
    """A file that names the rude server."""
    pytest.importorskip("mcp")
    server = {"command": sys.executable, "args": ["-S", str(RUDE)], "env": {"CALLS": str(calls)}}
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"rude": server}}))
    return str(path)


def says(folder: Path, name: str, arguments: str = "{}") -> tuple[str, ...]:
    """Options that hold the model to one call."""
    text = f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'
    grammar = folder / "call.lark"
    grammar.write_text("start: " + " ".join(map(json.dumps, text)))
    return ("--grammar", str(grammar), "-p", "Hi", "--device", "host", "--temp", "0")


def test_a_built_in_tool_in_rounds(model: str, tmp_path: Path) -> None:
    """A model that calls without end is stopped."""
    options = says(tmp_path, "calculator", '{"expression": "6*7"}')
    ended = run_here("run", model, *options, "--tool", "calculator", "--json")
    assert ended.returncode == 0, ended
    told = json.loads(ended.stdout)
    assert [use["result"] for use in told["calls"]] == ["42"] * MOST_ROUNDS
    assert f"tools were called {MOST_ROUNDS} times in a row" in ended.stderr
    assert told["finish_reason"] == "stop"


@pytest.fixture
def two_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.terminal.tools.MOST_ROUNDS", 2)


@pytest.mark.usefixtures("two_rounds")
def test_no_server_starts_without_a_terminal(
    model: str, mcp: str, calls: Path, tmp_path: Path
) -> None:
    ended = run_here("run", model, *says(tmp_path, "rude__ok"), "--mcp", mcp, "--json")
    assert "server rude is not started: it was not allowed to run" in ended.stderr
    assert json.loads(ended.stdout)["calls"] == []
    assert not calls.exists()


@pytest.mark.usefixtures("two_rounds")
def test_an_allowed_tool_runs(model: str, mcp: str, calls: Path, tmp_path: Path) -> None:
    words = (*says(tmp_path, "rude__ok"), "--mcp", mcp, "--allow", "rude__ok", "--json")
    told = json.loads(run_here("run", model, *words).stdout)
    assert [(use["state"], use["result"]) for use in told["calls"]] == [("done", "done")] * 2
    assert calls.read_text() == "ok\n" * 2


@pytest.mark.parametrize("allow", ["rude__o", "rude__*", "rude__", "rude__OK", "rude__ok ", "rude"])
def test_an_allowance_is_for_the_whole_name(mcp: str, calls: Path, allow: str) -> None:
    store = ConsentStore()
    tools = TerminalTools([], [mcp], [allow], store)
    with closing(tools):
        tools.start()
        use, _ = tools.call(ToolCall("1", "rude__ok", "{}"), Interrupt())
    assert (use.state, use.result) == ("denied", "error: the user has denied this call")
    assert not calls.exists()
    # The server ran for its named tool, and needs a new consent the next time.
    assert store.may_start(read_servers(Path(mcp))[0]) is None


def test_a_stopped_call_ends_at_once(mcp: str, calls: Path) -> None:
    tools = TerminalTools([], [mcp], ["rude__hangs"], ConsentStore())
    with closing(tools):
        tools.start()
        interrupt = Interrupt()
        interrupt.interrupted = True
        use, _ = tools.call(ToolCall("1", "rude__hangs", "{}"), interrupt)
    assert use.state == "stopped"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--tool", "shell"), "calculator, current_time, read_attachment"),
        (("--allow", "x__y"), "SERVER__TOOL of a server of --mcp"),
        (("--mcp", "{folder}"), "cannot be read"),
    ],
)
def test_refused_before_a_model_is_opened(tmp_path: Path, words: tuple[str, ...], why: str) -> None:
    named = [word.replace("{folder}", str(tmp_path)) for word in words]
    ended = run_here("run", "/no/such/model.gguf", "-p", "Hi", *named)
    assert ended.returncode == 1
    assert why in ended.stderr


def test_consent_on_a_terminal(model: str, mcp: str, calls: Path, tmp_path: Path) -> None:
    """Enter is no, for a server and for a call; the command and the arguments are shown whole."""
    words = ("run", model, *says(tmp_path, "rude__ok", '{"a": 1}'), "--mcp", mcp)
    with Terminal(*words) as terminal:
        shown = terminal.expect("Run it? [y/N] ")
        assert str(RUDE) in shown
        assert f"CALLS={calls}" in shown
        terminal.send("\n")
        terminal.expect("was not allowed to run")
        terminal.wait()
    with Terminal(*words) as terminal:
        terminal.expect("Run it? [y/N] ")
        terminal.send("y\n")
        shown = terminal.expect("Allow it? [o]nce, [c]hat: every call in this chat, [N]o ")
        assert "calls rude__ok of the server rude:" in shown
        assert '{"a": 1}' in shown
        terminal.send("\n")
        terminal.expect("was not allowed")
        terminal.expect("Allow it?")
        assert not calls.exists()
        terminal.send("o\n")
        terminal.expect("Allow it?")
        assert calls.read_text() == "ok\n"
        terminal.send("c\n")
        until(lambda: calls.read_text().count("ok") > 2)
