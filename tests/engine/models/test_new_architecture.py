"""An architecture that the engine has never seen is one file: the one in ./architectures.

What it computes is held against its definition, written once more in NumPy below.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import gguf
import numpy as np
import pytest

from engine.errors import BadFile, GivesNoText, TensorMismatch, UnsupportedModel
from engine.gguf import open_gguf
from engine.inside.token.attention import lookings
from engine.layers.step import Step
from engine.models import text
from engine.models.base import Output
from engine.models.build import StepShape, build_model, supported
from engine.protocol import Change, Sampling
from engine.runner import load
from engine.runner.api import Model
from engine.runner.edits import edits_for
from engine.runner.loading import load_model
from engine.runner.sequence import Sequenced
from engine.settings import EngineOptions
from tests.engine.runner.memory import foreseen, held, two_devices
from tests.goldens.tiny import Draws, E, V, byte_level_vocabulary, write_tiny
from tests.truth.compare import nmse

LAYERS, H, K, D, F, WINDOW, EPS, BASE = 4, 4, 2, 16, 96, 6, 1e-5, 1e4
TOKENS = Draws(9).ids(24)
SCALE = 0.5


def tensors() -> dict[str, np.ndarray]:
    """In the order and orientation of the file."""
    draws = Draws(7)
    made = {
        "token_embd.weight": draws.matrix(V, E, gain=5),
        "tide.weight": draws.matrix(V, E, gain=2),
        "output_norm.weight": draws.norm(E),
        "logit_scale.weight": np.array([SCALE], np.float32),
    }
    for i in range(LAYERS):
        if i != 2:
            made[f"blk.{i}.attn_norm.weight"] = draws.norm(E)
            for name, rows, columns in (
                *(("attn_q", H * D, E), ("attn_k", K * D, E), ("attn_v", K * D, E)),
                ("attn_output", E, H * D),
            ):
                made[f"blk.{i}.{name}.weight"] = draws.matrix(rows, columns, gain=1.3)
            made[f"blk.{i}.attn_q_norm.weight"] = draws.norm(D)
            made[f"blk.{i}.attn_k_norm.weight"] = draws.norm(D)
        made[f"blk.{i}.ffn_norm.weight"] = draws.norm(E)
        for name, rows, columns in (("gate", F, E), ("up", F, E), ("down", E, F)):
            made[f"blk.{i}.ffn_{name}.weight"] = draws.matrix(rows, columns)
    return made


def write(writer: gguf.GGUFWriter) -> None:
    writer.add_context_length(256)
    writer.add_embedding_length(E)
    writer.add_block_count(LAYERS)
    writer.add_head_count(H)
    writer.add_head_count_kv(K)
    if writer.arch != "minnow-large":
        writer.add_sliding_window(WINDOW)
    writer.add_layer_norm_rms_eps(EPS)
    byte_level_vocabulary(writer)
    for name, values in tensors().items():
        writer.add_tensor(name, values)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    folder = Path(__file__).parent / "architectures"
    monkeypatch.setattr(text, "__path__", [*text.__path__, str(folder)])
    yield
    for name in ("minnow", "minnow_large", "minnow_school", "minnow_guest"):
        sys.modules.pop(f"{text.__name__}.{name}", None)
        text.__dict__.pop(name, None)


@pytest.fixture
def path(tmp_path: Path, known: None) -> Path:
    return write_tiny(tmp_path / "minnow.gguf", "minnow", write=write)


def normed(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + EPS) * weight


def turned(x: np.ndarray) -> np.ndarray:
    """x [T, heads, D], channel j with channel j + D/2, by position and frequency."""
    angle = np.arange(len(x))[:, None] * BASE ** (-2 * np.arange(D // 2) / D)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    a, b = x[..., : D // 2], x[..., D // 2 :]
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


def by_definition(
    tokens: np.ndarray, window: int = WINDOW, borrows: bool = False, without: int = -1
) -> tuple[np.ndarray, np.ndarray]:
    """Logits [T, V] and the last norm's rows [T, E], in float64.

    Where it `borrows`, the last layer's keys and values are those of layer 1; what the layer
    `without` adds does not count.
    """
    w = {name.removesuffix(".weight"): t.astype(np.float64) for name, t in tensors().items()}
    x, n = w["token_embd"][tokens] + w["tide"][tokens], len(tokens)
    ahead = np.arange(n)[:, None] - np.arange(n)
    lent: tuple[np.ndarray, ...] = ()
    for i in range(LAYERS):
        entered = x
        block = {k.removeprefix(f"blk.{i}."): t for k, t in w.items() if k.startswith(f"blk.{i}.")}
        if i != 2:
            h = normed(x, block["attn_norm"])
            q = normed((h @ block["attn_q"].T).reshape(n, H, D), block["attn_q_norm"])
            k = normed((h @ block["attn_k"].T).reshape(n, K, D), block["attn_k_norm"])
            v = (h @ block["attn_v"].T).reshape(n, K, D).repeat(H // K, 1)
            if i % 2 == 0:
                q, k = turned(q), turned(k)
            k, v = lent if borrows and i == 3 else (k, v)
            lent = (k, v) if i == 1 else lent
            scores = np.einsum("thd,shd->hts", q, k.repeat(H // K, 1)) / np.sqrt(D)
            seen = (ahead >= 0) & (ahead < (window if i == 0 else n))
            scores = np.where(seen, scores, -np.inf)
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            weights /= weights.sum(-1, keepdims=True)
            x = x + np.einsum("hts,shd->thd", weights, v).reshape(n, H * D) @ block["attn_output"].T
        h = normed(x, block["ffn_norm"])
        gate = h @ block["ffn_gate"].T
        gelu = gate / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3)))
        x = x + (gelu * (h @ block["ffn_up"].T)) @ block["ffn_down"].T
        x = entered if i == without else x
    rows = normed(x, w["output_norm"])
    return rows @ w["token_embd"].T * SCALE, rows


def test_it_is_unknown_without_its_folder(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "minnow.gguf", "minnow", write=write)
    with open_gguf(path) as file, pytest.raises(UnsupportedModel, match=r"minnow.*gemma3.*llama"):
        build_model(file, 64, 16)


@pytest.mark.usefixtures("known")
def test_it_is_found_by_its_name() -> None:
    assert "minnow" in supported()


def test_it_computes_what_it_defines(path: Path) -> None:
    wanted, _ = by_definition(TOKENS)
    with load(path, device="host", kv="f32", ctx=64) as model:
        at_once = np.concatenate([rows.copy() for _, rows in model.logits(TOKENS.tolist())])
        step = model.loaded.stepper.step
        one_by_one = [step([int(t)], i, [0])[0].copy() for i, t in enumerate(TOKENS)]
    assert nmse(at_once, wanted) < 1e-10
    assert nmse(np.stack(one_by_one), wanted) < 1e-10


@pytest.mark.usefixtures("known")
def test_a_variant_is_a_subclass_and_a_dash_an_underscore(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "large.gguf", "minnow-large", write=write)
    wanted, _ = by_definition(TOKENS, window=len(TOKENS))
    with load(path, device="host", kv="f32", ctx=64) as model:
        logits = np.concatenate([rows.copy() for _, rows in model.logits(TOKENS.tolist())])
    assert nmse(logits, wanted) < 1e-10


@pytest.mark.usefixtures("known")
def test_cells_may_be_borrowed(tmp_path: Path) -> None:
    """Nothing is allocated for them; who looks knows whose attention it is."""
    path = write_tiny(tmp_path / "guest.gguf", "minnow-guest", write=write)
    wanted, _ = by_definition(TOKENS, borrows=True)
    assert nmse(by_definition(TOKENS)[0], wanted) > 1e-3
    with load(path, device="host", kv="f32", ctx=64) as model:
        built, stepper = model.loaded.built, model.loaded.stepper
        at_once = np.concatenate([rows.copy() for _, rows in model.logits(TOKENS.tolist())])
        stepper.forget(0)
        one_by_one = [stepper.step([int(t)], i, [0])[0].copy() for i, t in enumerate(TOKENS)]
        assert [len(built.kept_by(i)) for i in range(LAYERS)] == [2, 2, 0, 0]
        looked = lookings(stepper.one_token().graph, built.layers)
        assert [(one.layer, one.kept.borrowed) for one in looked] == [
            *((0, False), (1, False), (3, True))
        ]
        sequence, change = Sequenced(stepper), Change(1, "layer", None, 0.0)
        sequence.reuse((), edits=edits_for(built, [], len(TOKENS), [change]))
        for _ in sequence.prefill(TOKENS.tolist()[:-1], lambda: False):
            pass
        without = sequence.append(int(TOKENS[-1]))
    assert nmse(at_once, wanted) < 1e-10
    assert nmse(np.stack(one_by_one), wanted) < 1e-10
    assert nmse(without, by_definition(TOKENS, borrows=True, without=1)[0][-1]) < 1e-10


def test_it_can_be_asked_for_embeddings(path: Path) -> None:
    _, wanted = by_definition(TOKENS[:8])
    with load(path, device="host", kv="f32", ctx=64) as model:
        built, planner = model.loaded.built, model.loaded.stepper.planner
        positions = np.arange(8, dtype=np.int32)
        steps = tuple(built.caches.start(positions, 0))
        cells = built.buckets([s.n_kv for s in steps])
        p, graph = built.build(StepShape(8, 8, cells, output=Output.EMBEDDINGS))
        assert graph.outputs[0].dims == (E, 8)
        values = p.fill(Step(TOKENS[:8], positions, positions, steps))
        (rows,) = planner.plan("embeddings", lambda: graph).run(values)
        assert nmse(rows.reshape(8, E), wanted) < 1e-10


@pytest.mark.usefixtures("known")
def test_what_gives_no_logits_embeds_and_does_not_write(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "school.gguf", "minnow-school", write=write)
    with pytest.raises(GivesNoText, match=r"'minnow-school' models write no text.*cutaway embed"):
        load_model(path, EngineOptions(device="host", ctx=64))
    with load(path, device="host", kv="f32", ctx=64) as model:
        _, rows = by_definition(np.asarray(model.loaded.tokenizer.encode("other"), np.int32))
        (found,) = model.embed(["other"], normalized=False)
        assert nmse(found, rows[-1]) < 1e-10
        with pytest.raises(GivesNoText):
            model.generate("other").__next__()


def test_it_answers_and_outlives_its_context(path: Path) -> None:
    def answer(model: Model, length: int) -> str:
        model.loaded.tokenizer.eog = frozenset()
        greedy = Sampling(temperature=0)
        return "".join(model.generate("the other", max_tokens=length, sampling=greedy))

    with load(path, device="host", ctx=64) as model:
        assert len(answer(model, 150)) > 100
        again = answer(model, 5)
    with load(path, device="host", ctx=64) as model:
        assert again == answer(model, 5)


@pytest.mark.device
def test_it_lies_on_two_devices_and_takes_what_was_foreseen(path: Path) -> None:
    wanted, _ = by_definition(TOKENS)
    one, two = two_devices()
    options = EngineOptions(device=f"{one},{two}", ctx=64, place=f"0-1={one},2-3={two},out=host")
    with closing(load_model(path, options)) as model:
        assert foreseen(model.dry) == held(model.dry)
        layers = Counter((d, i) for d, component, i in held(model.dry) if component == "weights")
        assert set(layers) == {(one, 0), (one, 1), (two, 2), (two, 3)}
        caches = {i for _, component, i in held(model.dry) if component == "cache"}
        assert caches == {0, 1, 3}
        mapped = {t.name: owner for t, owner in model.dry.mapped}
        assert {n: str(o.component) for n, o in mapped.items() if o.layer is None} == {
            "token_embd.weight": "input",
            "tide.weight": "input",
        }
        assert {n for n, o in mapped.items() if o.layer == LAYERS} == {
            "output.weight",
            "output_norm.weight",
        }
        logits = model.stepper.step(TOKENS.tolist(), 0, range(len(TOKENS)))
        assert nmse(logits, wanted) < 1e-4
    assert held(model.dry) == {}


@pytest.mark.usefixtures("known")
def test_it_is_held_to_its_names_and_ranges(tmp_path: Path) -> None:
    def build(**changes: object) -> None:
        path = write_tiny(tmp_path / "odd.gguf", "minnow", write=write, **changes)  # type: ignore[arg-type]
        with open_gguf(path) as file:
            build_model(file, 64, 16)

    with pytest.raises(TensorMismatch, match=r"blk\.2\.bait\.weight"):
        build(tensors={"blk.2.bait.weight": np.ones(E, np.float32)})
    with pytest.raises(BadFile, match=r"logit_scale\.weight is \[2\]; expected \[1\]"):
        build(tensors={"logit_scale.weight": np.ones(2, np.float32)})
    window = {"minnow.attention.sliding_window": (0, gguf.GGUFValueType.UINT32)}
    with pytest.raises(BadFile, match=r"'minnow\.attention\.sliding_window' is 0; expected 1 to"):
        build(metadata=window)
