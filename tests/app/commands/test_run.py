"""`cutaway run` as a person or a program calls it, with the engine it really starts."""

import json
import math
import signal
import subprocess
import sys
import time
from pathlib import Path
from shutil import copy

import gguf
import pytest

from app import cli
from app.library import resolve
from tests.app.helpers.server import Server
from tests.goldens.tiny import write_tiny
from tests.in_process import run_here
from tests.program import (
    ENDLESS,
    PATIENCE,
    REPEATS,
    ROOT,
    RUN,
    Terminal,
    assert_ends,
    assert_one_line_error,
    engine_of,
    run,
)

pytestmark = pytest.mark.usefixtures("nothing_left")
QUESTION = "What is the capital of France?"
GREEDY = ("--temp", "0")
HOST = ("--device", "host")


@pytest.fixture(scope="module")
def smol(smollm2_path: Path) -> str:
    """The small real model, as an argument."""
    return str(smollm2_path)


@pytest.fixture(scope="module")
def tiny(tiny_path: Path) -> str:
    """A random model on the host, as an argument."""
    return str(tiny_path)


@pytest.fixture
def paris(smol: str) -> str:
    """What SmolLM2 prints for QUESTION."""
    ended = run_here("run", smol, "-p", QUESTION, *GREEDY)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


@pytest.mark.parametrize(
    "device",
    [HOST, pytest.param((), marks=[pytest.mark.device, pytest.mark.full])],
    ids=["host", "kernels"],
)
def test_a_home_in_which_nothing_can_be_written(
    tiny_path: Path, monkeypatch: pytest.MonkeyPatch, device: tuple[str, ...]
) -> None:
    """Caches of ours and of libraries cost time alone where they cannot be kept."""
    nowhere = "/proc/nowhere"
    places = [f"XDG_{name}_HOME" for name in ("CACHE", "CONFIG", "DATA", "STATE")]
    for name in (*places, "HOME", "CUTAWAY_CACHE", "HF_HOME"):
        monkeypatch.setenv(name, f"{nowhere}/{name}")
    ended = run("run", str(tiny_path), "-p", "a", *GREEDY, "--max-tokens", "2", *device)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.strip()


@pytest.mark.model_file
@pytest.mark.device
class TestSmolLM2:
    """A real model on the default device."""

    def test_a_sentence_with_paris(self, paris: str) -> None:
        assert "Paris" in paris
        assert paris.endswith("\n")
        assert not paris.endswith("\n\n")

    @pytest.mark.full
    def test_paris_from_a_cache_of_blocks(self, smol: str) -> None:
        ended = run("run", smol, "-p", QUESTION, *GREEDY, "--kv", "q8_0")
        assert (ended.returncode, ended.stderr) == (0, "")
        assert "Paris" in ended.stdout

    @pytest.mark.full
    def test_stdin(self, smol: str, paris: str) -> None:
        ended = run("run", smol, *GREEDY, given=f"{QUESTION}\n")
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, paris, "")

    @pytest.mark.full
    def test_json_with_logprobs(self, smol: str, paris: str) -> None:
        ended = run("run", smol, "-p", QUESTION, *GREEDY, "--json", "--logprobs", "4")
        assert (ended.returncode, ended.stderr) == (0, "")
        answer = json.loads(ended.stdout)
        assert answer["text"] + "\n" == paris
        assert answer["finish_reason"] == "stop"
        assert answer["path"] == smol
        assert answer["device"] != "host"
        assert "".join(token["text"] for token in answer["tokens"]) == answer["text"]
        for token in answer["tokens"]:
            logprobs = [other["logprob"] for other in token["top"]]
            assert len(logprobs) == 4
            assert logprobs == sorted(logprobs, reverse=True)
            assert sum(map(math.exp, logprobs)) <= 1 + 1e-6
            assert token["top"][0]["token"] == token["token"]  # greedy
            assert token["logprob"] == logprobs[0]
        stats = answer["stats"]
        assert stats["n_generated"] == len(answer["tokens"]) + 1  # and the one that ends it
        assert stats["n_context"] == stats["n_prompt"] + stats["n_generated"] - 1
        assert stats["decode_rate"] > 0

    @pytest.mark.full
    def test_a_stop_string_over_tokens_is_never_shown(self, smol: str, paris: str) -> None:
        at = paris.index("Paris")
        stop = paris[at - 3 : at + 3]  # the end of a word, a space, and half of the next
        ended = run("run", smol, "-p", QUESTION, *GREEDY, "--stop", "never", "--stop", stop)
        assert ended.stdout == paris[: at - 3] + "\n"

    @pytest.mark.full
    def test_the_context_shifts(self, smol: str) -> None:
        words = ("-p", "Tell a long story.", *ENDLESS[:-1], "150", "--ctx", "64")
        answer = json.loads(run("run", smol, *words, "--json").stdout)
        assert answer["finish_reason"] == "length"
        assert len(answer["tokens"]) == 150
        assert answer["stats"]["n_shifts"] >= 2
        assert answer["stats"]["n_forgotten"] > 0
        assert answer["stats"]["n_context"] <= 64

    def test_a_chat_remembers(self, smol: str) -> None:
        with Terminal("run", smol, *GREEDY, "--max-tokens", "24") as terminal:
            terminal.expect("/help")
            terminal.expect("> ")
            terminal.send(f"{QUESTION}\n")
            assert "Paris" in terminal.expect(" t/s · ")
            assert "(0 kept)" in terminal.expect("seed")
            terminal.expect("> ")
            terminal.send("Say its name once more.\n")
            assert "Paris" in terminal.expect(" t/s · ")
            statistics = terminal.expect("seed")
            assert "(0 kept)" not in statistics
            terminal.expect("> ")
            terminal.send("/exit\n")
            assert terminal.wait() == 0


