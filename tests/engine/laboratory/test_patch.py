"""Maps of patches against single runs with one edit each: alignment, batching, normalisation."""

import lzma
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from engine.errors import BadSetting
from engine.laboratory.library import patch_map
from engine.laboratory.patch import Cell, PatchRuns, map_patches
from engine.progress import finished
from engine.protocol import ComparedText, Edit, MapPatches, PatchesMapped
from engine.runner import Model, load
from engine.runner.batch import bucket_of
from engine.runner.edits import PLAIN, edits_for
from engine.runner.stepper import StepPart
from tests.goldens.make_lens_maps import write_plain
from tests.goldens.make_patches import prompts

GOLDENS = Path(__file__).parents[2] / "goldens" / "text"
WANTED = GOLDENS.parent / "patches.npz"
LENS_MAPS = GOLDENS.parent / "lens_maps.npz"
CLEAN, CORRUPT = "AFKQVZ[b", "AFkQVz[b"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("patch")


def opened(folder: Path, name: str) -> Model:
    """A tiny model whose tokens are single characters."""
    path = folder / f"{name}.gguf"
    if not path.exists():
        path.write_bytes(lzma.decompress((GOLDENS / f"{name}.gguf.xz").read_bytes()))
    return load(path, device="host", kv="f32", ctx=64, cells=512)


@pytest.fixture(scope="module")
def llama(folder: Path) -> Iterator[Model]:
    with opened(folder, "llama") as model:
        yield model


def run(model: Model, text: str, edits: list[Edit] | None = None) -> np.ndarray:
    """Logits [V] after a text, in a step of its own."""
    tokens = model.loaded.tokenizer.encode(text)
    made = edits_for(model.loaded.built, edits or [], len(tokens))
    stepper = model.loaded.stepper
    stepper.forget(0)
    part = StepPart(tokens, 0, [len(tokens) - 1], edits=made)
    logits = stepper.start_together([part])()[0].astype(np.float64)
    stepper.forget(0)
    return logits


def rows_of(model: Model, text: str, name: str) -> np.ndarray:
    """A result [T, ...] of all tokens; in the last layer each is the last token of its prefix."""
    tokens = len(model.loaded.tokenizer.encode(text))

    def last(part: str) -> np.ndarray:
        found = model.dump(part, name)
        return found[max(found)]  # after a bias, where there is one

    whole = last(text)
    if len(whole) == tokens:
        return whole
    return np.stack([last(text[: i + 1])[-1] for i in range(tokens)])


def array(found: PatchesMapped, site: str, which: str = "effects") -> np.ndarray:
    (one,) = (table for table in found.tables if table.site == site)
    shape = (len(found.layers), len(found.columns))
    return np.frombuffer(getattr(one, which), "<f4").reshape(shape)


def difference(found: PatchesMapped, logits: np.ndarray) -> float:
    return float(logits[found.right[0]] - logits[found.wrong[0]])


@pytest.mark.parametrize("noising", [False, True])
def test_the_residual_map_is_single_runs(llama: Model, noising: bool) -> None:
    found = patch_map(llama, CLEAN, CORRUPT, noising=noising)
    start, source = (CLEAN, CORRUPT) if noising else (CORRUPT, CLEAN)
    assert found.direction == ("noising" if noising else "denoising")
    assert found.tokens == list(start)
    assert found.start == pytest.approx(difference(found, run(llama, start)), abs=1e-4)
    assert found.source == pytest.approx(difference(found, run(llama, source)), abs=1e-4)
    effects, values = array(found, "residual"), array(found, "residual", "values")
    n_layer = llama.loaded.built.n_layer
    assert effects.shape == (n_layer, len(start))
    assert found.complete
    for layer in range(n_layer):
        rows = rows_of(llama, source, f"l_out-{layer}")
        for at in (2, 3, 5, 7):
            edit = Edit.of("set", "residual", layer, 1.0, rows[at], positions=str(at))
            wanted = difference(found, run(llama, start, [edit]))
            assert values[layer, at] == pytest.approx(wanted, abs=1e-4)
            effect = (wanted - found.start) / (found.source - found.start)
            assert effects[layer, at] == pytest.approx(effect, abs=1e-3)
    np.testing.assert_allclose(effects[:, :2], 0, atol=1e-4)  # before the prompts part
    np.testing.assert_array_equal(effects[-1, :-1], 0)
    assert effects[-1, -1] == pytest.approx(1, abs=1e-4)
    assert np.abs(effects[0, 2:]).max() > 0.05


