"""`cutaway search`, and `cutaway plan` of a model that is not on this disk."""

import json
from pathlib import Path

import pytest

from app.fetch import search
from tests.app.helpers.fake_hub import FakeHub
from tests.goldens.tiny import write_tiny
from tests.in_process import run_here
from tests.program import assert_one_line_error


def test_a_table(hub: FakeHub) -> None:
    hub.add("a/Tiny-GGUF", {}, parameters=135_000_000, downloads=1234, trending=3)
    hub.add("b/big\x1b[31m", {}, parameters=30_500_000_000, trending=2)
    hub.add("b/Big-GGUF", {}, parameters=30_500_000_000, trending=2, licence="mit", gated="auto")
    hub.add("c/unknown", {}, parameters=None, trending=1)
    ended = run_here("search")
    assert ended.returncode == 0
    assert [line.split() for line in ended.stdout.splitlines()] == [
        ["repository", "size", "licence", "downloads"],
        ["a/Tiny-GGUF", "135M", "apache-2.0", "1,234"],
        ["b/Big-GGUF", "30B", "mit", "(terms", "to", "accept)", "0"],
        ["c/unknown", "–", "apache-2.0", "0"],
    ]
    assert "cutaway plan a/Tiny-GGUF:QUANT" in ended.stderr
    assert "No GGUF models match" in run_here("search", "nothing", "like", "it").stdout


def test_filters_pages_and_json(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "PER_PAGE", 2)
    for i in range(6):
        hub.add(f"o/m{i}", {}, parameters=10**9 * (i + 1), likes=i, licence="mit" if i % 2 else "x")

    def found(*words: str) -> list[str]:
        return [row["repo"] for row in json.loads(run_here("search", *words, "--json").stdout)]

    assert found("m", "--sort", "likes", "--limit", "5") == [f"o/m{i}" for i in (5, 4, 3, 2, 1)]
    assert found("--largest", "2.5B", "--sort", "likes") == ["o/m1", "o/m0"]
    assert found("--licence", "mit", "--sort", "likes") == ["o/m5", "o/m3", "o/m1"]
    assert found("--task", "embeddings") == []
    row = json.loads(run_here("search", "m0", "--json").stdout)[0]
    assert (row["parameters"], row["gated"], row["task"]) == (10**9, False, "chat")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--largest", "huge"), "'huge' is not a number of parameters like 8B"),
        (("--limit", "0"), "'0' is not a number from 1 to 1000"),
        (("--sort", "beauty"), "beauty"),
    ],
)
def test_wrong_options(words: tuple[str, ...], named: str) -> None:
    assert_one_line_error(run_here("search", *words), named, status=2)


def test_offline_and_limited(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add("o/m", {})
    hub.limits = [0]
    ended = run_here("search", "m")
    assert ended.returncode == 0
    hub.limits = [1, 9]
    limited = run_here("search", "m")
    assert limited.returncode == 1
    assert "limits the rate; continuing in 1 s" in limited.stderr
    assert "try again in 9 s" in limited.stderr
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert_one_line_error(run_here("search"), "cannot be reached", "check the network")


@pytest.mark.device
def test_a_plan_from_the_header_alone(hub: FakeHub, own_home: Path, tmp_path: Path) -> None:
    whole = write_tiny(tmp_path / "m-F16.gguf", "llama")
    hub.add("o/r", {"m-F16.gguf": whole.read_bytes(), "m-Q8_0.gguf": b"x"})
    words = ("--ctx", "64", "--json")
    by_header, by_file = run_here("plan", "o/r:f16", *words), run_here("plan", str(whole), *words)
    assert "planned from the header of m-F16.gguf; the model is not downloaded" in by_header.stderr
    found, expected = json.loads(by_header.stdout), json.loads(by_file.stdout)
    for plan in (found, expected):
        for pool in plan["memory"].pop("pools"):
            assert pool["total"]
        for name in ("id", "log", "reasons", "budgets"):
            plan.pop(name, None)
        plan["memory"].pop("id", None)
    assert found == expected
    assert not [p for p in own_home.rglob("*") if p.is_file() and "hf" in p.parts]


def test_plans_that_cannot_be(hub: FakeHub) -> None:
    hub.add("o/r", {"m-Q4_0.gguf": b"no model", "m-Q8_0.gguf": b"x"})
    assert_one_line_error(run_here("plan", "o/r"), "several", "o/r:Q4_0")
    assert_one_line_error(run_here("plan", "o/r:Q2_K"), "no Q2_K")
    assert_one_line_error(run_here("plan", "o/gone:Q4_0"), "no repository o/gone")
    assert_one_line_error(run_here("plan", "o/r:Q4_0", "--measure"), "fetch it first")
    ended = run_here("plan", "o/r:Q4_0")
    assert ended.returncode == 1
    assert "o/r/m-Q4_0.gguf" in ended.stderr