def start(*words: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [*RUN, *words],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    )


def read_some(child: "subprocess.Popen[bytes]") -> bytes:
    assert child.stdout is not None
    first = child.stdout.read(1)
    assert first, child.communicate()
    return first


def test_equal_seeds_answer_equally(tiny: str) -> None:
    words = ("run", tiny, *HOST, "-p", "a", "--temp", "1.5", "--max-tokens", "20", "--json")
    one, two, three = (
        json.loads(run_here(*words, "--seed", seed).stdout) for seed in ("7", "7", str(2**64 - 1))
    )
    assert one["tokens"] == two["tokens"]
    assert one["tokens"] != three["tokens"]
    assert [answer["stats"]["seed"] for answer in (one, two, three)] == [7, 7, 2**64 - 1]


def test_without_a_seed_two_answers_differ_and_tell_theirs(tiny: str) -> None:
    words = ("run", tiny, *HOST, "-p", "a", "--temp", "1.5", "--max-tokens", "20", "--json")
    one, two = (json.loads(run_here(*words).stdout) for _ in range(2))
    assert one["tokens"] != two["tokens"]
    again = json.loads(run_here(*words, "--seed", str(one["stats"]["seed"])).stdout)
    assert one["tokens"] == again["tokens"]


def test_logprobs_as_a_table(tiny: str) -> None:
    words = ("-p", "a", "--max-tokens", "5", "--logprobs", "2")
    ended = run("run", tiny, *HOST, *GREEDY, *words)
    *_, head, first, second, third, fourth, fifth = ended.stdout.splitlines()
    assert head.split() == ["token", "logprob", "text;", "alternatives"]
    for line in (first, second, third, fourth, fifth):
        assert float(line.split()[1]) <= 0
        assert line.count(" -") == 3  # itself, and two that could have come


def test_what_a_full_context_does(tiny: str) -> None:
    words = ("run", tiny, *HOST, *GREEDY, "-p", "a", "--ctx", "64", "--max-tokens", "200")
    stopped = run_here(*words, "--json")
    assert "context of 64 tokens is full" in stopped.stderr
    answer = json.loads(stopped.stdout)
    assert answer["finish_reason"] == "context"
    assert answer["stats"]["n_context"] == 64
    long = "a " * 300
    assert_one_line_error(run_here(*words, "-p", long), "context of 64", "--ctx")
    cut = run_here(*words, "-p", long, "--when-full", "shift")
    assert cut.returncode == 0
    assert "tokens of the prompt did not fit" in cut.stderr


