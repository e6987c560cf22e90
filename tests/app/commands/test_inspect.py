"""`cutaway inspect`: a table for people, JSON for programs, one line for what cannot be read."""

import json
import subprocess
import sys

import gguf
import numpy as np
import pytest

from app.cli import main
from engine.gguf.values import ValueType as V
from tests.bounds import at_most_lines
from tests.gguf_files import Blocks, Draft, split
from tests.program import ROOT

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


def test_the_numbers_of_a_tensor(tmp_path, capsys):
    values = np.float32([[0, 1, 2], [3, 4, -np.inf]])
    path = Draft(PAIRS, {"w": Blocks(0, (3, 2, 1), values.tobytes())}).write(tmp_path / "x.gguf")
    assert main(["inspect", str(path), "--tensor", "w"]) == 0
    want = "[[ 0.0000,  1.0000,  2.0000],\n [ 3.0000,  4.0000, -Inf]]\n"
    assert capsys.readouterr().out == want
    words = ["--precision", "0", "--threshold", "2", "--edge-items", "1"]
    assert main(["inspect", str(path), "--tensor", "w", *words]) == 0
    assert capsys.readouterr().out == "[[ 0, ...,  2],\n [ 3, ..., -Inf]]\n"


def test_blocks_are_dequantised(tmp_path, capsys):
    values = np.random.default_rng(1).standard_normal((4, 64)).astype(np.float32)
    blocks = gguf.quantize(values, gguf.GGMLQuantizationType.Q4_1)
    tensors = {"w": Blocks(3, (64, 2, 2), blocks.tobytes())}
    path = Draft(PAIRS, tensors).write(tmp_path / "x.gguf")
    assert main(["inspect", str(path), "--tensor", "w", "--threshold", "9"]) == 0
    want = gguf.dequantize(blocks, gguf.GGMLQuantizationType.Q4_1)
    first = ", ".join(f"{v:.4f}" if v < 0 else f" {v:.4f}" for v in want[0, :3])
    assert capsys.readouterr().out.startswith(f"[[[{first}, ..., ")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--tensor", "blk.9"), "has no tensor 'blk.9'"),
        (("--tensor", "norm.weight", "--precision", "-1"), "precision: -1"),
        (("--tensor", "norm.weight", "--edge-items", "0"), "edge_items: 0"),
    ],
)
def test_what_cannot_be_shown_is_one_line(model, capsys, words, problem):
    assert main(["inspect", str(model), *words]) != 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert problem in captured.err


@pytest.mark.model_file
def test_a_large_vocabulary_is_walked_over_once(gemma3_path, capsys):
    main(["inspect", str(gemma3_path), "--json"])  # imports what it needs
    with at_most_lines(262144 * 10 // 3 + 100_000):
        assert main(["inspect", str(gemma3_path), "--json"]) == 0
    capsys.readouterr()


def test_no_engine_is_started_nor_imported(model):
    """It answers in the time that Python takes to start, and NumPy to be imported."""
    code = (
        "import sys; from app.cli import main; status = main(sys.argv[1:])\n"
        "slow = {'pyopencl', 'PySide6', 'engine.worker', 'engine.backends'} & set(sys.modules)\n"
        "sys.exit(status or str(slow) if slow else status)"
    )
    words = [sys.executable, "-c", code, "inspect", str(model), "--json"]
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
