"""`cutaway dump`: a model's numbers in the reference's form, as JSON and as arrays."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFReader, dequantize

from engine.gguf import open_gguf
from engine.gguf.dump import dump
from engine.runner import load
from engine.scheduler import probed
from engine.tokenizer import load_tokenizer
from tests.goldens.tiny import write_tiny
from tests.in_process import run_here
from tests.program import assert_one_line_error, run

pytestmark = pytest.mark.usefixtures("nothing_left")
HOST = ("--device", "host", "--ctx", "64")
TEXT = "the hat on"


@pytest.fixture(scope="module")
def by_hand(tiny_path: Path) -> dict[str, np.ndarray]:
    """The residual of each layer for the text's tokens, computed here in float64."""
    with open_gguf(tiny_path) as file:
        ids = load_tokenizer(file.metadata).encode(TEXT)
        table = file.array("token_embd.weight").astype(np.float64)
    return {"ids": np.array(ids), "embd": table[ids]}


def test_text_json_and_arrays_are_the_same(
    tiny_path: Path, tmp_path: Path, by_hand: dict[str, np.ndarray]
) -> None:
    out = tmp_path / "stored"
    wanted = ("--tensors", "l_out-[01]", "--tensors", "embd", "--tensors", r"blk\.1\.attn_q.*")
    words = ("dump", str(tiny_path), *wanted, "-p", TEXT, "--steps", "2", *HOST)
    printed = run(*words, "--out", str(out))
    assert printed.returncode == 0, printed
    stored = dict(np.load(out))
    n = len(by_hand["ids"])
    assert list(stored) == [
        "blk.1.attn_q.weight",
        *(f"{name}#0@{step}" for step in range(3) for name in ("embd", "l_out-0", "l_out-1")),
    ]
    assert stored["embd#0@0"].shape == (n, 64)
    assert stored["l_out-1#0@2"].shape == (1, 64)
    np.testing.assert_array_equal(stored["embd#0@0"], by_hand["embd"].astype(np.float32))
    # Each with a line that says what it is, then its numbers in the reference's form.
    shown = {}
    for block in re.split(r"\n\n(?=\S)", printed.stdout.strip("\n")):
        head, text = block.split("\n", 1)
        shown[head.split()[0]] = head, text
    assert shown["l_out-0#0@0"][0] == f"l_out-0#0@0 add host F32 [64, {n}]"
    assert shown["blk.1.attn_q.weight"][0] == "blk.1.attn_q.weight F16 [64, 64]"
    assert {key: text for key, (_, text) in shown.items()} == {
        key: dump(values) for key, values in stored.items()
    }
    told = json.loads(run_here(*words, "--json", "--threshold", "100").stdout)
    assert [step["tokens"] for step in told["steps"]][0] == by_hand["ids"].tolist()
    assert "".join(step["text"] for step in told["steps"][:1]).endswith("hat on")
    assert [one["key"] for one in told["tensors"]] == list(stored)
    for one in told["tensors"]:
        values = stored[one["key"]]
        assert one["dims"] == list(values.shape[::-1])
        assert one["max"] == pytest.approx(values.max())
        assert one["rms"] == pytest.approx(np.sqrt((values.astype(np.float64) ** 2).mean()))
        assert one["values"] == (values.tolist() if values.size <= 100 else None)


def test_weights_need_no_engine(tiny_path: Path, tmp_path: Path) -> None:
    """As the gguf package reads them."""
    out = tmp_path / "weights.npz"
    ended = run("dump", str(tiny_path), "--tensors", r"blk\.0\..*", "--out", str(out))
    assert ended.returncode == 0, ended
    stored = dict(np.load(out))
    reader = {t.name: t for t in GGUFReader(tiny_path).tensors if t.name.startswith("blk.0.")}
    assert stored.keys() == reader.keys()
    for name, tensor in reader.items():
        np.testing.assert_array_equal(stored[name], dequantize(tensor.data, tensor.tensor_type))


def test_the_library_gives_the_same_in_parts(
    tiny_path: Path, by_hand: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prompt whose results do not fit at once is computed in several steps."""
    with load(tiny_path, device="host", ctx=64) as model:
        n, held = len(by_hand["ids"]), model.loaded.device.used
        whole = model.dump(TEXT, "l_out-0", "embd", steps=1)
        assert [key for key in whole if key.startswith("embd")] == ["embd#0@0", "embd#0@1"]
        monkeypatch.setattr(probed, "RING_BYTES", 2 * n * 64 * 4 * 2 // 3)
        parts = model.dump(TEXT, "l_out-0", "embd", steps=1)
        assert len(parts) > len(whole)
        for name in ("embd", "l_out-0"):
            keys = [key for key in parts if key.startswith(name)]
            assert keys == [f"{name}#0@{i}" for i in range(len(keys))]
            joined = np.concatenate([parts[key] for key in keys])
            expected = np.concatenate([whole[key] for key in whole if key.startswith(name)])
            np.testing.assert_allclose(joined, expected, atol=2e-3)
        assert model.loaded.device.used == held
        assert next(model.generate(TEXT, max_tokens=1))  # and the model still answers


def test_refusals(tiny_path: Path, tmp_path: Path) -> None:
    def refused(*words: str) -> tuple[str, ...]:
        return ("dump", str(tiny_path), *words, *HOST)

    ended = run_here(*refused("--tensors", "l_out", "-p", TEXT))
    assert_one_line_error(ended, "tensors", "'l_out'", "l_out-N", "Qcur-N")
    assert_one_line_error(run_here(*refused("--tensors", "l_out-0")), "'l_out-0'", "-p TEXT")
    assert_one_line_error(run_here(*refused("--tensors", "(", "-p", TEXT)), "regular expression")
    missing = str(tmp_path / "no" / "x.npz")
    assert_one_line_error(run_here(*refused("--tensors", ".*", "--out", missing)), "--out")
    long = ("--tensors", "embd", "-p", TEXT, "--steps", "64")
    assert_one_line_error(run_here(*refused(*long)), "64", "context of 64")
    assert_one_line_error(run_here(*refused("--tensors", "embd", "--steps", "1")), "-p")


def test_numbers_that_are_none(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "tiny.gguf", "llama")
    with open_gguf(path) as file:
        at = file.tensors["output_norm.weight"].offset
    data = bytearray(path.read_bytes())
    data[at : at + 12] = np.array([np.nan, np.inf, -np.inf], "<f4").tobytes()
    path.write_bytes(data)
    words = ("dump", str(path), "--tensors", "output_norm.weight")
    assert run_here(*words).stdout.splitlines()[1].startswith("[ NaN,  +Inf, -Inf,")
    (told,) = json.loads(run_here(*words, "--json").stdout)["tensors"]
    assert (told["nan"], told["inf"], told["values"][:3]) == (1, 2, [None] * 3)
    assert told["max"] == pytest.approx(np.frombuffer(data[at + 12 : at + 256], "<f4").max())