def test_an_answer_that_repeats_itself_ends(tiny: str) -> None:
    """A penalty below 0 makes the token before the likeliest for ever."""
    again = (*GREEDY, "--frequency-penalty=-100", "--json")
    ended = run_here("run", tiny, *HOST, "-p", "a", "--ctx", "256", *again)
    answer = json.loads(ended.stdout)
    assert answer["finish_reason"] == "loop"
    assert answer["stats"]["n_generated"] <= 128
    assert "kept repeating itself; try --repeat-penalty 1.1" in ended.stderr


def test_one_answer_is_bounded(tiny: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.commands.run.MOST_TOKENS", 7)
    ended = run_here("run", tiny, *HOST, "-p", "a", "--temp", "50", "--seed", "1", "--json")
    answer = json.loads(ended.stdout)
    assert (answer["finish_reason"], answer["stats"]["n_generated"]) == ("length", 7)
    assert "stopped after 7 tokens; --max-tokens N allows more" in ended.stderr
    asked = run_here("run", tiny, *HOST, "-p", "a", *GREEDY, "--json", "--max-tokens", "3")
    assert "allows more" not in asked.stderr


def test_the_files_own_sampling_and_where_each_value_comes_from(tmp_path: Path) -> None:
    keys = {f"general.sampling.{name}": value for name, value in (("temp", 0.6), ("top_p", 0.95))}
    float32 = gguf.GGUFValueType.FLOAT32
    path = write_tiny(
        tmp_path / "a.gguf", "llama", metadata={k: (v, float32) for k, v in keys.items()}
    )
    words = ("run", str(path), *HOST, "-p", "a", "--max-tokens", "2", "--json")
    found = json.loads(run_here(*words).stdout)["sampling"]
    assert found["temperature"] == {"value": 0.6, "origin": "file"}
    assert found["top_p"] == {"value": 0.95, "origin": "file"}
    assert found["min_p"] == {"value": 0.05, "origin": "program"}
    mine = json.loads(run_here(*words, "--temp", "0").stdout)["sampling"]
    assert mine["temperature"] == {"value": 0.0, "origin": "yours"}
    plain = json.loads(run_here(*words, "--no-suggested").stdout)["sampling"]
    assert {value["origin"] for value in plain.values()} == {"program"}


def test_a_base_model_continues_and_says_so(tiny_base_path: Path) -> None:
    ended = run_here("run", str(tiny_base_path), *HOST, "-p", "the", "--max-tokens", "3", "--json")
    assert ended.stderr.count("no chat template") == 1
    ids = json.loads(run_here("tokenize", str(tiny_base_path), "--text", "the", "--json").stdout)
    assert json.loads(ended.stdout)["stats"]["n_prompt"] == len(ids)


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("--temp", "nan"), ("temperature", "nan")),
        (("--temp", "hot"), ("--temp", "hot", "cutaway run --help")),
        (("--top-p", "2"), ("top_p", "2", "from 0 to 1")),
        (("--min-p", "-0.1"), ("min_p",)),
        (("--top-k", "-1"), ("--top-k",)),
        (("--repeat-penalty", "0"), ("repeat_penalty",)),
        (("--seed", "-1"), ("seed", "2^64")),
        (("--ctx", "0"), ("--ctx",)),
        (("--ctx", "9" * 30), ("--ctx",)),
        (("--max-tokens", "1.5"), ("--max-tokens",)),
        (("--logprobs", "1000"), ("logprobs", "256")),
        (("--when-full", "explode"), ("--when-full",)),
        (("--device", "nvidia:9"), ("nvidia:9",)),
        (("--kv", "q1"), ("--kv",)),
        (("-p", " \n"), ("prompt", "after MODEL, with -p")),
        (("-p", "\udcff"), ("prompt", "UTF-8")),
        (("b",), ("-p", "one prompt")),
        (("b", "c"), ("c", "cutaway run --help")),
        (("--stop", "\udcff"), ("--stop", "UTF-8")),
    ],
)
def test_bad_requests(
    tiny: str, words: tuple[str, ...], parts: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    status = cli.main(["run", tiny, "-p", "a", *words])
    ended = subprocess.CompletedProcess(words, status, *capsys.readouterr())
    assert_one_line_error(ended, *parts, status=status or 1)
    assert status in (1, 2)


def test_a_prompt_after_the_model_and_options(tiny: str) -> None:
    options = ("--temp", "0", "-n", "5")
    plain = run_here("run", tiny, "-p", "a b", *options)
    assert plain.returncode == 0
    assert plain.stdout.strip()
    for words in ((tiny, *options, "a b"), (*options, tiny, "a b"), (tiny, "a b", *options)):
        assert run_here("run", *words).stdout == plain.stdout


def test_bad_stdin(tiny: str) -> None:
    assert_one_line_error(run_here("run", tiny, given=b"caf\xe9"), "stdin", "UTF-8")
    assert_one_line_error(run_here("run", tiny), "prompt", "stdin")


def test_a_json_error(tiny: str) -> None:
    ended = run_here("run", tiny, "-p", "a", "--device", "nvidia:9", "--json")
    assert (ended.returncode, ended.stderr) == (1, "")
    assert json.loads(ended.stdout)["error"]["kind"] == "DeviceError"


def test_the_engine_is_killed_while_it_answers(tiny: str) -> None:
    child = start("run", tiny, *HOST, "-p", REPEATS, *ENDLESS)
    read_some(child)
    engine_of(child.pid).kill()
    out, err = child.communicate(timeout=PATIENCE)
    assert child.returncode == 1
    assert out.endswith(b"\n")
    *notes, last = err.decode().splitlines()
    assert last.startswith("cutaway: error: the engine stopped: it was killed (signal 9)")
    assert all("host reference" in note for note in notes)


def test_the_program_is_killed_while_it_answers(tiny: str) -> None:
    child = start("run", tiny, *HOST, "-p", REPEATS, *ENDLESS)
    read_some(child)
    engine = engine_of(child.pid)
    child.kill()
    child.communicate(timeout=PATIENCE)
    assert_ends(engine)


def test_ctrl_c_stops_an_answer_without_end(tiny: str) -> None:
    child = start("run", tiny, *HOST, "-p", REPEATS, *ENDLESS)
    first = read_some(child)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=PATIENCE)
    assert child.returncode == 130
    assert (first + out).endswith(b"\n")
    assert all("host reference" in line for line in err.decode().splitlines())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("has_loaded", [False, True])
