"""LoRA adapters: what they add against the same merged in float64, and what is refused."""

import re
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest

from engine.errors import BadFile, BadSetting, CutawayError, NotSupported, UnsupportedModel
from engine.gguf import open_gguf
from engine.gguf.values import ValueType
from engine.models.build import find
from engine.protocol import Edit
from engine.runner import load
from engine.runner.api import Model
from tests.adapters import (
    PEER_EACH,
    PEER_SCALE,
    Halves,
    architecture,
    drawn,
    matrices,
    merged,
    write_adapter,
    write_pair,
)
from tests.engine.models.text.files import GOLDENS, golden, write
from tests.engine.models.text.rows import ROWS, Row
from tests.engine.models.text.test_rows import MIXED, first_driver, logits
from tests.engine.runner.memory import drivers
from tests.gguf_files import Blocks, drafted
from tests.goldens.tiny import tiny_tokens, write_tiny
from tests.goldens.vision.families import write_single
from tests.truth.compare import nmse

UNCHANGED = re.compile(
    r"conv|ssm_[ad]$|ssm_norm|\.bias$|indexer|attn_[qk]_norm|position_embd|per_layer_token_embd"
    r"|_lerp_|time_mix_(first|decay)\.|blk\.0\.time_mix_v\d"
)
"""What is no matrix that multiplies, and tables that are looked up."""
SCALE, ALPHA, RANK = 0.15, 8.0, 4
FACTOR = SCALE * ALPHA / RANK
GOLDEN = GOLDENS.parent / "adapter.npz"


