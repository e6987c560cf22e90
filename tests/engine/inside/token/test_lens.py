"""What layers would say, against the last norm and the output in float64."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.backends.opencl.drivers.device import list_devices
from engine.errors import BadSetting
from engine.inside.token.lens import lens_logits, read_row
from engine.protocol import Change, Examine, Lens
from engine.runner import load
from engine.runner.api import Model
from engine.runner.edits import edits_for
from engine.runner.sequence import Sequenced
from engine.sampling.sampler import BadLogits
from tests.engine.inside.token import oracle
from tests.goldens.tiny import WRITERS, tiny_tokens, write_tiny
from tests.kernels.harness import nmse

DEVICES = ["host", *[d.name for d in list_devices() if d.default][:1]]


@pytest.fixture(scope="module", params=sorted(WRITERS))
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("lens") / "tiny.gguf", request.param)


@pytest.fixture(scope="module", params=DEVICES)
def model(request: pytest.FixtureRequest, path: Path) -> Iterator[Model]:
    with load(path, device=request.param, ctx=128) as model:
        yield model


def table(found: Lens) -> tuple[np.ndarray, ...]:
    """ids, logp, rank, wanted_logp, entropy."""
    n = len(found.layers)
    ids, logp = np.frombuffer(found.ids, "<i4"), np.frombuffer(found.logp, "<f4")
    others = (found.rank, "<i4"), (found.wanted_logp, "<f4"), (found.entropy, "<f4")
    rest = (np.frombuffer(data, kind) for data, kind in others)
    return ids.reshape(n, -1), logp.reshape(n, -1), *rest


def check(
    model: Model, request: Examine, apart: float, every: tuple[int, ...] | None = None
) -> None:
    """Every number of the lens at `request.at`, by the oracle's logits of those layers."""
    conversation = Sequenced(model.loaded.stepper)
    found = oracle.look(model, conversation, request)
    items = np.frombuffer(found.items.ids, "<i4").tolist()
    assert found.lens is not None
    told = oracle.told(model, conversation, items[: request.at])
    layers = oracle.layers_of(told.values)
    assert found.lens.layers == layers
    assert layers == list(range(model.loaded.built.n_layer))
    ids, logp, rank, wanted, entropy = table(found.lens)
    assert found.lens.wanted == items[request.at]
    some = layers if every is None else [layers[i] for i in every]
    exacts = oracle.said(model, [told.values[f"l_out-{layer}"] for layer in some])
    for layer, want in zip(some, exacts, strict=True):
        row = layers.index(layer)
        if layer < layers[-1]:
            got = lens_logits(model.loaded.stepper, told.values[f"l_out-{layer}"].reshape(1, -1))
            assert nmse(got[0], want) < apart
        # Of logits as far apart as a device's are from float64's.
        near = 4 * np.sqrt(apart * (want**2).mean())
        exact = oracle.log_softmax(want)
        assert np.abs(logp[row] - exact[ids[row]]).max() < 2 * near
        assert exact[ids[row]].min() > np.sort(exact)[-ids.shape[1]] - 2 * near
        assert abs(wanted[row] - exact[found.lens.wanted]) < 2 * near
        fewest = int((exact > exact[found.lens.wanted] + 2 * near).sum())
        most = int((exact > exact[found.lens.wanted] - 2 * near).sum())
        assert fewest + 1 <= rank[row] <= max(most, fewest + 1)
        assert abs(entropy[row] + (np.exp(exact) * exact).sum()) < 50 * near
    assert found.lens.texts[found.lens.wanted] == model.loaded.tokenizer.shown(items[request.at])
    assert set(ids.reshape(-1).tolist()) <= set(found.lens.texts)


def asking(architecture: str, at: int | None, **more: object) -> Examine:
    ids = tiny_tokens(architecture).tolist()
    return Examine(1, prompt="a", prefix_tokens=ids, at=at, lens=True, **more)  # type: ignore[arg-type]


def test_each_layer_says_what_norm_and_output_make_of_it(model: Model) -> None:
    check(model, asking(model.loaded.built.arch, 30, top_k=5), apart=1e-5)


def test_the_last_layer_is_the_answer_itself(model: Model) -> None:
    conversation = Sequenced(model.loaded.stepper)
    request = asking(model.loaded.built.arch, None, top_k=3)
    found = oracle.look(model, conversation, request)
    items = np.frombuffer(found.items.ids, "<i4").tolist()
    told = oracle.told(model, conversation, items)
    assert found.lens is not None
    assert found.n_context == len(items)
    ids, logp, rank, *_ = table(found.lens)
    order = np.argsort(-told.logits, kind="stable")
    assert ids[-1].tolist() == order[:3].tolist()
    assert found.lens.wanted == order[0]
    assert rank[-1] == 1
    np.testing.assert_allclose(logp[-1], oracle.log_softmax(told.logits)[order[:3]], atol=1e-4)


