"""`cutaway compare`: what deviates is named, nothing else is, and scripts can tell."""

import json
from pathlib import Path

import pytest

from app.cli import main
from app.terminal.examined import text_lines
from engine.protocol import Compare, Compared, ComparedResult, PairedResult, TextsCompared
from tests.in_process import run_here
from tests.program import assert_one_line_error, run

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.mark.full
@pytest.mark.device
def test_two_devices_one_after_the_other(tiny_path: Path) -> None:
    words = ("compare", str(tiny_path), "--device", "intel:0", "--device", "host", "--ctx", "64")
    printed = run_here(*words)
    assert printed.returncode == 0, printed
    lines = printed.stdout.splitlines()
    assert [line.split(":")[0] for line in lines[::2]] == ["intel", "host"]
    assert all("none deviates from the host" in line for line in lines[1::2])
    told = json.loads(run_here(*words, "--json").stdout)
    assert list(told) == ["intel:0", "host"]
    on_host, on_intel = ({r["name"]: r for r in told[d]["rows"]} for d in ("host", "intel:0"))
    assert all(row["error"] == 0 for row in on_host.values())
    assert any(row["error"] > 0 for row in on_intel.values())
    assert on_intel["l_out-2"]["layer"] == 2


def test_every_result_in_a_table(tiny_path: Path) -> None:
    printed = run_here("compare", str(tiny_path), "--device", "host", "--ctx", "64", "--all")
    rows = [line.split() for line in printed.stdout.splitlines()]
    assert ["prefill", "cache_k_l0"] in [row[:2] for row in rows]
    assert ["decode", "result_output"] in [row[:2] for row in rows]


def test_a_deviation_is_named_and_the_status_is_one(
    tiny_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the engine would tell it of a broken kernel."""
    from app.terminal.engine import CommandEngine

    right = ComparedResult("prefill", "embd", 0, None, "host", ["rows"], ["rows"], 0.0, 1e-7, "")
    wrong = ComparedResult(
        *("prefill", "Qcur-0", 1, 0, "intel:0", ["rope"], ["rope_store"]),
        *(2e-2, 1e-7, "NMSE 2.0e-02, at most 1e-07"),
    )
    really = CommandEngine.get

    def get(self: CommandEngine, request: object) -> object:
        if isinstance(request, Compare):
            return Compared(1, [right, wrong, right], 1, 8)
        return really(self, request)

    monkeypatch.setattr(CommandEngine, "get", get)
    assert main(["compare", str(tiny_path), "--device", "host"]) == 1
    told = capsys.readouterr().out
    assert "Qcur-0#1 of prefill: NMSE 2.0e-02, at most 1e-07" in told
    assert "rope as rope_store on intel:0" in told
    assert told.endswith("1 in all\n")


def test_a_text_too_short(tiny_path: Path) -> None:
    ended = run("compare", str(tiny_path), "--device", "host", "-p", "a")
    assert_one_line_error(ended, "two tokens")


def test_two_texts_against_each_other(tiny_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first pair that is other, the first result that is, and all of them for programs."""
    words = ["compare", str(tiny_path), "--device", "host", "--ctx", "64", "-p", "the red hat"]
    assert main([*words, "--against", "the old hat", "--all"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("host: ")
    assert lines[1] == '  first pair of different tokens: 1 " r" / " o"'
    assert lines[-2].startswith("  first difference: embd on host: NMSE ")
    assert lines[-1].startswith("  the last is result_output on host: NMSE ")
    assert any(line.split()[:2] == ["l_out-1", "host"] for line in lines)
    assert main([*words, "--against", "the old hat", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["host"]
    assert told["rows"][told["first"]]["name"] == "embd"
    row = next(row for row in told["rows"] if row["name"] == "l_out-1")
    assert len(row["errors"]) == len(told["pairs"]) == len(row["cosines"])
    assert row["errors"][0] < 1e-6 < row["errors"][1]
    same = TextsCompared(
        1, [PairedResult("embd", 0, None, "host", 0, 0.0, 1.0, b"", b"")], None, []
    )
    assert list(text_lines("host", same, False))[-1] == (
        "  no result differs by more than rounding errors"
    )


def test_nothing_to_compare_with(tiny_path: Path) -> None:
    ended = run_here("compare", str(tiny_path), "--device", "host", "-p", "a hat", "--against", "")
    assert_one_line_error(ended, "at least one token")