@pytest.fixture(params=ROWS.values(), ids=lambda row: row.name)
def row(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Row:
    one: Row = request.param
    for name, value in one.params:
        defaults = find(one.architecture).Params.__init__.__kwdefaults__  # type: ignore[misc]
        monkeypatch.setitem(defaults, name, value)
    return one


def halves_of(path: Path) -> dict[str, Halves]:
    """For every matrix of a file but tables that are read as an output, too, which may differ."""
    shapes = {n: s for n, s in matrices(path).items() if not UNCHANGED.search(n)}
    tables = [name for name in ("output.weight", "token_embd.weight") if name in shapes]
    if len(tables) == 1:
        del shapes[tables[0]]
    return drawn(shapes, RANK)


@pytest.mark.sampled(4)
def test_every_architecture_on_the_host(row: Row, tmp_path: Path) -> None:
    path, (ids, _) = write(row, tmp_path), golden(row)
    halves = halves_of(path)
    assert len(halves) > 6
    adapter = write_adapter(tmp_path / "a.gguf", architecture(path), halves, ALPHA)
    both = merged(path, tmp_path / "merged.gguf", [(halves, FACTOR)])
    with load(both, device="host", kv="f32", ctx=128) as model:
        want = logits(model, ids[0])
    with load(path, device="host", kv="f32", ctx=128, lora={str(adapter): SCALE}) as model:
        got = logits(model, ids[0], MIXED)
        model.scale_adapters(0)
        plain = logits(model, ids[0])
    assert nmse(plain, want) > 1e-4
    assert nmse(got, want) < 1e-10
    assert nmse(plain, golden(row)[1][0]) < 1e-10


def tiny(folder: Path, kind: gguf.GGMLQuantizationType | None = None) -> Path:
    return write_tiny(folder / "base.gguf", "llama", {} if kind is None else {"weight": kind})


def answers(model: Model) -> np.ndarray:
    ids, stepper = tiny_tokens("llama").tolist(), model.loaded.stepper
    stepper.forget(0)
    parts = [stepper.step(ids[:25], 0, range(25)).copy(), stepper.step(ids[25:], 25, range(15))]
    return np.concatenate(parts)


def opened(path: Path, device: str = "host", **lora: float) -> Model:
    kv = "f32" if device == "host" else "f16"
    files = {str(path.with_name(f"{name}.gguf")): scale for name, scale in lora.items()}
    return load(path, device=device, kv=kv, ctx=64, lora=files)


def test_embeddings_alpha_and_several(tmp_path: Path) -> None:
    """Of two adapters one has no alpha, and changes the table, too."""
    path = tiny(tmp_path)
    shapes = matrices(path)
    one = drawn({n: s for n, s in shapes.items() if "ffn" in n or n.startswith("output")}, 3)
    two = drawn(shapes, 5, seed=2)
    write_adapter(tmp_path / "a.gguf", "llama", one, 12.0)
    write_adapter(tmp_path / "b.gguf", "llama", two, None, kind=np.float16)
    two = {n: h._replace(a=np.float16(h.a), b=np.float16(h.b)) for n, h in two.items()}
    two = {n: h._replace(a=h.a.astype("f8"), b=h.b.astype("f8")) for n, h in two.items()}
    both = merged(path, tmp_path / "merged.gguf", [(one, 0.25 * 12 / 3), (two, -0.125)])
    with opened(both) as model:
        want = answers(model)
    with opened(path, a=0.25, b=-0.125) as model:
        assert nmse(answers(model), want) < 1e-10
        assert [a.scale for a in model.loaded.adapters] == [0.25, -0.125]
        model.scale_adapters(0.25, 0)
        assert nmse(answers(model), want) > 1e-4


@pytest.mark.device
@pytest.mark.parametrize("kind", [np.float32, np.float16])
@pytest.mark.parametrize("rank", [1, 8, 20])
def test_on_devices(rank: int, kind: type, tmp_path: Path) -> None:
    path = tiny(tmp_path)
    halves = drawn(matrices(path), rank)
    write_adapter(tmp_path / "a.gguf", "llama", halves, None, kind=kind)
    both = merged(path, tmp_path / "merged.gguf", [(halves, 0.3)])
    with opened(both) as model:
        want = answers(model)
    for driver in drivers():
        with opened(path, driver, a=0.3) as model:
            assert nmse(answers(model), want) < 1e-4, driver


@pytest.mark.device
def test_a_quantised_model_whose_adapter_is_off_is_the_model_alone(tmp_path: Path) -> None:
    path = tiny(tmp_path, gguf.GGMLQuantizationType.Q8_0)
    write_adapter(tmp_path / "a.gguf", "llama", drawn(matrices(path)))
    with opened(path, first_driver()) as model:
        want, alone = answers(model), _nodes(model)
    with opened(path, first_driver(), a=0) as model:
        assert np.array_equal(answers(model), want)
        assert _nodes(model) == alone
        model.scale_adapters(1)
        assert nmse(answers(model), want) > 1e-3
        assert _nodes(model) > alone
        model.scale_adapters(0)
        assert np.array_equal(answers(model), want)


def _nodes(model: Model) -> int:
    return len(model.loaded.stepper.one_token().graph.nodes)


@pytest.mark.device
@pytest.mark.parametrize("name", ["qwen35", "qwen35moe"])
def test_matrices_with_scales_of_their_own(name: str, tmp_path: Path) -> None:
    """What an adapter adds is not multiplied by the scale of four-bit floats."""
    path, (ids, _) = write(ROWS[name], tmp_path), golden(ROWS[name])
    names = ("blk.0.attn_gate.weight", "blk.0.attn_qkv.weight", "output.weight")
    halves = drawn({n: s for n, s in matrices(path).items() if n in names})
    assert len(halves) == len(names)
    write_adapter(tmp_path / "a.gguf", architecture(path), halves, ALPHA)
    both = merged(path, tmp_path / "merged.gguf", [(halves, FACTOR)])
    with open_gguf(path) as file:
        draft = drafted(file)
    for tensor in names:
        blocks = draft.tensors[tensor]
        values = np.frombuffer(blocks.data, "<f4") / np.float32(4)
        draft.tensors[tensor] = Blocks(0, blocks.dims, values.tobytes())
        scale = f"{tensor.removesuffix('weight')}scale"
        draft.tensors[scale] = Blocks(0, (1,), np.float32([4]).tobytes())
    scaled = draft.write(tmp_path / "scaled.gguf")
    with load(both, device="host", kv="f32", ctx=128) as model:
        want = logits(model, ids[0])
    with opened(scaled, a=SCALE) as model:
        assert nmse(logits(model, ids[0, :64], (64,)), want[:64]) < 1e-10


def test_results_keep_their_names(tmp_path: Path) -> None:
    path = tiny(tmp_path)
    halves = drawn({"blk.1.attn_q.weight": (64, 64)}, RANK)
    write_adapter(tmp_path / "a.gguf", "llama", halves, ALPHA)
    both = merged(path, tmp_path / "merged.gguf", [(halves, FACTOR)])
    names = ("Qcur-1", "Qcur_base-1", "Qcur_lora-1")
    with opened(both) as model:
        want = model.dump("the", *names)
    with opened(path, a=SCALE) as model:
        got = model.dump("the", *names)
        again = model.dump("the", "l_out-.*", edits=[])
    q, base, more = (got[f"{name}#0@0"] for name in names)
    assert nmse(q, want["Qcur-1#0@0"]) < 1e-10
    assert nmse(base + more, q) < 1e-12
    assert len(again) == 3
    assert set(got) - {"Qcur_base-1#0@0", "Qcur_lora-1#0@0"} == set(want)


def test_edits_name_what_the_adapter_gives(tmp_path: Path) -> None:
    path = tiny(tmp_path)
    halves = drawn({n: s for n, s in matrices(path).items() if n.startswith("blk.")}, RANK)
    write_adapter(tmp_path / "a.gguf", "llama", halves, ALPHA)
    both = merged(path, tmp_path / "merged.gguf", [(halves, FACTOR)])
    edits = [Edit("attention", [1], "scale", value=0.5), Edit("Qcur", [2], "scale", value=0.1)]
    with opened(both) as model:
        want = model.dump("the others", "result_output", edits=edits)
    with opened(path, a=SCALE) as model:
        got = model.dump("the others", "result_output", edits=edits)
    for key, values in want.items():
        assert nmse(got[key], values) < 1e-10


def test_llama_cpp_computes_the_same(tmp_path: Path) -> None:
    """It rounds activations of float16 matrices to float16."""
    path, adapter = write_pair(tmp_path)
    with np.load(GOLDEN) as arrays:
        want = arrays["logits"]
    with load(path, device="host", kv="f32", ctx=64, lora={str(adapter): PEER_SCALE}) as model:
        assert nmse(answers(model)[PEER_EACH - 1 :: PEER_EACH], want) < 1e-5
        model.scale_adapters(PEER_SCALE * 1.01)
        assert nmse(answers(model)[PEER_EACH - 1 :: PEER_EACH], want) > 1e-5


Spoil = Callable[[Path], Path]


def changed(**metadata: str) -> Spoil:
    def make(folder: Path) -> Path:
        keys = {key.replace("__", "."): text for key, text in metadata.items()}
        halves = drawn({"blk.0.attn_q.weight": (64, 64)})
        return write_adapter(folder / "a.gguf", "llama", halves, metadata=keys)

    return make


def of(architecture: str, **shapes: tuple[int, ...]) -> Spoil:
    def make(folder: Path) -> Path:
        named = {name.replace("__", "."): shape for name, shape in shapes.items()}
        return write_adapter(folder / "a.gguf", architecture, drawn(named))

    return make


def drafted_with(change: Callable[[dict[str, Blocks]], None], alpha: float = 8.0) -> Spoil:
    def make(folder: Path) -> Path:
        halves = drawn({"blk.0.attn_q.weight": (64, 64)})
        path = write_adapter(folder / "a.gguf", "llama", halves, alpha)
        with open_gguf(path) as file:
            draft = drafted(file)
        change(draft.tensors)
        return draft.write(path)

    return make


Q = "blk.0.attn_q.weight"


def lacking_b(tensors: dict[str, Blocks]) -> None:
    del tensors[f"{Q}.lora_b"]


def other_rank(tensors: dict[str, Blocks]) -> None:
    tensors[f"{Q}.lora_b"] = Blocks(0, (3, 64), bytes(768))


def turned(tensors: dict[str, Blocks]) -> None:
    tensors[f"{Q}.lora_a"] = Blocks(0, (4, 64), bytes(1024))


def integers(tensors: dict[str, Blocks]) -> None:
    tensors[f"{Q}.lora_a"] = Blocks(26, (64, 4), bytes(1024))


def no_rank(tensors: dict[str, Blocks]) -> None:
    tensors[f"{Q}.lora_a"] = Blocks(0, (64, 0), b"")
    tensors[f"{Q}.lora_b"] = Blocks(0, (0, 64), b"")


def further(tensors: dict[str, Blocks]) -> None:
    tensors["blk.0.attn_q.weight"] = Blocks(0, (4, 4), bytes(64))


def only_norms(tensors: dict[str, Blocks]) -> None:
    tensors.clear()
    tensors["blk.0.attn_norm.weight"] = Blocks(0, (64,), bytes(256))


@pytest.mark.parametrize(
    ("spoil", "kind", "said"),
    [
        (changed(general__type="model"), BadFile, "no LoRA adapter: general.type is not 'adapter'"),
        (changed(adapter__type="ia3"), UnsupportedModel, "adapter 'ia3' is not supported"),
        (of("qwen2", blk__0__attn_q__weight=(64, 64)), BadFile, "an adapter for qwen2, and the"),
        (
            of("llama", blk__9__attn_q__weight=(64, 64)),
            BadFile,
            "blk.9.attn_q.weight is missing in the model",
        ),
        (
            of("llama", blk__0__attn_q__weight=(64, 96)),
            BadFile,
            r"attn_q.weight.lora_a is \[96, 4\]; expected \[64, 4\] for blk.0.attn_q.weight",
        ),
        (
            of("llama", blk__0__attn_q__weight=(32, 64)),
            BadFile,
            r"lora_b is \[4, 32\]; expected \[4, 64\] for blk.0.attn_q.weight \[64, 64\] and rank",
        ),
        (of("llama", v__blk__0__attn_q__weight=(64, 64)), BadFile, "is of a vision part"),
        (of("llama", rope_freqs__weight=(8, 8)), BadFile, "rope_freqs.weight is missing"),
        (drafted_with(lacking_b), BadFile, "attn_q.weight.lora_a has no .*lora_b beside it"),
        (drafted_with(other_rank), BadFile, r"lora_a is \[64, 4\]; expected \[64, 3\]"),
        (drafted_with(turned), BadFile, r"lora_a is \[4, 64\]; expected \[64, 4\]"),
        (drafted_with(integers), BadFile, "lora_a is in I32; expected F32, F16, BF16 or blocks"),
        (drafted_with(no_rank), BadFile, "0"),
        (drafted_with(further), BadFile, "is no tensor of an adapter, NAME.lora_a"),
        (drafted_with(only_norms), BadFile, "it holds no pair of NAME.lora_a and NAME.lora_b"),
        (drafted_with(lambda tensors: None, float("nan")), BadFile, "alpha is nan; expected a fin"),
    ],
)
def test_what_does_not_fit(
    spoil: Spoil, kind: type[CutawayError], said: str, tmp_path: Path
) -> None:
    path = tiny(tmp_path)
    with pytest.raises(kind, match=said) as caught:
        load(path, device="host", ctx=64, lora={str(spoil(tmp_path)): 1.0})
    assert "\n" not in str(caught.value)


def test_words_that_switch_it_on(tmp_path: Path) -> None:
    path = changed()(tmp_path)
    with open_gguf(path) as file:
        draft = drafted(file)
    draft.pairs["adapter.alora.invocation_tokens"] = (
        ValueType.ARRAY,
        (ValueType.UINT32, [5, 6]),
    )
    draft.write(path)
    with pytest.raises(UnsupportedModel, match="an aLoRA, which acts only after certain tokens"):
        load(tiny(tmp_path), device="host", ctx=64, lora={str(path): 1.0})


@pytest.mark.parametrize("scale", [float("nan"), float("inf"), 1e9])
def test_scales_that_are_none(scale: float, tmp_path: Path) -> None:
    changed()(tmp_path)
    with pytest.raises(BadSetting, match="expected a number from -1000 to 1000"):
        opened(tiny(tmp_path), a=scale)
    with opened(tiny(tmp_path), a=1.0) as model:
        with pytest.raises(BadSetting, match="expected a number from -1000 to 1000"):
            model.scale_adapters(scale)
        with pytest.raises(BadSetting, match="expected 1 scales, one for each adapter"):
            model.scale_adapters()


def test_layers_that_look_at_pictures(tmp_path: Path) -> None:
    path = write_single(tmp_path, "mllama")
    with pytest.raises(NotSupported, match="with cross-attention"):
        load(path, device="host", ctx=64, lora={str(changed()(tmp_path)): 1.0})