def test_ctrl_c_before_there_is_an_answer(tiny: str, has_loaded: bool) -> None:
    """Wherever it hits: while the engine starts, or with the model's file open there."""
    with Terminal("run", tiny, "-p", REPEATS, *ENDLESS) as terminal:
        engine = engine_of(terminal.process.pid)
        mapped = Path(f"/proc/{engine.pid}/maps")
        while has_loaded and tiny not in mapped.read_text():
            time.sleep(0.01)
        terminal.send("\x03")
        assert terminal.wait() == 130
        terminal.expect("^C")
        terminal.expect("\n")


def test_a_reader_that_has_enough(tiny: str) -> None:
    child = start("run", tiny, *HOST, "-p", REPEATS, *ENDLESS)
    read_some(child)
    assert child.stdout is not None
    child.stdout.close()
    assert child.wait(PATIENCE) == 141
    assert child.stderr is not None
    assert b"error" not in child.stderr.read()
    child.stderr.close()


def test_no_model_on_this_disk(own_home: Path) -> None:
    for words in ((), ("smollm2-135m",)):
        ended = run_here("run", *words, "-p", "a")
        assert_one_line_error(ended, "on this disk", "`cutaway get smollm2-135m`")


@pytest.mark.parametrize(("key", "message"), [("n", "cutaway get"), ("y", "is not available")])
def test_a_terminal_is_offered_the_default_model(server: Server, key: str, message: str) -> None:
    with Terminal("run") as terminal:
        offer = terminal.expect("[y/N]")
        assert "94 MiB, Apache-2.0" in offer
        terminal.send(f"{key}\n")
        terminal.expect(message)
        assert terminal.wait() == 1