def test_parts_and_heads_are_single_runs(llama: Model) -> None:
    parts = patch_map(llama, CLEAN, CORRUPT, grid="parts")
    for site in ("attention", "feed_forward"):
        name = "attn_out" if site == "attention" else "ffn_out"
        for layer, at in ((0, 2), (1, 7)):
            rows = rows_of(llama, CLEAN, f"{name}-{layer}")
            edit = Edit.of("set", site, layer, 1.0, rows[at], positions=str(at))
            wanted = difference(parts, run(llama, CORRUPT, [edit]))
            assert array(parts, site, "values")[layer, at] == pytest.approx(wanted, abs=1e-4)
    for position in (None, 7):
        heads = patch_map(llama, CLEAN, CORRUPT, grid="heads", position=position)
        built = llama.loaded.built
        n_heads = built.results.at("heads", 0)[0].heads
        assert heads.columns == list(range(n_heads))
        rows = rows_of(llama, CLEAN, "kqv_out-1").reshape(len(CLEAN), n_heads, -1)
        places = range(len(CLEAN)) if position is None else [position]
        edits = [
            Edit.of("set", "heads", 1, 1.0, rows[at, 1], head=1, positions=str(at)) for at in places
        ]
        wanted = difference(heads, run(llama, CORRUPT, edits))
        assert array(heads, "heads", "values")[1, 1] == pytest.approx(wanted, abs=1e-4)