def test_of_a_changed_model_it_is_what_leaves_each_changed_layer(model: Model) -> None:
    """The conversation stays as it is."""
    conversation = Sequenced(model.loaded.stepper)
    changes = [Change(1, "layer", None, 0.5), Change(0, "layer", None, 0.0)]
    request = asking(model.loaded.built.arch, 30, top_k=5, changes=changes, attention_layers=[1])
    found = oracle.look(model, conversation, request)
    assert found.note == ""
    items = np.frombuffer(found.items.ids, "<i4").tolist()[:30]
    edits = edits_for(model.loaded.built, [], len(items), changes)
    conversation.reuse((), edits=edits)
    told = oracle.told(model, conversation, items, ("l_out.*",))
    n_layer = model.loaded.built.n_layer
    assert found.lens is not None
    assert found.attention is not None
    assert found.lens.layers == found.attention.layers == list(range(n_layer))
    results = [told.values[f"l_out_edited-{i}"] for i in (0, 1)]
    assert not np.array_equal(results[1], told.values["l_out-1"])
    ids, logp, *_ = table(found.lens)
    _, want = oracle.said(model, results)
    near = 8 * np.sqrt(1e-5 * (want**2).mean())
    np.testing.assert_allclose(logp[1], oracle.log_softmax(want)[ids[1]], atol=near)
    np.testing.assert_allclose(logp[-1], oracle.log_softmax(told.logits)[ids[-1]], atol=1e-4)


def test_where_the_arena_has_little_room_layers_take_turns(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    stepper = model.loaded.stepper
    rows = np.random.default_rng(1).normal(0, 1, (5, 64)).astype(np.float32)
    together = lens_logits(stepper, rows)
    widths: list[int] = []

    def has_room(graph: object) -> bool:
        widths.append(graph.outputs[0].shape[1])  # type: ignore[attr-defined]
        return widths[-1] <= 2

    monkeypatch.setattr(stepper.planner, "has_room", has_room)
    assert nmse(lens_logits(stepper, rows), together) < 1e-5
    assert widths == [6, 3, 2]


def test_numbers_of_a_row() -> None:
    logits = np.float32([2, 5, 5, -np.inf, 1, 5])
    exact = oracle.log_softmax(logits.astype(np.float64))
    row = read_row(logits, 4, 2)
    assert row.ids.tolist() == [1, 2, 5, 0]
    np.testing.assert_allclose(row.logp, exact[[1, 2, 5, 0]], atol=1e-7)
    assert (row.rank, read_row(logits, 1, 1).rank, read_row(logits, 1, 3).rank) == (2, 1, 6)
    assert read_row(logits, 1, 3).wanted == -np.inf
    finite = exact[np.isfinite(exact)]
    assert abs(row.entropy + (np.exp(finite) * finite).sum()) < 1e-6
    with pytest.raises(BadLogits):
        read_row(np.float32([1, np.nan]), 1, 0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"at": 0}, "at: 0 .* from 1 to 4"),
        ({"at": 5}, "at: 5 "),
        ({"wanted": 320}, "wanted: 320 .* from 0 to 319"),
        ({"wanted": -1}, "wanted"),
        ({"top_k": 0}, "top_k: 0 "),
        ({"attention_layers": [99]}, "attention_layers: 99 "),
    ],
)
def test_what_cannot_be_asked(tiny_path: Path, change: dict[str, object], words: str) -> None:
    with load(tiny_path, device="host", ctx=16) as model:
        request = Examine(1, prompt="a", prefix_tokens=[5, 6, 7, 8], **change)  # type: ignore[arg-type]
        with pytest.raises(BadSetting, match=words):
            oracle.look(model, Sequenced(model.loaded.stepper), request)


REAL = Examine(
    1, prompt="The capital of France is Paris. The capital of Italy is Rome.", at=13, lens=True
)


@pytest.mark.model_file
def test_a_real_model(smollm2_path: Path) -> None:
    with load(smollm2_path, ctx=256) as model:
        check(model, REAL, 2e-5, (0, 15, -1))


@pytest.mark.model_file
def test_a_wide_output(gemma3_path: Path) -> None:
    """262,144 tokens, of which the oracle reckons some: by how much one is likelier than others."""
    with load(gemma3_path, ctx=256) as model:
        conversation = Sequenced(model.loaded.stepper)
        found = oracle.look(model, conversation, REAL)
        items = np.frombuffer(found.items.ids, "<i4").tolist()[:13]
        told = oracle.told(model, conversation, items)
        assert found.lens is not None
        ids, logp, *_ = table(found.lens)
        every = [told.values[f"l_out-{layer}"] for layer in found.lens.layers]
        some = np.unique([*np.random.default_rng(1).integers(0, 262144, 1000), *ids.reshape(-1)])
        want = oracle.said(model, every, some)
        got = lens_logits(model.loaded.stepper, np.stack([one.reshape(-1) for one in every[:-1]]))
        assert nmse(got[:, some], want[:-1]) < 2e-5
        for row, exact in enumerate(want):
            best = exact[np.searchsorted(some, ids[row])]
            near = 8 * np.sqrt(2e-5 * (exact**2).mean())
            np.testing.assert_allclose(logp[row] - logp[row, 0], best - best[0], atol=near)
            assert best.min() > np.sort(exact)[-ids.shape[1]] - near
