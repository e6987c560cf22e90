"""A quantisation against its base: both memory modes, drift, swaps, and the tensor to blame."""

import subprocess
import sys
from pathlib import Path

import gguf
import numpy as np
import pytest

import engine.laboratory.quality as quality_module
from engine.errors import BadSetting, Cancelled, NoMem, NotSupported
from engine.gguf import open_gguf
from engine.gguf.dequantize import dequantize, quantize
from engine.gguf.formats import Q4_0
from engine.laboratory.estimates import Estimator
from engine.laboratory.imatrix import InputSquares
from engine.laboratory.library import quality
from engine.laboratory.quality import measure_quality
from engine.memory.pools import system_pool
from engine.protocol import MeasureQuality, Progress
from engine.runner import load
from engine.runner.loading import LoadedModel
from engine.settings import EngineOptions
from tests.goldens.make_llama_tools import write_f16
from tests.goldens.tiny import write_tiny

CTX = 32
TEXT = "The hat on the heath, there and then, is one of these things. " * 8
Q8, TQ2 = gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.TQ2_0
Q4 = gguf.GGMLQuantizationType.Q4_0
DEVICES = ["host", pytest.param("intel:0", marks=pytest.mark.device)]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The tiny model in F16, in Q8_0, and in Q8_0 but for one tensor in Q4_0."""
    folder = tmp_path_factory.mktemp("quality")
    return {
        "f16": write_tiny(folder / "f16.gguf", "llama"),
        "q8": write_tiny(folder / "q8.gguf", "llama", {"blk": Q8}),
        "bad": write_tiny(
            folder / "bad.gguf", "llama", {"blk.1.attn_output": Q4, "blk": Q8, "output.": Q8}
        ),
    }


def options(device: str = "host") -> EngineOptions:
    return EngineOptions(device=device, kv="f32")


@pytest.fixture(scope="module")
def logits(files: dict[str, Path]) -> dict[str, np.ndarray]:
    """Of the scored positions, f32 [chunks, n, V], by another way through the engine."""
    found = {}
    for name, path in files.items():
        with load(path, device="host", kv="f32", ctx=CTX) as model:
            tokenizer = model.loaded.tokenizer
            ids = tokenizer.encode(TEXT, parse_special=False)
            chunks = [ids[i : i + CTX] for i in range(0, len(ids) - CTX + 1, CTX)]
            rows = []
            for chunk in chunks:
                first = [tokenizer.bos] if tokenizer.add_bos else chunk[:1]
                given = [*first, *chunk[1:]]
                rows.append(np.concatenate([x for _, x in model.logits(given)])[CTX // 2 : -1])
        found[name] = np.stack(rows)
    found["tokens"] = np.array(chunks)[:, CTX // 2 + 1 :]
    return found


def test_two_files_in_both_memory_modes(
    files: dict[str, Path], logits: dict[str, np.ndarray]
) -> None:
    expected = Estimator()
    for p, q, following in zip(logits["f16"], logits["q8"], logits["tokens"], strict=True):
        expected.add(p, q, following.tolist())
    found = [
        quality(files["f16"], TEXT, files["q8"], ctx=CTX, options=options(), in_turn=turn)
        for turn in (False, True)
    ]
    assert [one.in_turn for one in found] == [False, True]
    want = expected.estimates
    for one in found:
        assert (one.name, one.base_name) == ("q8", "f16")  # both are called "tiny"
        assert one.n_chunks == len(logits["tokens"])
        assert one.estimates is not None
        assert one.estimates.n == want.n
        assert one.estimates.kld.value == pytest.approx(want.kld.value, abs=1e-4)
        assert one.estimates.same_top == want.same_top
        assert one.estimates.ln_ratio.value == pytest.approx(want.ln_ratio.value, abs=1e-4)
    assert found[0].estimates.kld.value == pytest.approx(want.kld.value, rel=1e-4)
    assert want.kld.value > 1e-6


def test_a_file_against_itself_loses_nothing(files: dict[str, Path]) -> None:
    found = quality(files["q8"], TEXT, files["q8"], ctx=CTX, options=options(), drift=True)
    assert found.estimates is not None
    assert abs(found.estimates.kld.value) < 1e-12
    assert found.estimates.same_top.value == 1.0
    assert [one.layer for one in found.drift] == [0, 1, 2]
    assert max(one.nmse for one in found.drift) == 0.0


def test_drift_is_that_of_the_layers(files: dict[str, Path]) -> None:
    found = quality(files["f16"], TEXT, files["bad"], ctx=CTX, options=options(), drift=True)
    turn = quality(
        files["f16"], TEXT, files["bad"], ctx=CTX, options=options(), drift=True, in_turn=True
    )
    assert turn.drift == found.drift
    rows = {}
    for name in ("f16", "bad"):
        with load(files[name], device="host", kv="f32", ctx=CTX) as model:
            ids = model.loaded.tokenizer.encode(TEXT, parse_special=False)
            bos = model.loaded.tokenizer.bos if model.loaded.tokenizer.add_bos else None
            chunks = [ids[i : i + CTX] for i in range(0, len(ids) - CTX + 1, CTX)][:4]
            texts = [[bos if bos is not None else c[0], *c[1:]] for c in chunks]
            rows[name] = [_layers(model, tokens) for tokens in texts]
    for one in found.drift:
        for first, nmse, cosine in (
            (0, one.nmse, one.cosine),
            (4, one.later_nmse, one.later_cosine),
        ):
            a, b = (np.concatenate([c[one.layer][first:] for c in rows[n]]) for n in ("f16", "bad"))
            assert nmse == pytest.approx(((b - a) ** 2).sum() / (a**2).sum(), rel=1e-5)
            whole = np.sqrt((a**2).sum() * (b**2).sum())
            assert cosine == pytest.approx((a * b).sum() / whole, rel=1e-6)


def _layers(model: object, tokens: list[int]) -> list[np.ndarray]:
    from engine.scheduler.probes import Probes

    stepper = model.loaded.stepper
    probes = Probes((r"l_out-\d+",))
    step = stepper.start(tokens, 0, range(len(tokens)), probes=probes)
    step()
    found = [one.values.reshape(-1, 64).astype(np.float64) for one in step.probed()]
    stepper.end_probes()
    stepper.forget(0)
    return found


@pytest.mark.parametrize("device", DEVICES)
def test_the_damaged_tensor_is_named_first(files: dict[str, Path], device: str) -> None:
    """By first order and by both exact methods."""
    found = quality(
        files["f16"], TEXT, files["bad"], ctx=CTX, options=options(device), n_chunks=2, guilty=4
    )
    names = [one.name for one in found.tensors]
    first, second = found.tensors[:2]
    assert first.name == "blk.1.attn_output.weight"
    assert first.output_nmse == max(one.output_nmse for one in found.tensors)
    assert first.alone == max(one.alone for one in found.tensors[:4])
    assert first.without < second.without
    assert first.without < found.all_kld
    assert first.saved == pytest.approx(
        (found.all_kld - first.without) / (64 * 64 / 32 * (34 - 18) / 2**20)
    )
    assert len(names) == len(set(names)) == 3 * 7 + 1
    assert all(one.alone is None for one in found.tensors[4:])
    exact = found.all_kld / found.estimates.kld.value
    assert 0.5 < exact < 2  # weights alone against weights and rounded activations


@pytest.mark.parametrize("device", DEVICES)
def test_what_if_is_a_file_with_that_tensor(
    files: dict[str, Path], tmp_path: Path, device: str
) -> None:
    """Against a real file whose tensor is what Q4_0 makes of it."""
    name = "blk.0.ffn_down.weight"
    with open_gguf(files["f16"]) as file:
        values = file.array(name)
    changed = dequantize(quantize(values, Q4_0), Q4_0)
    other = write_tiny(tmp_path / "other.gguf", "llama", tensors={name: changed.astype(np.float16)})
    wanted = quality(files["f16"], TEXT, other, ctx=CTX, options=options(device))
    given = {"ctx": CTX, "options": options(device)}
    found = quality(files["f16"], TEXT, what_if={r"blk\.0\.ffn_down\.weight": "q4_0"}, **given)
    assert found.estimates.kld.value == pytest.approx(wanted.estimates.kld.value, rel=0.02)
    (one,) = found.tensors
    assert (found.name, found.n_swapped, wanted.n_swapped) == ("tiny", 1, 0)
    error = float(((changed - values) ** 2).sum() / (values**2).sum())
    assert (one.name, one.type, one.size) == (name, "Q4_0", values.size // 32 * 18)
    assert one.nmse == pytest.approx(error, rel=1e-5)
    taken = quality(files["f16"], TEXT, other, what_if={r"blk\.0\.ffn_down\.weight": ""}, **given)
    assert taken.estimates.kld.value == pytest.approx(found.estimates.kld.value, rel=1e-6)
    lossless = quality(files["f16"], TEXT, what_if={"blk.*_norm.weight": "F32"}, **given)
    assert abs(lossless.estimates.kld.value) < 1e-6


def test_squares_are_those_of_the_inputs(files: dict[str, Path]) -> None:
    with load(files["f16"], device="host", kv="f32", ctx=64) as model:
        tokens = list(range(4, 44))
        squares = InputSquares(model.loaded, with_output=True)
        squares.add_chunk(tokens)
        stepper = model.loaded.stepper
        from engine.scheduler.probes import Probes

        probes = Probes(("attn_norm-1", "ffn_swiglu-2", "result_norm"))
        step = stepper.start(tokens, 0, range(len(tokens)), probes=probes)
        step()
        named = {one.key.name: one.values.astype(np.float64) for one in step.probed()}
        sums = {key: (rows**2).sum(0) for key, rows in named.items()}
    for weight, key in (
        *((f"blk.1.attn_{one}.weight", "attn_norm-1") for one in "qkv"),
        ("blk.2.ffn_down.weight", "ffn_swiglu-2"),
        ("output.weight", "result_norm"),
    ):
        np.testing.assert_allclose(squares.sums[weight][0], sums[key], rtol=1e-5)
        assert squares.counts[weight].tolist() == [40]
    assert len(squares.sums) == 3 * 7 + 1


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        ({}, BadSetting, "what-if"),
        ({"what_if": {"nothing": "Q4_0"}}, BadSetting, "what-if: 'nothing'"),
        (
            {"what_if": {r"blk\.0\.ffn_up\.weight": "Q3_K"}},
            NotSupported,
            "writing Q3_K.*Q6_K",
        ),
        ({"what_if": {r"blk\.0\.ffn_up\.weight": "Q9"}}, BadSetting, "one of F32"),
        ({"what_if": {r"blk\.0\.ffn_up\.weight": ""}}, BadSetting, "a type"),
        ({"path": "gemma"}, BadSetting, "base: '"),
        ({"path": "q8", "n_chunks": 0}, BadSetting, "chunks"),
        ({"path": "f16", "base": "q8", "guilty": 1}, BadSetting, "F32, F16 or BF16"),
    ],
)
def test_what_cannot_be_measured_says_why(
    files: dict[str, Path], tiny_base_path: Path, given: dict, error: type, match: str
) -> None:
    known = {**files, "gemma": tiny_base_path}
    given = {**given, "path": known.get(given.get("path"), "")}
    base = known[given.pop("base", "f16")]
    with pytest.raises(error, match=match):
        quality(base, TEXT, ctx=CTX, options=options(), **given)


@pytest.mark.parametrize("after", [1, 3])
def test_a_cancelled_comparison_gives_all_memory_back(files: dict[str, Path], after: int) -> None:
    """While models are opened, and between chunks."""
    pool, seen = system_pool(), list[Progress]()
    used = pool.used
    path, base = str(files["q8"]), str(files["f16"])
    request = MeasureQuality(0, base, options(), TEXT, path, CTX)

    def is_cancelled() -> bool:
        return sum(one.stage == "score" for one in seen) >= after

    with pytest.raises(Cancelled):
        measure_quality(request, seen.append, is_cancelled)
    assert [one.done for one in seen if one.stage == "score"] == list(range(1, after + 1))
    assert pool.used == used


def test_in_turn_where_both_do_not_fit(
    files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second of two models that are open at once is refused here."""
    opened, is_open = quality_module.load_model, list[str]()

    def one_at_a_time(path: str, *given: object) -> LoadedModel:
        if is_open:
            raise NoMem("host", "weights", 1 << 30, 0)
        model = opened(path, *given)
        is_open.append(path)
        end = model.close
        monkeypatch.setattr(model, "close", lambda: (is_open.clear(), end()))
        return model

    monkeypatch.setattr(quality_module, "load_model", one_at_a_time)
    given = {"ctx": CTX, "options": options(), "n_chunks": 2}
    found = quality(files["f16"], TEXT, files["q8"], **given)
    assert found.in_turn
    with pytest.raises(NoMem):
        quality(files["f16"], TEXT, files["q8"], in_turn=False, **given)


