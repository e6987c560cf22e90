"""`cutaway plan`: what it says is what a load does; quick for models that would never fit here."""

import json
import resource
from pathlib import Path
from typing import Any

import pytest

from app.commands.plan import lines
from engine.protocol import DescribePlan, Load, Loaded, Memory
from engine.settings import EngineOptions, cache_folder
from engine.worker import Worker
from tests.engine.models.text.files import write
from tests.engine.models.text.rows import ROWS
from tests.engine.runner.memory import two_devices
from tests.goldens.seventy import LAYERS, E, V, write_seventy
from tests.in_process import run_here
from tests.program import assert_one_line_error, run

pytestmark = [pytest.mark.device, pytest.mark.usefixtures("nothing_left")]
MIB = 1 << 20


def plan(path: Path, *words: str) -> dict[str, Any]:
    ended = run_here("plan", str(path), "--json", *words)
    assert ended.returncode == 0, ended
    found = json.loads(ended.stdout)
    assert isinstance(found, dict)
    return found


def test_what_it_says_is_what_a_load_does(tiny_path: Path) -> None:
    one, two = two_devices()
    place = f"0={one},1={two},out=host"
    planned = plan(tiny_path, "--place", place, "--device", one, "--ctx", "64")
    assert planned["layers"] == [one, two, one, "host"]
    assert planned["problem"] == ""
    options = EngineOptions(device=one, ctx=64, place=place)
    memories: list[Memory] = []
    with Worker() as worker:
        worker.send(Load(worker.new_id(), str(tiny_path), options))
        while not isinstance(reply := worker.receive(60), Loaded):
            assert reply is not None
            memories += [reply] if isinstance(reply, Memory) else []
    foreseen = {(r["device"], r["component"], r["layer"]): r["size"]
                for r in planned["memory"]["rows"]}  # fmt: skip
    assert foreseen == {(r.device, r.component, r.layer): r.size for r in memories[-1].rows}


def test_splits_and_what_crosses_between_devices(tiny_path: Path) -> None:
    one, two = two_devices()
    planned = plan(tiny_path, "--device", one, "--place", f"1={two}", "--ctx", "64")
    devices = [s["device"] for s in planned["splits"] if s["device"] != "host"]
    assert devices == [one, two, one]
    crossing = [c for s in planned["splits"] for c in s["copies"] if c["origin"] is not None]
    assert [(c["name"], c["origin"]) for c in crossing][-2:] == [("l_out-0", one), ("l_out-1", two)]
    assert {c["size"] for c in crossing} == {64 * 4}
    assert planned["crossing"] == sum(c["size"] for c in crossing)


def test_nodes_in_the_format_of_ggml(tiny_path: Path) -> None:
    text = run_here("plan", str(tiny_path), "--nodes", "--ctx", "64").stdout
    assert "## SPLIT #0: " in text
    (line,) = [line for line in text.splitlines() if "               Qcur-0 (" in line[:60]][:1]
    assert line.startswith("node #")
    assert "1.wgt0]" in line
    assert "## SPLIT" not in run_here("plan", str(tiny_path), "--ctx", "64").stdout


def test_8_bit_activations_are_told(tiny_path: Path) -> None:
    first = run_here("plan", str(tiny_path), "--activations", "8", "--ctx", "64").stdout
    assert first.splitlines()[0].endswith("64 tokens of context, f16 cache, 8-bit activations")


def test_for_people(tiny_path: Path) -> None:
    one, two = two_devices()
    words = ("--device", f"{two},{one}", "--budget", f"{two}=0", "--ctx", "64")
    lines = run("plan", str(tiny_path), *words).stdout.splitlines()
    assert lines[:2] == ["tiny: llama, 64 tokens of context, f16 cache", "fits"]
    assert f"{two} takes no layers; it has 0 MiB free, of which 0 MiB stay free" in lines
    assert any(line.startswith(f"{one} takes layers 0-2 and the output block") for line in lines)
    assert any(line.split()[:2] == ["out", one] for line in lines)
    assert lines[-3].endswith("bytes go between devices for each token")
    assert lines[-2].startswith("speed unknown") or "tokens per second" in lines[-2]
    assert lines[-1] == f"as a rule: --place 0-2={one},out={one}"