@pytest.mark.parametrize("metric", ["prob", "logprob", "kl"])
def test_metrics(llama: Model, metric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a random model, whose probabilities are near each other."""
    monkeypatch.setattr("engine.laboratory.patch.LEAST_SPAN", 1e-4)
    logp = {}
    for name, text in (("start", CORRUPT), ("source", CLEAN)):
        logits = run(llama, text)
        logp[name] = logits - np.log(np.exp(logits).sum())
    apart = np.abs(np.exp(logp["source"]) - np.exp(logp["start"])).argmax()
    right = llama.loaded.tokenizer.decode([int(apart)])
    found = patch_map(llama, CLEAN, CORRUPT, metric=metric, right=right)
    rows = rows_of(llama, CLEAN, "l_out-0")
    edit = Edit.of("set", "residual", 0, 1.0, rows[5], positions="5")
    logits = run(llama, CORRUPT, [edit])
    patched = logits - np.log(np.exp(logits).sum())

    def measured(one: np.ndarray) -> float:
        if metric == "kl":
            p = logp["source"]
            return float((np.exp(p) * (p - one)).sum())
        value = float(one[found.right[0]])
        return float(np.exp(value)) if metric == "prob" else value

    assert found.right[0] == apart
    assert found.start == pytest.approx(measured(logp["start"]), abs=1e-4)
    values, effects = (array(found, "residual", one) for one in ("values", "effects"))
    assert values[0, 5] == pytest.approx(measured(patched), abs=1e-4)
    if metric == "kl":
        effect = 1 - measured(patched) / measured(logp["start"])
        assert effects[0, 5] == pytest.approx(effect, abs=1e-3)


def test_a_run_patched_with_itself_stays_as_it_is(llama: Model) -> None:
    """Relative to what the other prompt changes."""
    tokens = llama.loaded.tokenizer.encode(CORRUPT)
    runs = PatchRuns(llama.loaded, llama.conversation, tokens, PLAIN)
    own = finished(runs.capture(tokens, PLAIN, "residual"))
    llama.loaded.stepper.end_probes()
    llama.conversation.reuse(())
    finished(llama.conversation.prefill(tokens, lambda: False))
    cells = [
        Cell(i, at, edits_for(llama.loaded.built, [edit], len(tokens)))
        for i in own.rows
        for at in range(len(tokens))
        for edit in [Edit.of("set", "residual", i, 1.0, own.rows[i][0][at], positions=str(at))]
    ]
    found = [one for some in runs.logits(cells, "residual") for one in some]
    llama.conversation.clear()
    assert len(found) == len(cells) == len({(c.row, c.column) for c, _ in found})
    mapped = patch_map(llama, CLEAN, CORRUPT)
    span = abs(mapped.source - mapped.start)
    for _, logits in found:
        assert abs(difference(mapped, logits.astype(np.float64)) - mapped.start) < 1e-3 * span


def test_experts_that_both_chose_are_taken_over_and_others_silenced(folder: Path) -> None:
    with opened(folder, "qwen3moe") as model:
        found = patch_map(model, CLEAN, CORRUPT, grid="experts")
        chosen = {
            text: model.dump(text, "ffn_moe_topk-0")["ffn_moe_topk-0#0@0"].astype(int)
            for text in (CLEAN, CORRUPT)
        }
        rows = model.dump(CLEAN, "ffn_moe_down-0")["ffn_moe_down-0#0@0"]  # [T, U, E]
        silenced = taken = 0
        for column, expert in enumerate(found.columns):
            edits = []
            for at in np.flatnonzero((chosen[CORRUPT] == expert).any(axis=1)):
                slot = np.flatnonzero(chosen[CLEAN][at] == expert)
                where = {"positions": str(at), "expert": expert}
                if slot.size:
                    vector = rows[at, slot[0]]
                    edits.append(Edit.of("set", "ffn_moe_down", 0, 1.0, vector, **where))
                    taken += 1
                else:
                    edits.append(Edit.of("scale", "ffn_moe_down", 0, 0.0, **where))
                    silenced += 1
            wanted = difference(found, run(model, CORRUPT, edits))
            got = array(found, "ffn_moe_down", "values")[0, column]
            assert np.isnan(got) or got == pytest.approx(wanted, abs=1e-4)
        assert min(silenced, taken) > 0


@pytest.mark.parametrize("name", ["falcon_h1", "mamba2", "deepseek_v2"])
def test_recurrent_layers_and_several_mixers(folder: Path, name: str) -> None:
    """A state shares nothing; of two mixers in a layer each gets its own row."""
    with opened(folder, name) as model:
        apart = run(model, CLEAN) - run(model, CORRUPT)
        tokens = (int(apart.argmax()), int(apart.argmin()))
        right, wrong = (model.loaded.tokenizer.decode([one]) for one in tokens)
        found = patch_map(model, CLEAN, CORRUPT, right=right, wrong=wrong)
        rows = rows_of(model, CLEAN, "l_out-0")
        edit = Edit.of("set", "residual", 0, 1.0, rows[2], positions="2")
        wanted = difference(found, run(model, CORRUPT, [edit]))
        assert array(found, "residual", "values")[0, 2] == pytest.approx(wanted, abs=2e-4)
        if name == "falcon_h1":
            parts = patch_map(model, CLEAN, CORRUPT, right=right, wrong=wrong, grid="parts")
            assert np.isfinite(array(parts, "attention")).all()


def test_prompts_of_other_lengths_meet_at_both_ends(llama: Model) -> None:
    found = patch_map(llama, "AFKQV", "AFkkkQV")
    assert found.pairs == [(0, 0), (1, 1), (4, 2), (5, 3), (6, 4)]
    effects = array(found, "residual")
    assert np.isnan(effects[:, 2:4]).all()
    assert np.isfinite(np.delete(effects, [2, 3], axis=1)).all()
    assert "2 tokens" in found.notes[0]


def test_a_beginning_of_the_answer_is_read_by_text_or_by_ids(llama: Model) -> None:
    corrupt = CORRUPT[:5] + CLEAN[5:]
    wanted = array(patch_map(llama, CLEAN, corrupt), "residual")
    ids = llama.loaded.tokenizer.encode(CLEAN[5:])
    for begun in ({"prefix": CLEAN[5:]}, {"prefix": CLEAN[5:], "prefix_tokens": ids}):
        sides = [ComparedText(prompt=text[:5], **begun) for text in (CLEAN, CORRUPT)]
        found = finished(
            map_patches(llama.loaded, llama.conversation, MapPatches(0, *sides), lambda: False)
        )
        np.testing.assert_array_equal(array(found, "residual"), wanted)
    again = patch_map(llama, CLEAN, corrupt, right=found.right[0], wrong=found.wrong[0])
    np.testing.assert_array_equal(array(again, "residual"), wanted)
    with pytest.raises(BadSetting, match="an id from 0 to"):
        patch_map(llama, CLEAN, CORRUPT, right=-1)


@pytest.mark.parametrize("noising", [False, True])
def test_a_map_of_noise_is_the_mean_of_single_runs(llama: Model, noising: bool) -> None:
    """Noise on three embeddings, of two seeds: drawn here once more."""
    given = {"noise": 2.0, "subject": CLEAN[2:5], "seeds": 2, "noising": noising}
    found = patch_map(llama, CLEAN, "", **given)
    rows = rows_of(llama, CLEAN, "embd")
    size = 2.0 * rows[2:5].std()
    starts, values = [], []
    for seed in range(2):
        drawn = np.random.default_rng(seed).standard_normal((3, rows.shape[1])) * size
        noise = [
            Edit.of("add", "embd", [], 1.0, row.astype(np.float32), positions=str(2 + i))
            for i, row in enumerate(drawn)
        ]
        base = [] if noising else noise
        starts.append(difference(found, run(llama, CLEAN, base)))
        if not noising:
            taken = rows_of(llama, CLEAN, "l_out-0")[3]
            patch = Edit.of("set", "residual", 0, 1.0, taken, positions="3")
            values.append(difference(found, run(llama, CLEAN, [*base, patch])))
    assert found.start == pytest.approx(np.mean(starts), abs=1e-4)
    effects = array(found, "residual")
    assert effects[-1, -1] == pytest.approx(1, abs=1e-3)
    np.testing.assert_allclose(effects[:, :2], 0, atol=1e-4)
    if not noising:
        assert array(found, "residual", "values")[0, 3] == pytest.approx(np.mean(values), abs=1e-4)
        assert found.source == pytest.approx(difference(found, run(llama, CLEAN)), abs=1e-4)


def test_a_map_of_edited_runs_is_of_the_site_alone(llama: Model) -> None:
    """The edits hook another result of the layer, and the same one in another way."""
    edits = [Edit.scale("heads", 1, by=0, head=1), Edit.of("scale", "residual", 0, 0.5, delta=True)]
    sides = [ComparedText(prompt=text, edits=edits) for text in (CLEAN, CORRUPT)]
    request = MapPatches(0, *sides)
    found = finished(map_patches(llama.loaded, llama.conversation, request, lambda: False))
    assert found.start == pytest.approx(difference(found, run(llama, CORRUPT, edits)), abs=1e-4)
    for layer in (0, 1):
        rows = llama.dump(CLEAN, f"l_out_edited-{layer}|l_out-{layer}", edits=edits)
        edited = rows.get(f"l_out_edited-{layer}#0@0", rows.get(f"l_out-{layer}#0@0"))
        assert edited is not None
        patch = Edit.of("set", "residual", layer, 1.0, edited[5], positions="5")
        wanted = difference(found, run(llama, CORRUPT, [*edits, patch]))
        assert array(found, "residual", "values")[layer, 5] == pytest.approx(wanted, abs=1e-4)


def test_cells_share_steps_that_are_nearly_full(llama: Model) -> None:
    """Of 20 tokens and 9 layers 180 cells compute 10.5 tokens each: 1,890 with no padding."""
    asked: list[int] = []
    tokens = llama.loaded.tokenizer.encode("ABCDEFGHIJKLMNOPQRST")
    edit = Edit.of("scale", "residual", 0, 1)
    cells = [
        Cell(layer, at, edits_for(llama.loaded.built, [replace(edit, positions=str(at))], 20))
        for layer in range(9)
        for at in range(20)
    ]
    runs = PatchRuns(llama.loaded, llama.conversation, tokens, PLAIN)
    for batch in runs._batches(cells):
        asked.append(sum(20 - cell.column for cell in batch))
    assert sum(asked) == 1890
    assert sum(bucket_of(n) for n in asked) <= 1.1 * 1890


def test_cancelled_maps_keep_what_was_done(llama: Model) -> None:
    clean, corrupt = 2 * CLEAN, 2 * CORRUPT
    request = MapPatches(0, ComparedText(prompt=clean), ComparedText(prompt=corrupt))
    seen: list[object] = []
    steps = map_patches(llama.loaded, llama.conversation, request, lambda: len(seen) > 0)
    found = finished(steps, lambda one: seen.append(one) if one is not None else None)
    effects = array(found, "residual")
    assert not found.complete
    assert np.isnan(effects).any()
    assert np.isfinite(effects[:-1]).any()
    whole = array(patch_map(llama, clean, corrupt), "residual")
    known = np.isfinite(effects)
    np.testing.assert_allclose(effects[known], whole[known], atol=1e-4)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"corrupt": CLEAN}, "prompts: .*differ in the answer"),
        ({"right": "AB"}, r"right: 'AB \(2 tokens\)'.*the first is 'A'"),
        ({"position": 3}, "position: 3"),
        ({"noise": -1.0}, "noise: -1"),
        ({"noise": 3.0, "seeds": 0}, "seeds: 0"),
        ({"noise": 3.0, "subject": "nowhere"}, "a part of the prompt"),
        ({"grid": "heads", "position": 8}, "0 to 7"),
        ({"clean": "A" * 60, "corrupt": CORRUPT, "grid": "experts"}, "ffn_moe_down"),
    ],
)
def test_what_cannot_be_mapped_says_why(llama: Model, given: dict, match: str) -> None:
    sides = {"clean": CLEAN, "corrupt": CORRUPT} | given
    expected = BadSetting if "grid" not in given or "position" in given else Exception
    with pytest.raises(expected, match=match):
        patch_map(llama, **sides)
    assert not llama.conversation.items
    assert llama.loaded.built.caches.n_free == 512


def test_a_chat_after_a_map_is_one_without(llama: Model) -> None:
    before = run(llama, CLEAN)
    free = llama.loaded.built.caches.n_free
    patch_map(llama, CLEAN, CORRUPT)
    np.testing.assert_array_equal(run(llama, CLEAN), before)
    assert llama.loaded.built.caches.n_free == free


def mapped(
    model: Model, grid: str, answers: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> PatchesMapped:
    """The map of the goldens' tokens, which no text gives."""
    tokens = dict(zip(("clean", "corrupt"), prompts(), strict=True))
    monkeypatch.setattr(
        "engine.laboratory.patch.text_tokens", lambda model, sequence, text: tokens[text.prompt]
    )
    monkeypatch.setattr(
        "engine.laboratory.patch._Map._token",
        lambda self, name, text, logits: int(answers[int(name == "wrong")]),
    )
    return patch_map(model, "clean", "corrupt", grid=grid)


@pytest.mark.parametrize("grid", ["residual", "parts", "heads"])
@pytest.mark.parametrize("device", ["host", pytest.param("intel:0", marks=pytest.mark.device)])
def test_maps_are_what_hooks_of_torch_give(
    grid: str, device: str, tiny_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Effects within 1e-3 in float32 on the host; a device rounds activations to 12 bits."""
    with np.load(WANTED) as file:
        wanted = dict(file)
    source, start = (float(one[0] - one[1]) for one in wanted["runs"])
    with load(tiny_path, device=device, kv="f32", ctx=64, cells=512) as model:
        shown = model.loaded.tokenizer.shown
        found = mapped(model, grid, wanted["answers"], monkeypatch)
        assert found.right == (int(wanted["answers"][0]), shown(int(wanted["answers"][0])))
    most = 1e-3 if device == "host" else 2e-2
    assert found.source == pytest.approx(source, abs=most * abs(source - start))
    for table in found.tables:
        values = wanted[table.site]
        effects = (values[..., 0] - values[..., 1] - start) / (source - start)
        np.testing.assert_allclose(array(found, table.site), effects, atol=most)
        assert np.ptp(effects) > 0.3


def test_maps_are_those_of_transformer_lens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within 1e-3; it patches what enters a layer, which is what leaves the layer before."""
    with np.load(LENS_MAPS) as file:
        wanted = dict(file)
    source, start = (float(one[0] - one[1]) for one in wanted["runs"])
    with load(write_plain(tmp_path / "plain.gguf"), device="host", kv="f32", ctx=64) as model:
        for grid in ("residual", "parts", "heads"):
            found = mapped(model, grid, wanted["answers"], monkeypatch)
            for table in found.tables:
                values, ours = wanted[table.site], array(found, table.site)
                effects = (values[..., 0] - values[..., 1] - start) / (source - start)
                if table.site == "residual":
                    effects, ours = effects[1:], ours[:-1]
                np.testing.assert_allclose(ours, effects, atol=1e-3)
                assert np.ptp(effects) > 0.3