MEASURED = """
import ctypes, gc, sys, threading
from engine.laboratory.library import quality
from engine.settings import EngineOptions

def private():
    with open("/proc/self/status") as file:
        return next(int(x.split()[1]) for x in file if x.startswith("RssAnon")) << 10

def measured(**given):
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    seen, ended = [private()], threading.Event()
    def watch():
        while not ended.wait(0.005):
            seen.append(private())
    watcher = threading.Thread(target=watch)
    watcher.start()
    options = EngineOptions(ctx=256, parallel=1, prepared=0)
    found = quality(path, text, ctx=256, n_chunks=2, options=options, **given)
    ended.set()
    watcher.join()
    return found.memory, max(seen) - seen[0]

path, text = sys.argv[1], open(sys.argv[2], encoding="utf-8").read() * 2
runs = [{"path": path, "in_turn": False}, {"path": path, "in_turn": True}]
if sys.argv[3:]:
    runs = [{"what_if": {name: "Q8_0"}} for name in sys.argv[3:]]
measured(**runs[0])  # drivers and libraries are loaded once
for given in runs:
    print(*measured(**given))
"""


def as_planned(path: Path, *swapped: str) -> list[int]:
    """Planned bytes of both modes, or of a measurement for each pattern; a process of its own
    measures the same within 5 %.
    """
    text = Path(__file__).parents[2] / "goldens" / "text.txt"
    words = [sys.executable, "-c", MEASURED, str(path), str(text), *swapped]
    ended = subprocess.run(words, capture_output=True, text=True, check=True)
    pairs = [[int(n) for n in line.split()] for line in ended.stdout.splitlines()]
    for planned, measured in pairs:
        assert measured == pytest.approx(planned, rel=0.05)
    return [planned for planned, _ in pairs]


@pytest.mark.full
@pytest.mark.device
@pytest.mark.only_linux("reads /proc")
@pytest.mark.parametrize("model", ["smollm2_path", "gemma3_path"])
def test_memory_is_as_planned_in_both_modes(model: str, request: pytest.FixtureRequest) -> None:
    both, in_turn = as_planned(request.getfixturevalue(model))
    assert in_turn < 0.8 * both


@pytest.mark.full
@pytest.mark.device
@pytest.mark.only_linux("reads /proc")
def test_memory_is_as_planned_with_swapped_tensors(smollm2_path: Path, tmp_path: Path) -> None:
    path = write_f16(smollm2_path, tmp_path / "base.gguf")
    one, largest = as_planned(path, r"blk\.0\.ffn_up\.weight", r"token_embd\.weight")
    assert largest - one > 200 << 20