def test_the_first_stored_model_is_the_default(own_home: Path, tiny: str) -> None:
    folder = own_home / "data" / "cutaway" / "models"
    folder.mkdir(parents=True)
    (folder / "a-broken.gguf").write_bytes(b"GGUF")
    copy(tiny, folder / "b-tiny.gguf")
    ended = run_here("run", *HOST, "-p", "a", "--max-tokens", "1", "--json")
    assert json.loads(ended.stdout)["path"] == str(resolve(folder / "b-tiny.gguf"))


def test_only_the_engine_needs_pyopencl() -> None:
    """Every command can be imported, and answers --help, where pyopencl cannot."""
    code = (
        "import sys; sys.modules['pyopencl'] = None\n"
        "from app import cli; import app.terminal.chat, app.terminal.engine\n"
        "sys.exit(any(cli.main([module.NAME, '--help']) for module in cli.commands()))"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_an_answer_of_a_form(tiny: str, tmp_path: Path) -> None:
    ended = run_here("run", tiny, *HOST, "-p", "abcd", "--regex", "[ab]{3}c")
    assert (ended.returncode, len(ended.stdout.strip())) == (0, 4)
    assert set(ended.stdout.strip()) <= set("abc")
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "array", "items": {"enum": [1, 2]}, "minItems": 2, "maxItems": 3}')
    ended = run_here("run", tiny, *HOST, "-p", "abcd", "--json-schema", str(schema))
    assert set(json.loads(ended.stdout)) <= {1, 2}
    grammar = tmp_path / "yes.gbnf"
    grammar.write_text('root ::= "yes" | "no"')
    ended = run_here("run", tiny, *HOST, "-p", "abcd", "--grammar", str(grammar))
    assert ended.stdout.strip() in ("yes", "no")


def test_a_form_that_cannot_be(tiny: str, tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"uniqueItems": true}')
    ended = run_here("run", tiny, *HOST, "-p", "abcd", "--json-schema", str(schema))
    assert_one_line_error(ended, "uniqueItems")
    missing = run_here("run", tiny, *HOST, "-p", "abcd", "--json-schema", str(tmp_path / "none"))
    assert_one_line_error(missing, "--json-schema")
    schema.write_bytes(b"\xff")
    assert_one_line_error(run_here("run", tiny, "-p", "a", "--grammar", str(schema)), "UTF-8")
    schema.write_bytes(b" " * 300_000)
    assert_one_line_error(run_here("run", tiny, "-p", "a", "--grammar", str(schema)), "262144")


def test_the_middle_of_a_text(tiny: str, tmp_path: Path) -> None:
    """What `--suffix` has written stands between both; a chat's tokens are not there."""
    marks = {"fim_pre": 4, "fim_suf": 5, "fim_mid": 6}
    kind = gguf.GGUFValueType.UINT32
    keys = {f"tokenizer.ggml.{name}_token_id": (token, kind) for name, token in marks.items()}
    path = write_tiny(tmp_path / "fim.gguf", "llama", metadata=keys)
    words = (*HOST, *GREEDY, "--max-tokens", "4", "-p", "q", "--suffix", "xy")
    found = json.loads(run_here("run", str(path), *words, "--json").stdout)
    assert found["stats"]["n_prompt"] == len("q") + len("xy") + 3
    assert run_here("run", str(path), *words).stdout.strip() == found["text"].strip()
    assert_one_line_error(run_here("run", tiny, *words), "no token for prefix, suffix, middle")
    assert_one_line_error(run_here("run", tiny, *words, "--system", "a"), "--suffix")
