"""Keys and values in other types than f16: logits, shifts, memory, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

from engine.backends.opencl.drivers.device import list_devices
from engine.device.backend import Component
from engine.errors import BadSetting
from engine.gguf.dequantize import dequantize
from engine.gguf.formats import by_name
from engine.runner import load
from engine.runner.api import Model
from engine.runner.loading import load_model
from engine.settings import KV_TYPES, EngineOptions
from tests.engine.runner.memory import two_devices
from tests.goldens.tiny import tiny_tokens, write_tiny
from tests.kernels.harness import nmse
from tests.truth.measure import GOLDENS

pytestmark = pytest.mark.full_cases(r"\[(f32|q8_0)-pocl")

DEVICES = ["host", *(d.name for d in list_devices())]
# How far logits are from those over f32: a scale for 32 numbers of 8 or of 4 bits.
APART = {"f16": 1e-5, "q8_0": 2e-4, "q4_0": 5e-2, "f32": 1e-12}
BYTES = {"f16": 2, "q8_0": 34 / 32, "q4_0": 18 / 32, "f32": 4}
every_type = pytest.mark.parametrize("kv", KV_TYPES)
every_device = pytest.mark.parametrize("device", DEVICES)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Heads of 32, full and windowed layers."""
    return write_tiny(tmp_path_factory.mktemp("kv") / "tiny.gguf", "gemma3")


def logits(path: Path, device: str, kv: str, place: str = "") -> np.ndarray:
    """Of a prompt, and of tokens one by one."""
    tokens = tiny_tokens("gemma3").tolist()
    with load(path, device=device, ctx=64, kv=kv, place=place) as model:
        step = model.loaded.stepper.step
        parts = [step(tokens[:30], 0, range(30))]
        parts += [step([t], 30 + i, [0]) for i, t in enumerate(tokens[30:])]
    return np.concatenate(parts)


@pytest.fixture(scope="module")
def on_host(path: Path) -> dict[str, np.ndarray]:
    return {kv: logits(path, "host", kv) for kv in KV_TYPES}


@pytest.mark.each_value
@every_device
@every_type
def test_logits(path: Path, on_host: dict[str, np.ndarray], device: str, kv: str) -> None:
    got = logits(path, device, kv)
    assert nmse(got, on_host["f32"]) < APART[kv]
    assert nmse(got, on_host[kv]) < 0.1 * APART[kv] + 1e-6  # other roundings here and there


@pytest.mark.sampled(2)
@every_type
def test_logits_over_two_devices(path: Path, on_host: dict[str, np.ndarray], kv: str) -> None:
    one, two = two_devices()
    got = logits(path, f"{one},{two}", kv, f"0-2={one},3-6={two},out=host")
    assert nmse(got, on_host[kv]) < 0.1 * APART[kv] + 1e-6


@pytest.mark.each_value
@every_device
@every_type
def test_cells_take_what_their_type_does(path: Path, device: str, kv: str) -> None:
    with load(path, device=device, ctx=64, kv=kv) as model:
        built, pool = model.loaded.built, model.loaded.device.pool
        cells = [built.caches.caches[layer.cache].n_cells for layer in built.layers]
        held = {
            owner.layer: size
            for (name, owner), size in pool.taken.items()
            if name == device and owner.component == Component.CACHE
        }
    # One head of 32 for keys, one for values; all sizes here are whole alignments.
    assert held == {i: 2 * n * 32 * BYTES[kv] for i, n in enumerate(cells)}


@pytest.mark.full
@pytest.mark.model_file
@pytest.mark.parametrize(
    "device",
    [d if i == 0 else pytest.param(d, marks=pytest.mark.full) for i, d in enumerate(DEVICES[1:])],
)
def test_how_well_a_real_text_is_predicted(smollm2_path: Path, device: str) -> None:
    """The mean negative log-likelihood of 255 tokens."""
    text = (GOLDENS / "text.txt").read_text("utf-8")
    mean = {}
    for kv in ("f16", "q8_0", "q4_0"):
        with load(smollm2_path, device=device, ctx=512, kv=kv) as model:
            tokens = model.loaded.tokenizer.encode(text, parse_special=False)[:512]
            rows = np.concatenate([part for _, part in model.logits(tokens)])
        scores = rows[256:511].astype(np.float64)
        scores -= scores.max(axis=1, keepdims=True)
        chosen = scores[np.arange(255), tokens[257:]]
        mean[kv] = float(np.mean(np.log(np.exp(scores).sum(axis=1)) - chosen))
    print(device, mean)
    assert abs(mean["q8_0"] / mean["f16"] - 1) < 0.01
    assert abs(mean["q4_0"] / mean["f16"] - 1) < 0.02  # 0.03 if it were not rotated


def keys(model: Model, layer: int) -> np.ndarray:
    """The cached keys of a layer, in order of their positions: [positions, D * K]."""
    stepper, built = model.loaded.stepper, model.loaded.built
    leaf = built.layers[layer]
    at = stepper.planner.placed[leaf.k]
    raw = at.buffer.read(at.offset, leaf.k.nbytes).reshape(leaf.k.shape[1], -1)
    cells = built.caches.caches[leaf.cache].cells
    used = np.flatnonzero(cells[:, 0])
    rows = raw[used[np.argsort(cells[used, 1])]]
    return dequantize(rows, leaf.k.fmt).astype(np.float64)


@pytest.mark.each_value
@every_device
@every_type
def test_a_shift_turns_keys_to_their_new_positions(path: Path, device: str, kv: str) -> None:
    """Keys of layer 0 depend on token and position alone; each turn rounds once more."""
    tokens = list(range(10, 30))
    with load(path, device=device, ctx=64, kv=kv) as model:
        stepper = model.loaded.stepper
        stepper.step(tokens, 0, [19])
        before = keys(model, 0)
        stepper.forget(4, 9)
        shifted = keys(model, 0)
        stepper.forget(0)
        kept = tokens[:4] + tokens[9:]
        stepper.step(kept, 0, [len(kept) - 1])
        fresh = keys(model, 0)
    np.testing.assert_array_equal(shifted[:4], before[:4])  # what stays is not rounded again
    assert nmse(shifted, fresh) < {"f16": 2e-6, "q8_0": 2e-4, "q4_0": 3e-2, "f32": 1e-10}[kv]


@every_device
@pytest.mark.parametrize("kv", ["q8_0", "q4_0"])
def test_blocks_need_flash_attention(path: Path, device: str, kv: str) -> None:
    options = EngineOptions(device=device, kv=kv, flash_attention=False)
    with pytest.raises(BadSetting, match=f"kv: '{kv}'.*flash attention"):
        load_model(path, options)


def test_heads_that_are_no_whole_blocks(tiny_path: Path) -> None:
    with pytest.raises(BadSetting, match="kv: 'q8_0'.* head of 16 .* 32"):
        load(tiny_path, device="host", kv="q8_0")


def test_an_unknown_type(tiny_path: Path) -> None:
    assert [by_name(kv).name.lower() for kv in KV_TYPES] == list(KV_TYPES)
    with pytest.raises(BadSetting, match="kv: 'q5_0'.*f16, q8_0, q4_0, f32"):
        load(tiny_path, device="host", kv="q5_0")
