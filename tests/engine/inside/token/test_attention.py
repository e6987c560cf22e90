"""Where heads look, against a softmax in float64 of copied queries and the cache's own keys."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from engine.backends.opencl.drivers.device import list_devices
from engine.inside.token.attention import weights
from engine.protocol import Attended, Examine
from engine.runner import load
from engine.runner.api import Model
from engine.runner.sequence import Sequenced
from tests.engine.inside.token import oracle
from tests.engine.inside.token.test_lens import check as check_lens
from tests.engine.models.text.files import write
from tests.engine.models.text.rows import ROWS
from tests.engine.runner.memory import two_devices
from tests.goldens.tiny import WRITERS, tiny_tokens, write_tiny
from tests.kernels.harness import nmse

DEVICES = ["host", *[d.name for d in list_devices() if d.default][:1]]
EVERY = [("f16", True), ("f32", True), ("f16", False)]
BLOCKS = [("q8_0", True), ("q4_0", True)]  # of 32: heads of the tiny llama are smaller
APART = {"f16": 1e-6, "f32": 1e-6, "q8_0": 1e-6, "q4_0": 1e-5}


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("attend")
    return {name: write_tiny(folder / f"{name}.gguf", name) for name in WRITERS}


def rows_of(found: Attended) -> dict[int, np.ndarray]:
    return {i: np.frombuffer(row, "<f4").reshape(found.n_head, -1) for i, row in found.rows.items()}


def check(model: Model, request: Examine, apart: float, slopes: Sequence[float] = (0.0,)) -> None:
    """Rows, what they make of the values, and every summary."""
    loaded = model.loaded
    conversation = Sequenced(loaded.stepper)
    found = oracle.look(model, conversation, request)
    items = np.frombuffer(found.items.ids, "<i4").tolist()[: request.at]
    told = oracle.told(model, conversation, items)
    attended = found.attention
    assert attended is not None
    n = len(items)
    assert (attended.layers, attended.n_places) == ([*range(told.n_layer)], n)
    rows = rows_of(attended)
    assert sorted(rows) == sorted(request.attention_layers or ())
    shape = (told.n_layer, attended.n_head)
    summaries = (attended.entropy, attended.distance, attended.first)
    entropy, distance, first = (np.frombuffer(b, "<f4").reshape(shape) for b in summaries)
    for layer, row in rows.items():
        attention = loaded.built.model.spec(layer).attention  # type: ignore[attr-defined]
        want = oracle.attention(told, layer, n - 1, attention.scale, slopes)
        assert nmse(row, want) < apart
        np.testing.assert_allclose(row.sum(1), 1, atol=1e-6)
        assert (row[want == 0] == 0).all()
        kept = loaded.built.layers[layer]
        window = loaded.built.caches.caches[kept.cache].window  # type: ignore[union-attr]
        assert (np.count_nonzero(row, axis=1) <= (window or n)).all()
        values = told.kept("v", layer)
        mixed = np.zeros((attended.n_head, values[n - 1].shape[-1]))
        for p in range(n):
            if want[:, p].any():
                heads = np.repeat(values[p], attended.n_head // len(values[p]), axis=0)
                mixed += row[:, p, None] * heads
        assert nmse(told.values[f"kqv_out-{layer}"].reshape(mixed.shape), mixed) < 10 * apart
        logs = np.log(np.where(want > 0, want, 1))
        np.testing.assert_allclose(entropy[layer], -(want * logs).sum(1), atol=2e-2 * apart**0.25)
        back = (want * np.arange(n - 1, -1, -1)).sum(1)
        np.testing.assert_allclose(distance[layer], back, atol=n * 2e-2 * apart**0.25)
        np.testing.assert_allclose(first[layer], want[:, 0], atol=1e-2 * apart**0.25)
    if len(rows) == told.n_layer:
        mean = np.mean(list(rows.values()), axis=(0, 1))
        np.testing.assert_allclose(np.frombuffer(attended.mean, "<f4"), mean, atol=1e-6)


@pytest.mark.each_value
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("architecture", "kv", "fused"),
    [
        (name, *kept)
        for name in sorted(WRITERS)
        for kept in (EVERY if name == "llama" else EVERY + BLOCKS)
    ],
)
def test_rows_are_the_softmax_of_queries_and_cached_keys(
    paths: dict[str, Path], architecture: str, device: str, kv: str, fused: bool
) -> None:
    flash = None if fused else False
    with load(paths[architecture], device=device, ctx=64, kv=kv, flash_attention=flash) as model:
        ids, layers = tiny_tokens(architecture).tolist(), [*range(model.loaded.built.n_layer)]
        request = Examine(1, prompt="a", prefix_tokens=ids, at=33, attention_layers=layers)
        check(model, request, APART[kv])


@pytest.mark.parametrize("fused", [True, False])
def test_scores_that_fall_with_the_distance(fused: bool, tmp_path: Path) -> None:
    """Slopes of BLOOM's six heads: four, and the first and the third of eight."""
    path, flash = write(ROWS["bloom"], tmp_path), None if fused else False
    with load(path, device="host", ctx=64, kv="f32", flash_attention=flash) as model:
        ids = np.random.default_rng(4).integers(3, 96, 40).tolist()
        request = Examine(1, prompt="a", prefix_tokens=ids, at=33, attention_layers=[0, 1, 2])
        check(model, request, 1e-9, [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3])


@pytest.mark.device
def test_layers_on_several_devices(paths: dict[str, Path]) -> None:
    """Each with the keys of its own layers; norm and output on one of them."""
    one, two = two_devices()
    with load(paths["gemma3"], device=one, ctx=64, place=f"0-2={two},out={two}") as model:
        ids = tiny_tokens("gemma3").tolist()
        asked = Examine(1, prompt="a", prefix_tokens=ids, at=33, attention_layers=[0, 2, 3])
        check(model, asked, APART["f16"])
        check_lens(model, replace(asked, lens=True), apart=1e-5)


def test_a_head_with_a_sink_gives_less_and_scores_may_be_bounded() -> None:
    rng = np.random.default_rng(2)
    q, keys = rng.normal(0, 3, (4, 8)), rng.normal(0, 3, (6, 2, 8))
    sinks = np.float32([-100, 0, 3, 60])
    scores = np.stack([keys[:, h // 2] @ q[h] for h in range(4)]) * 0.5
    for cap, wanted in ((0.0, scores), (2.0, 2 * np.tanh(scores / 2))):
        terms = np.exp(wanted)
        want = terms / (terms.sum(1) + np.exp(sinks.astype(np.float64)))[:, None]
        got = weights(q.astype(np.float32), keys.astype(np.float32), 0.5, cap, sinks)
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-12)
        plain = weights(q.astype(np.float32), keys.astype(np.float32), 0.5, cap)
        np.testing.assert_allclose(plain, terms / terms.sum(1)[:, None], rtol=2e-5)


@pytest.mark.full_cases(r"\[gemma3")
@pytest.mark.model_file
@pytest.mark.parametrize(("name", "n"), [("smollm2_path", 60), ("gemma3_path", 540)])
def test_real_models(name: str, n: int, request: pytest.FixtureRequest) -> None:
    """Beyond gemma's window of 512: a layer of it, and one that sees all."""
    with load(request.getfixturevalue(name), ctx=768) as model:
        ids = model.loaded.tokenizer.encode(TEXT.read_text("utf-8"), add_special=False)[:n]
        asked = Examine(1, prompt="a", prefix_tokens=ids, at=n - 2, attention_layers=[4, 5])
        check(model, asked, 1e-5)


TEXT = Path(__file__).parents[3] / "goldens" / "text.txt"
