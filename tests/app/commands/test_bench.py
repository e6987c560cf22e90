"""`cutaway bench` as a person or a program calls it, with the engine it really starts."""

import json
import signal
import statistics
import subprocess
import time
from pathlib import Path

import psutil
import pytest
from gguf import GGMLQuantizationType as Kind
from PIL import Image

from app.bench.loads import LoadComparison, TimedLoad
from app.bench.printing import load_lines
from engine.errors import BadSetting
from engine.protocol import LoadCost
from engine.settings import EngineOptions
from engine.system import Usage
from tests.goldens.vision.families import write_pair
from tests.in_process import run_here
from tests.program import PATIENCE, ROOT, RUN, assert_one_line_error, engine_of, run

pytestmark = pytest.mark.usefixtures("nothing_left")
HOST = ("--device", "host")
# llama-bench's keys for a row, as far as they mean something here.
KEYS = {
    *("build_commit", "model_filename", "model_type", "model_size", "model_n_params", "backends"),
    *("n_threads", "type_k", "type_v", "flash_attn", "n_prompt", "n_gen", "n_depth", "test_time"),
    *("avg_ns", "stddev_ns", "avg_ts", "stddev_ts", "samples_ns", "samples_ts"),
}


@pytest.fixture(scope="module")
def tiny(tiny_path: Path) -> str:
    """A random model, as an argument."""
    return str(tiny_path)


def bench(*words: str) -> dict:
    ended = run_here("bench", *words, "--json")
    assert (ended.returncode, ended.stderr) == (0, "")
    return json.loads(ended.stdout)


def test_tests_in_llama_benchs_convention(tiny: str) -> None:
    words = ("-p", "12,3", "-n", "4,0", "-pg", "5,2", "-d", "0,20", "-r", "2")
    tests = bench(tiny, *HOST, *words)["tests"]
    once = ["pp12", "pp3", "tg4", "pp5+tg2"]
    assert [test["test"] for test in tests] == once + [f"{name} @ d20" for name in once]
    for test in tests:
        assert set(test) >= KEYS
        assert test["model_filename"] == tiny
        assert test["backends"] == "host"
        assert test["n_ctx"] >= 20 + 12
        n = test["n_prompt"] + test["n_gen"]
        assert test["samples_ts"] == [n * 1e9 / ns for ns in test["samples_ns"]]
        assert len(test["samples_ns"]) == 2
        assert test["avg_ts"] == statistics.mean(test["samples_ts"])
        assert test["stddev_ts"] == statistics.stdev(test["samples_ts"])
        assert test["median_ts"] == statistics.median(test["samples_ts"])
        assert min(test["samples_ns"]) > 0
        assert max(test["samples_ns"]) < 60e9
    inspected = json.loads(run_here("inspect", tiny, "--json").stdout)
    assert tests[0]["model_n_params"] == inspected["parameters"]
    assert tests[0]["model_size"] == sum(t["bytes"] for t in inspected["types"].values())


@pytest.mark.full
def test_a_picture(tiny: str, tmp_path: Path) -> None:
    model, mmproj = write_pair(tmp_path, "gemma3", Kind.F16)
    picture = tmp_path / "picture.png"
    Image.new("RGB", (40, 30), "red").save(picture)
    seeing = (str(model), "--mmproj", str(mmproj), *HOST, "--image", str(picture), "-r", "2")
    (test,) = bench(*seeing, "-p", "0", "-n", "0")["tests"]
    assert test["n_rows"] > 0
    assert test["test"] == f"img{test['n_rows']}"
    assert test["samples_ts"] == [test["n_rows"] * 1e9 / ns for ns in test["samples_ns"]]
    assert len(test["samples_ns"]) == 2
    tests = bench(*seeing, "-p", "5", "-n", "0")["tests"]
    assert [t["test"] for t in tests] == ["pp5", test["test"]]
    blind = run_here("bench", tiny, *HOST, "--image", str(picture), "-p", "0", "-n", "0")
    assert_one_line_error(blind, "reads text only")
    missing = run_here("bench", *seeing[:-3], "nowhere.png")
    assert_one_line_error(missing, "nowhere.png")