def test_recurrent_states_have_columns_where_there_are_some(
    tmp_path: Path, tiny_path: Path
) -> None:
    """And what a load then holds, to the byte."""
    path = write(ROWS["qwen35"], tmp_path)
    memories: list[Memory] = []
    with Worker() as worker:
        options = EngineOptions(device="host", ctx=64)
        described = worker.get(DescribePlan(worker.new_id(), str(path), options, False))
        plain = worker.get(DescribePlan(worker.new_id(), str(tiny_path), options, False))
        worker.send(Load(worker.new_id(), str(path), options))
        while not isinstance(reply := worker.receive(60), Loaded):
            assert reply is not None
            memories += [reply] if isinstance(reply, Memory) else []
    told = [line.split() for line in lines(described)]
    columns = ["weights", "cache", "recurrent", "state", "checkpoints", "vision"]
    assert ["layer", "device", *columns] in told
    assert not any("recurrent" in line for line in lines(plain))
    sizes = {(r.component, r.layer): r.size for r in described.memory.rows}
    assert sizes == {(r.component, r.layer): r.size for r in memories[-1].rows}
    assert sizes["checkpoints", 0] == 2 * sizes["recurrent state", 0] > 0
    assert ("recurrent state", 3) not in sizes


def test_by_how_much_it_does_not_fit(tiny_path: Path) -> None:
    one, _ = two_devices()
    planned = plan(tiny_path, "--device", one, "--budget", f"{one}=0", "--ctx", "64")
    assert f"{one}: no room for weights of layer 0" in planned["problem"]
    (own,) = [row for row in planned["budgets"] if row["device"] == one]
    assert own["limit"] == 0
    assert own["over"] == own["wanted"] == planned["memory"]["shortfall"] > 0
    assert not planned["memory"]["fits"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--place", "0=nvidia:9"), "nvidia:9"),
        (("--place", "xyz=host"), "xyz"),
        (("--place", "0-"), "0-"),
        (("--budget", "nvidia:9=5"), "nvidia:9"),
    ],
)
def test_wrong_words_are_one_line(tiny_path: Path, words: tuple[str, ...], said: str) -> None:
    assert_one_line_error(run_here("plan", str(tiny_path), *words), said)


def processor_time(path: Path) -> float:
    """Seconds of the processor for a plan, its engine included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    plan(path)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.full
def test_seventy_billion_parameters_with_an_eye(tmp_path: Path, tiny_path: Path) -> None:
    path = tmp_path / "seventy.gguf"
    size = write_seventy(path)
    planned = plan(path)
    # It has eighty layers and 400,000 words where the tiny one has three and some hundred.
    assert processor_time(path) < 3 * processor_time(tiny_path)
    rows = planned["memory"]["rows"]
    assert {r["layer"] for r in rows if r["component"] == "weights"} == set(range(LAYERS + 1))
    cache = 4096 * 1024 * 2 * 2
    assert {r["size"] for r in rows if r["component"] == "cache"} == {cache}
    (vision,) = [r for r in rows if r["component"] == "vision"]
    assert vision["layer"] == LAYERS
    assert 900 * MIB < vision["size"] < 930 * MIB
    (mapped,) = [r for r in rows if r["component"] == "input"]
    assert (mapped["size"], mapped["status"]) == (V * E // 256 * 144, "mapped")
    weights = sum(r["size"] for r in rows if r["component"] in ("weights", "vision"))
    # Tiles of Q4_K take 148 bytes for 144.
    assert size - mapped["size"] < weights < (size - mapped["size"]) * 1.03


def test_the_rule_and_the_predicted_speed(
    tiny_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Devices are timed when asked; what was timed is known the next time."""
    one, two = two_devices()
    for name in ("programs", "pocl"):  # kernels are not built anew for this
        (cache_folder() / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / name).symlink_to(cache_folder() / name)
    monkeypatch.setenv("CUTAWAY_CACHE", str(tmp_path))
    words = ("--device", f"{one},{two}", "--place", f"0={one},1-2={two},out={one}")
    planned = plan(tiny_path, *words, "--measure")
    assert planned["rule"] == words[-1]
    speed = planned["speed"]
    assert speed["tokens_per_s"] > 0
    assert set(speed["devices"]) == {one, two}
    said = run_here("plan", str(tiny_path), *words)
    assert f"about {speed['tokens_per_s']:.0f} tokens per second" in said.stdout
    assert f"--place {words[-1]}" in said.stdout
