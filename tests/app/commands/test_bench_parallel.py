"""`cutaway bench --parallel` as a program calls it, and what it asks of llama.cpp."""

import json
from pathlib import Path

import pytest

from app.bench.against import PeerProcess
from engine.protocol import ParallelTest
from tests.in_process import run_here
from tests.program import assert_one_line_error

HOST = ("--device", "host")
KEYS = ["pp", "tg", "pl", "n_kv", "t_pp", "speed_pp", "t_tg", "speed_tg", "t", "speed"]


@pytest.mark.parametrize("shared", [False, True])
def test_rows_are_as_llama_cpps_batched_bench_has_them(tiny_path: Path, shared: bool) -> None:
    words = (
        "--parallel",
        "1,3",
        "-p",
        "8",
        "-n",
        "3",
        "-r",
        "2",
        *(["--shared"] if shared else []),
    )
    ended = run_here("bench", str(tiny_path), *HOST, *words, "--json")
    assert (ended.returncode, ended.stderr) == (0, "")
    rows = json.loads(ended.stdout)["tests"]
    assert [list(row) for row in rows] == [KEYS] * 2
    for row, n in zip(rows, (1, 3), strict=True):
        n_read = 8 if shared else 8 * n
        assert (row["pp"], row["tg"], row["pl"], row["n_kv"]) == (8, 3, n, n_read + 3 * n)
        assert row["speed_pp"] == pytest.approx(n_read / row["t_pp"])
        assert row["speed_tg"] == pytest.approx(3 * n / row["t_tg"])
        assert row["speed"] == pytest.approx((n_read + 3 * n) / row["t"])
        assert row["t"] == pytest.approx(row["t_pp"] + row["t_tg"])


def test_nothing_to_read_is_refused(tiny_path: Path) -> None:
    ended = run_here("bench", str(tiny_path), *HOST, "--parallel", "2", "-p", "0")
    assert_one_line_error(ended, "--parallel", "from 1 up")


def test_the_peer_reads_and_writes_several_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against a library that notes its calls: each batch has one token of every sequence with its
    logits, prompts are read once where they are shared.
    """
    folder = tmp_path / "llama_cpp"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "llama_cpp.py").write_text(LIBRARY)
    (tmp_path / "llama_cpp_python-1.0.dist-info").mkdir()
    about = "Metadata-Version: 2.1\nName: llama-cpp-python\nVersion: 1.0\n"
    (tmp_path / "llama_cpp_python-1.0.dist-info" / "METADATA").write_text(about)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))
    for shared in (False, True):
        (tmp_path / "notes").write_text("")
        with PeerProcess(tmp_path / "any.gguf") as peer:
            times = peer.run_together(ParallelTest(4, 2, 3, shared), 1, True, False)
        assert min(times) >= 0
        notes = [json.loads(line) for line in (tmp_path / "notes").read_text().splitlines()]
        batches = [note for note in notes if isinstance(note, list)]
        read = [[s, p, int(p == 3)] for s in range(1 if shared else 3) for p in range(4)]
        assert batches[0] == read
        assert batches[1:] == [[[s, at, 1] for s in range(3)] for at in (4, 5)]
        copies = [note["copy"] for note in notes if isinstance(note, dict) and "copy" in note]
        assert copies == ([[0, 1], [0, 2]] if shared else [])
        (made,) = (note["made"] for note in notes if isinstance(note, dict) and "made" in note)
        assert made == [3 * 6, 3, True]


LIBRARY = """
import ctypes, json, os

LLAMA_FLASH_ATTN_TYPE_ENABLED, LLAMA_FLASH_ATTN_TYPE_DISABLED = 1, 0

class Params:
    pass

class Batch:
    def __init__(self, n):
        self.token, self.pos, self.n_seq_id, self.logits = ([0] * n for _ in range(4))
        self.seq_id = [[0] for _ in range(n)]

def note(value):
    with open(os.environ["NOTES"], "a") as file:
        print(json.dumps(value), file=file)

def llama_log_callback(function): return function
def llama_log_set(*_): pass
def llama_backend_init(): pass
def llama_model_default_params(): return Params()
def llama_context_default_params(): return Params()
def llama_model_load_from_file(*_): return 1
def llama_model_get_vocab(_): return 1
def llama_vocab_n_tokens(_): return 10
def llama_vocab_bos(_): return 1
def llama_vocab_get_add_bos(_): return False
def llama_print_system_info(): return b"none"
def llama_get_memory(_): return 1
def llama_memory_clear(*_): pass
def llama_memory_seq_cp(_, source, target, begin, end): note(dict(copy=[source, target]))
def llama_free(_): pass
def llama_batch_init(n, *_): return Batch(n)
def llama_batch_free(_): pass
ROW = (ctypes.c_float * 10)()
def llama_get_logits_ith(*_): return ctypes.cast(ROW, ctypes.POINTER(ctypes.c_float))

def llama_init_from_model(_, params):
    note(dict(made=[params.n_ctx, params.n_seq_max, params.kv_unified]))
    return 1

def llama_decode(_, batch):
    n = range(batch.n_tokens)
    note([[batch.seq_id[i][0], batch.pos[i], int(batch.logits[i])] for i in n])
    return 0
"""