def test_speculation_in_turn(tiny: str, tmp_path: Path) -> None:
    """Of one and of three at once, which continue the text from other places."""
    text = tmp_path / "text.txt"
    text.write_text("the hat is red and " * 4)
    words = ("--spec", str(text), "-n", "8", "-r", "2", "--ctx", "256", "--parallel", "1,3")
    found = bench(tiny, *HOST, *words)["speculation"]
    assert [one["pl"] for one in found] == [1, 3]
    for one in found:
        assert (one["n_gen"], one["parted"], len(one["ratios"])) == (8, None, 2)
        assert one["n_accepted"] <= one["n_drafted"]
        assert one["plain_ts"] > 0 < one["spec_ts"]
    ended = run_here("bench", tiny, *HOST, "--spec", str(tmp_path / "none.txt"), "-n", "8")
    assert ended.returncode
    assert "a readable text file" in ended.stderr


def test_speculation_as_a_table(tiny: str, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the hat is red")
    ended = run_here("bench", tiny, *HOST, "--spec", str(text), "-n", "4", "-r", "1", "--ctx", "64")
    head, rule, row, ratio, same = ended.stdout.splitlines()
    assert head.count("|") == rule.count("|") == row.count("|") == 7
    assert ratio.startswith("1 at once: median ratio ")
    assert same == "the same tokens with and without"


def test_a_table(tiny: str) -> None:
    ended = run("bench", tiny, *HOST, "-p", "0", "-n", "2", "-r", "1")
    assert (ended.returncode, ended.stderr) == (0, "")
    head, rule, row = ended.stdout.splitlines()
    assert head.split(" | ") == [
        *("| model", "size", "params", "backend", "threads", "test", "t/s", "median |")
    ]
    assert row.count("|") == head.count("|") == rule.count("|")
    assert "| tg2 |" in row
    assert " ± 0.00 |" in row  # one repetition deviates from nothing


@pytest.mark.device
def test_a_profile_and_its_trace(tiny: str, tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    words = ("-p", "6", "-n", "2", "-d", "0,9", "-r", "1")
    result = bench(tiny, *words, "--profile", "--trace", str(file))
    profiles = result["profiles"]
    assert [p["test"] for p in profiles] == ["pp6", "pp6 @ d9", "tg1", "tg1 @ d9"]
    assert min(result["roof"].values()) > 0
    for one in profiles:
        parts = ("before_ns", "kernels_ns", "gaps_ns", "after_ns")
        assert sum(one[part] for part in parts) == one["step_ns"]
        assert {cost["by"] for cost in one["costs"]} == {"kernel", "op", "role", "split"}
        assert [split["copies"] for split in one["splits"]] == [1]  # the step's inputs
        numbers = [n for split in one["splits"] for n in split.values() if isinstance(n, int)]
        assert min(numbers) > 0
    trace = json.loads(file.read_text("utf-8"))
    events = trace["traceEvents"]
    named = {e["args"]["name"] for e in events if (e["ph"], e["name"]) == ("M", "process_name")}
    assert named == {p["test"] for p in profiles}
    complete = [e for e in events if e["ph"] == "X"]
    assert len(complete) == sum(len(p["launches"]) + len(p["host"]) for p in profiles)
    for event in complete:
        assert {"name", "cat", "ts", "dur", "pid", "tid", "args"} <= set(event)
        assert event["dur"] >= 0
    threads = {
        (e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"
    }
    device = [e for e in complete if threads[e["pid"], e["tid"]] not in ("step", "host")]
    kernels = sum(e["dur"] for e in device if e["pid"] == 3) * 1e3
    assert kernels == pytest.approx(profiles[2]["kernels_ns"], abs=len(complete))


@pytest.mark.device
def test_a_profile_as_tables(tiny: str) -> None:
    ended = run_here("bench", tiny, "-p", "0", "-n", "1", "-r", "1", "--profile")
    assert (ended.returncode, ended.stderr) == (0, "")
    for part in ("tg1: a step of", "gaps between them", "roof of the device", "matmul", "copy us"):
        assert part in ended.stdout


def test_a_profile_of_the_host_has_no_roof(tiny: str) -> None:
    result = bench(tiny, *HOST, "-p", "0", "-n", "1", "-r", "1", "--profile")
    assert result["roof"] == {"bytes_per_s": 0, "flops_per_s": 0}
    assert result["profiles"][0]["kernels_ns"] > 0


@pytest.mark.parametrize(
    ("words", "parts", "status"),
    [
        (("-p", "0", "-n", "0"), ("-p and -n",), 1),
        (("--against", "llama.cpp", "--kv", "q8_0"), ("--kv", "q8_0", "--against"), 1),
        (("-p", "x"), ("-p", "x"), 2),
        (("-n", "1,,2"), ("-n",), 2),
        (("-pg", "5"), ("-pg", "P,N"), 2),
        (("-r", "0"), ("-r",), 2),
        (("--against", "nobody"), ("--against", "llama.cpp"), 2),
        (("--trace", "no/such/folder/t.json"), ("--trace",), 1),
        (("-p", "64", "--ctx", "32"), ("pp64", "32"), 1),
        (("-n", "1", "-d", "100000"), ("tg1 @ d100000", "256"), 1),
        (("--reopen", "-p", "100000", "--ctx", "64"), ("-p", "at most 62 tokens"), 1),
    ],
)
def test_bad_requests(
    tiny: str, words: tuple[str, ...], parts: tuple[str, ...], status: int
) -> None:
    ended = run_here("bench", tiny, *HOST, "-p", "0", *words)
    assert (ended.returncode, ended.stdout) == (status, "")
    *_, error = ended.stderr.splitlines()
    assert error.startswith("cutaway: error: ")
    for part in parts:
        assert part in error


def test_how_long_opening_takes(tiny: str) -> None:
    load = bench(tiny, *HOST, "--load", "-r", "1")
    assert load["model_filename"] == tiny
    assert load["file_size"] == Path(tiny).stat().st_size
    assert load["samples_ns"] == [load["median_ns"]]
    assert load["s_per_gb"] == pytest.approx(load["median_ns"] / load["file_size"])
    assert load["memory"]["mapped"] > 0
    assert set(load["memory"]) <= {"mapped", "cache", "graph", "input", "staging"}
    assert "ratio" not in load
    (cost,) = load["costs"]
    assert {"opening", "planning", "other"} <= cost["seconds"].keys()
    assert min(cost["seconds"].values()) >= 0
    assert sum(cost["seconds"].values()) == pytest.approx(load["median_ns"] / 1e9)
    assert cost.keys() - {"seconds"} in ({*Usage._fields}, set())


def test_what_the_load_in_the_middle_took() -> None:
    """Where nobody counted faults there is no number of them, least of all 0."""
    seconds = {"opening": 1.0, "first token": 2.0}
    ours = [
        TimedLoad(5_000_000_000, 5, cost=LoadCost(seconds, Usage(1.5, 2.5, 301, 7))),
        TimedLoad(9_000_000_000, 5),
        TimedLoad(4_000_000_000, 5, cost=LoadCost(seconds)),
    ]
    found = LoadComparison(100, ours, []).as_json()
    assert found["costs"][1:] == [{}, {"seconds": {**seconds, "other": 1.0}}]
    facts = {"model_type": "m", "backends": "b"}
    *_, parts, used = load_lines(found | facts)
    assert parts == "  one of 5.00 s: opening 1.000, first token 2.000, other 2.000 s"
    assert "1.50 s in the program, 2.50 s in the system" in used
    assert "faults: 301 minor, 7 major" in used
    for last in ours[1:]:
        lines = list(load_lines(LoadComparison(100, [last], []).as_json() | facts))
        assert "fault" not in " ".join(lines)
        assert ("one of" in lines[-1]) == (last.cost is not None)


def test_loads_are_compared_by_their_medians() -> None:
    ours = [TimedLoad(ns, 5, {"weights": 90}) for ns in (100, 300, 200)]
    found = LoadComparison(100, ours, [TimedLoad(ns, 7) for ns in (400, 900, 600)]).as_json()
    assert (found["median_ns"], found["theirs_median_ns"], found["ratio"]) == (200, 600, 3.0)
    assert (found["ratios"], found["s_per_gb"]) == ([4.0, 3.0, 3.0], 2.0)
    assert (found["grown"], found["theirs_grown"], found["memory"]) == (5, 7, {"weights": 90})
    (first, origin, *_) = load_lines(found | {"model_type": "m", "backends": "b"})
    assert "2.00 s per GB" in first
    assert origin.endswith("repacked for each load")
    (_, origin, *_) = load_lines(found | {"model_type": "m", "backends": "b", "problem": "full"})
    assert origin.endswith("repacked for each load: full")


def test_loads_say_whether_weights_were_prepared() -> None:
    facts = {"model_type": "m", "backends": "b"}
    for sizes, words in (
        (
            (3 << 20, 3 << 20),
            "3 MiB of weights came from prepared files; --prepared 0 repacks them",
        ),
        ((0, 3 << 20, 0), "repacks them, as 2 of 3 loads did"),
    ):
        ours = [TimedLoad(100, 5, {"weights": 90}, size) for size in sizes]
        found = LoadComparison(100, ours, []).as_json()
        assert found["prepared"] == list(sizes)
        _, origin, *_ = load_lines(found | facts)
        assert origin.endswith(words)


def test_no_weights_are_written_beside_what_is_measured(
    tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int | None] = []

    def refuse(path: Path, options: EngineOptions) -> None:
        asked.append(options.prepared)
        raise BadSetting("model", str(path), "another")

    monkeypatch.setattr("app.terminal.engine.CommandEngine", refuse)
    for words in ((), ("--prepared", "3")):
        assert run_here("bench", tiny, *HOST, *words).returncode == 1
    assert asked == [0, 3]


def test_without_llama_cpp(tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "llama_cpp.py").write_text("raise ModuleNotFoundError('blocked by a test')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    ended = run_here("bench", tiny, "--against", "llama.cpp")
    assert_one_line_error(ended, "llama-cpp-python", "pip install 'cutaway[llama-cpp]'")


@pytest.mark.full_cases(r"\[9\]")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_of_a_bench_that_ends_early(tiny: str, how: signal.Signals) -> None:
    child = subprocess.Popen(
        [*RUN, "bench", tiny, *HOST, "-p", "0", "-n", "200", "-r", "100000"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    engine = engine_of(child.pid)
    time.sleep(0.5)
    if how is signal.SIGKILL:
        engine.suspend()  # as while the peer is measured
        time.sleep(0.2)  # all its threads have to hear it
    child.send_signal(how)
    child.communicate(timeout=PATIENCE)
    engine_gone(engine)


def engine_gone(engine: psutil.Process) -> None:
    psutil.wait_procs([engine], timeout=PATIENCE)
    assert not engine.is_running()


@pytest.mark.full
@pytest.mark.device
@pytest.mark.model_file
def test_against_llama_cpp(smollm2_path: Path) -> None:
    pytest.importorskip("llama_cpp")
    words = ("-p", "16", "-n", "4", "-d", "0,40", "-r", "2", "--against", "llama.cpp")
    ended = run("bench", str(smollm2_path), *words, "--json", seconds=300)
    assert ended.returncode == 0
    result = json.loads(ended.stdout)
    assert 0 <= result["busy_percent"] <= 100
    assert result["peer"]["versions"]["llama-cpp-python"]
    assert result["peer"]["system_info"]
    assert [test["test"] for test in result["tests"]] == [
        *("pp16", "tg4", "pp16 @ d40", "tg4 @ d40")
    ]
    for test in result["tests"]:
        assert test["ratio"] == pytest.approx(test["ours"] / test["theirs"])
        assert test["ours"] == pytest.approx(test["median_ts"])
        runs = test["runs"]
        better = max(runs.values(), key=lambda both: statistics.median(both["theirs"]))
        assert test["theirs"] == pytest.approx(statistics.median(better["theirs"]))
        assert [len(turns) for both in runs.values() for turns in both.values()] == [2] * 4
        assert min(turn for both in runs.values() for turns in both.values() for turn in turns) > 0
