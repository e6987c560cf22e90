"""`cutaway inspect`: a table for people, JSON for programs, one line for what cannot be read."""

import json
import subprocess
import sys
import time
from statistics import median

import pytest

from app.cli import main
from engine.gguf.values import ValueType as V
from tests.gguf_files import Blocks, Draft, split

PAIRS = {
    "general.architecture": (V.STRING, "toy"),
    "toy.title": (V.STRING, "two\nlines \x1b[31mred"),
    "toy.long": (V.STRING, "x" * 200),
    "toy.words": (V.ARRAY, (V.STRING, [f"word{i}" for i in range(9)])),
}
TENSORS = {
    "blk.0.attn.weight": Blocks(2, (64, 300), bytes(18 * 2 * 300)),
    "norm.weight": Blocks(0, (8,), bytes(32)),
}


@pytest.fixture
def model(tmp_path):
    return Draft(PAIRS, TENSORS).write(tmp_path / "toy.gguf")


def test_json(model, capsys):
    assert main(["inspect", str(model), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["architecture"] == "toy"
    assert [t["name"] for t in summary["tensors"]] == list(TENSORS)


def test_table(model, capsys):
    assert main(["inspect", str(model)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        str(model),
        "toy, 0.0 M parameters, 0.0 MiB, GGUF version 3, little-endian",
    ]
    assert r"  toy.title             two\nlines \x1b[31mred" in lines
    assert f"  toy.long              {'x' * 69}..." in lines
    words = ", ".join(f"word{i}" for i in range(8))
    assert f"  toy.words             9 x string: {words}, ..." in lines
    head, first, second = lines[-3:]
    assert first.split()[:-1] == ["blk.0.attn.weight", "Q4_0", "64", "x", "300", "10800"]
    assert int(second.split()[-1]) == int(first.split()[-1]) + 10816
    assert [line.index(kind) for line, kind in ((first, "Q4_0"), (second, "F32"))] == [
        head.index("type")
    ] * 2
    assert {len(line) for line in lines[-3:]} == {len(head)}  # numbers end below one another


def test_parts_are_numbered(tmp_path, capsys):
    paths = split(Draft(PAIRS, TENSORS), tmp_path / "toy.gguf", 2)
    assert main(["inspect", str(paths[0])]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{paths[0]}\n{paths[1]}\n")
    assert out.splitlines()[-1].split()[-1].startswith("2:")


def test_a_file_with_nothing_in_it(tmp_path, capsys):
    assert main(["inspect", str(Draft().write(tmp_path / "x.gguf"))]) == 0
    assert "no architecture, 0.0 M parameters" in capsys.readouterr().out


def test_a_broken_file_is_one_line(tmp_path, capsys):
    path = tmp_path / "x.gguf"
    path.write_bytes(b"GGUF")
    assert main(["inspect", str(path)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "ends inside the version" in captured.err


def seconds(*words):
    times = []
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "app", *words], check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    return median(times)


@pytest.mark.model_file
def test_a_large_vocabulary_takes_half_a_second_at_most(gemma3_path):
    assert seconds("inspect", str(gemma3_path), "--json") < seconds("--version") + 0.5
