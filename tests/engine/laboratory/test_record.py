"""Recordings against sums over results that `dump` gives, and continued after a kill."""

import json
import lzma
from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy as np
import pytest

from engine.errors import BadFile, BadSetting, Cancelled, NotSupported
from engine.gguf.imatrix import packed_dat, read_imatrix
from engine.laboratory.library import record_texts
from engine.laboratory.record import record
from engine.progress import finished
from engine.protocol import RecordDataset
from engine.runner import Model, load

GOLDENS = Path(__file__).parents[2] / "goldens" / "text"
CTX = 32
TEXTS = ("AFKQVZ[b" * 9, "lorem(ipsum)dolor", "tiny", "consectetur" * 4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text files, one of them too short to count."""
    made = tmp_path_factory.mktemp("record")
    (made / "texts").mkdir()
    for i, text in enumerate(TEXTS):
        (made / "texts" / f"{i}.txt").write_text(text, "utf-8")
    return made


def opened(folder: Path, name: str) -> Model:
    path = folder / f"{name}.gguf"
    if not path.exists():
        path.write_bytes(lzma.decompress((GOLDENS / f"{name}.gguf.xz").read_bytes()))
    return load(path, device="host", kv="f32", ctx=64)


@pytest.fixture(scope="module")
def llama(folder: Path) -> Iterator[Model]:
    with opened(folder, "llama") as model:
        yield model


@pytest.fixture(scope="module")
def experts(folder: Path) -> Iterator[Model]:
    with opened(folder, "qwen3moe") as model:
        yield model


def chunks() -> list[tuple[int, int, str]]:
    """Document, first token, text: tokens are single characters."""
    return [
        (number, start, text[start : start + CTX])
        for number, text in enumerate(TEXTS)
        for start in range(0, len(text), CTX)
        if len(text[start : start + CTX]) >= 16
    ]


def results(model: Model, text: str, pattern: str) -> dict[str, np.ndarray]:
    """Rows of a result by its name, of all tokens."""
    from engine.inside.texts import by_token
    from engine.laboratory.rows import read_parts
    from engine.scheduler.probes import Probes

    stepper, found = model.loaded.stepper, {}
    tokens = model.loaded.tokenizer.encode(text)
    for _, step, _ in read_parts(stepper, tokens, Probes((pattern,)), 512):
        for one in step.probed():
            found[one.key.name] = by_token(one.values, one.node, step.axes).copy()
    stepper.end_probes()
    stepper.forget(0)
    return found


def test_norms(llama: Model, folder: Path, tmp_path: Path) -> None:
    found = record_texts(llama, [folder / "texts"], tmp_path, "norms", n_ctx=CTX)
    assert found.n_tokens == sum(len(text) for _, _, text in chunks())
    assert found.files == ["norms.npz"]
    with np.load(tmp_path / "norms.npz") as file:
        sums, channels = file["sums"], file["channels"]
    rows = [
        (start + i < 4, row)
        for _, start, text in chunks()
        for i, row in enumerate(results(llama, text, "l_out-1")["l_out-1"].astype(np.float64))
    ]
    for apart, first in enumerate((True, False)):
        own = np.stack([row for is_first, row in rows if is_first is first])
        norms = np.linalg.norm(own, axis=1)
        count, mean, m2, most = sums[1, apart]
        assert count == len(norms)
        assert mean == pytest.approx(norms.mean(), rel=1e-5)
        assert m2 == pytest.approx(((norms - norms.mean()) ** 2).sum(), rel=1e-4)
        assert most == pytest.approx(norms.max(), rel=1e-5)
        assert channels[1, apart] == np.abs(own[norms.argmax()]).argmax()


def test_strongest_tokens_of_neurons(llama: Model, folder: Path, tmp_path: Path) -> None:
    record_texts(llama, [folder / "texts"], tmp_path, "neurons", n_ctx=CTX, layers=[1])
    with np.load(tmp_path / "neurons.npz") as file:
        values, documents, tokens = (file[one][0] for one in ("values", "documents", "tokens"))
        assert file["layers"].tolist() == [1]
    every, where = [], []
    for number, start, text in chunks():
        rows = results(llama, text, "ffn_swiglu-1")["ffn_swiglu-1"]
        every.append(rows)
        where += [(number, start + i) for i in range(len(rows))]
    whole = np.concatenate(every)
    best = -np.sort(-whole, axis=0)[:16].T
    np.testing.assert_allclose(values, best, rtol=1e-4, atol=1e-6)
    places = {place: i for i, place in enumerate(where)}
    for channel in (0, 3, len(values) - 1):
        at = [places[d, t] for d, t in zip(documents[channel], tokens[channel], strict=True)]
        assert len(set(at)) == 16
        np.testing.assert_allclose(whole[at, channel], values[channel], rtol=1e-4, atol=1e-6)


def test_experts(experts: Model, folder: Path, tmp_path: Path) -> None:
    found = record_texts(experts, [folder / "texts"], tmp_path, "experts", n_ctx=CTX)
    with np.load(tmp_path / "experts.npz") as file:
        counts, weights, pairs = (file[one] for one in ("counts", "weights", "pairs"))
    expected = np.zeros_like(counts[0])
    together = np.zeros_like(pairs[0])
    for _, _, text in chunks():
        for ids in results(experts, text, "ffn_moe_topk-0")["ffn_moe_topk-0"].astype(int):
            for u in ids:
                expected[u] += 1
                for v in ids:
                    together[u, v] += u != v
    assert counts[0].tolist() == expected.tolist() == found.experts[0]
    np.testing.assert_array_equal(pairs[0], together)
    np.testing.assert_allclose(weights[0].sum(), found.n_tokens, rtol=1e-5)  # they sum to 1


def test_an_importance_matrix_has_llamas_names_and_counts(
    experts: Model, folder: Path, tmp_path: Path
) -> None:
    """Of whole chunks of the joined text; each token counts for each expert that it chose."""
    record_texts(experts, [folder / "texts"], tmp_path, "imatrix", n_ctx=CTX, dat=True)
    joined = "".join(TEXTS)
    whole = [joined[i : i + CTX] for i in range(0, len(joined) - CTX + 1, CTX)]
    reader = gguf.GGUFReader(tmp_path / "imatrix.gguf")
    fields = {name: field.contents() for name, field in reader.fields.items()}
    assert fields["general.type"] == "imatrix"
    assert "general.architecture" not in fields
    assert fields["imatrix.chunk_count"] == len(whole)
    assert fields["imatrix.chunk_size"] == CTX
    assert fields["imatrix.datasets"] == [f"{i}.txt" for i in range(4)]
    tensors = {one.name: one for one in reader.tensors}
    assert list(tensors) == sorted(
        tensors, key=lambda n: (n.rpartition(".")[0], n[-7:] != "in_sum2")
    )
    matrix = read_imatrix(tmp_path / "imatrix.gguf")
    n_experts, used = len(matrix.counts["blk.0.ffn_gate_exps.weight"]), 2
    sums = dict.fromkeys(("attn_norm-0", "down"), 0.0)
    counts = np.zeros(n_experts)
    downs = np.zeros(matrix.sums["blk.0.ffn_down_exps.weight"].shape)
    for text in whole:
        found = results(experts, text, "attn_norm-0|ffn_moe_topk-0|ffn_moe_swiglu-0")
        sums["attn_norm-0"] += np.square(found["attn_norm-0"].astype(np.float64)).sum(0)
        ids = found["ffn_moe_topk-0"].astype(int)
        used = ids.shape[1]
        inner = found["ffn_moe_swiglu-0"].reshape(len(ids), used, -1).astype(np.float64)
        for token, chosen in enumerate(ids):
            for slot, expert in enumerate(chosen):
                counts[expert] += 1
                downs[expert] += inner[token, slot] ** 2
    q = matrix.sums["blk.0.attn_q.weight"]
    assert q.shape[0] == 1
    np.testing.assert_allclose(q[0], sums["attn_norm-0"], rtol=1e-4)
    assert matrix.counts["blk.0.attn_q.weight"].tolist() == [len(whole) * CTX]
    assert matrix.counts["blk.0.ffn_gate_exps.weight"].tolist() == counts.tolist()
    assert counts.sum() == used * len(whole) * CTX
    np.testing.assert_allclose(matrix.sums["blk.0.ffn_down_exps.weight"], downs, rtol=1e-4)
    assert tensors["blk.0.attn_q.weight.counts"].shape.tolist() == [1, 1]
    old = read_imatrix(tmp_path / "imatrix.dat")
    calls = -(-len(whole) * CTX // CTX)
    wanted = q / (len(whole) * CTX) * calls
    np.testing.assert_allclose(old.sums["blk.0.attn_q.weight"], wanted, rtol=1e-5)
    assert packed_dat(matrix)[:4] == (tmp_path / "imatrix.dat").read_bytes()[:4]


WHAT = ["norms", "neurons", "imatrix"]


def saved(folder: Path) -> dict[str, bytes]:
    with np.load(folder / "state.npz") as file:
        return {name: file[name].tobytes() for name in file.files}


@pytest.mark.parametrize("after", [1, 2, 4, 5, 6])
def test_a_recording_continues_to_the_bit(
    llama: Model, folder: Path, tmp_path: Path, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill leaves what was saved last: here before the last of some pieces."""
    record_texts(llama, [folder / "texts"], tmp_path / "whole", *WHAT, n_ctx=CTX)
    paths = [str(folder / "texts")]
    request = RecordDataset(0, paths, str(tmp_path / "cut"), WHAT, CTX, save_every=0)
    steps = record(llama.loaded, llama.conversation, request, lambda: False)
    seen = 0
    while seen < after:
        seen += next(steps) is not None
    next(steps)  # computed, and not saved
    steps.close()
    again = RecordDataset(0, paths, str(tmp_path / "cut"), WHAT, CTX, resume=True)
    found = finished(record(llama.loaded, llama.conversation, again, lambda: False))
    assert found.resumed > 0
    assert saved(tmp_path / "cut") == saved(tmp_path / "whole")
    names = ("norms.npz", "neurons.npz", "imatrix.gguf")
    for one in names:
        assert (tmp_path / "cut" / one).stat().st_size == (tmp_path / "whole" / one).stat().st_size
    assert json.loads((tmp_path / "cut" / "run.json").read_text())["format"] == 1


def test_a_cancelled_recording_is_saved(llama: Model, folder: Path, tmp_path: Path) -> None:
    request = RecordDataset(0, [str(folder / "texts")], str(tmp_path), ["norms"], CTX)
    with pytest.raises(Cancelled):
        finished(record(llama.loaded, llama.conversation, request, lambda: True))
    assert json.loads((tmp_path / "run.json").read_text())["pieces"] == 1
    assert not llama.conversation.items


def labelled(path: Path) -> Path:
    """Texts of two classes that differ in their last letter."""
    rng = np.random.default_rng(0)
    lines = []
    for i in range(20):
        body = "".join(chr(33 + c) for c in rng.integers(0, 90, 6))
        lines.append(json.dumps({"text": body + "AZ"[i % 2], "label": ["up", "down"][i % 2]}))
    path.write_text("\n".join(lines), "utf-8")
    return path


@pytest.mark.parametrize("at", ["last", "mean", "all"])
def test_probes_of_labelled_texts(llama: Model, tmp_path: Path, at: str) -> None:
    path = labelled(tmp_path / "x.jsonl")
    found = record_texts(
        llama, [path], tmp_path / "out", "probe", n_ctx=CTX, probe_at=at, layers=[0, 1]
    )
    assert [one.layer for one in found.probes] == [0, 1]
    if at == "last":
        assert found.probes[0].accuracy == 1.0
        assert found.probes[0].auc == 1.0
        assert found.probes[0].shuffled < 0.9
    with np.load(tmp_path / "out" / "state.npz") as file:
        rows, filled = file["probe.rows"], int(file["probe.filled"][0])
    assert filled == (20 * 7 if at == "all" else 20)
    text = json.loads(path.read_text("utf-8").splitlines()[0])["text"]
    own = results(llama, text, "l_out-0")["l_out-0"]
    wanted = {"last": own[-1], "mean": own.mean(0), "all": own[0]}[at]
    np.testing.assert_allclose(rows[0, 0].astype(np.float32), wanted, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        ({"what": ["experts"]}, NotSupported, "experts of llama"),
        ({"what": []}, BadSetting, "what"),
        ({"what": ["probe"]}, BadSetting, "labels of two classes"),
        ({"what": ["norms"], "paths": ["nowhere"]}, BadFile, "nowhere"),
        ({"what": ["norms"], "layers": [9]}, BadSetting, "layers: 9"),
        ({"what": ["norms"], "n_ctx": 4}, BadSetting, "ctx"),
    ],
)
def test_what_cannot_be_recorded_says_why(
    llama: Model, folder: Path, tmp_path: Path, given: dict, error: type, match: str
) -> None:
    given = {"paths": [folder / "texts"], "n_ctx": CTX} | given
    with pytest.raises(error, match=match):
        record_texts(llama, given.pop("paths"), tmp_path, *given.pop("what"), **given)


@pytest.mark.parametrize("damage", ["cut", "other", "empty"])
def test_a_damaged_state_is_refused_by_name(
    llama: Model, folder: Path, tmp_path: Path, damage: str
) -> None:
    record_texts(llama, [folder / "texts"], tmp_path, "norms", n_ctx=CTX)
    state = tmp_path / "state.npz"
    if damage == "other":
        np.savez(state, run=np.array([1, 2]), done=np.zeros(4))
    else:
        state.write_bytes(state.read_bytes()[: 200 if damage == "cut" else 0])
    with pytest.raises(BadFile, match="state.npz: is damaged"):
        record_texts(llama, [folder / "texts"], tmp_path, "norms", n_ctx=CTX, resume=True)


def test_another_recording_is_not_continued(
    llama: Model, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_texts(llama, [folder / "texts"], tmp_path, "norms", n_ctx=CTX)
    with pytest.raises(BadSetting, match="--resume"):
        record_texts(llama, [folder / "texts"], tmp_path, "norms", n_ctx=CTX)
    with pytest.raises(BadSetting, match="begun with"):
        record_texts(llama, [folder / "texts"], tmp_path, "norms", n_ctx=16, resume=True)
    monkeypatch.setattr("engine.laboratory.record.MOST_SUMS", 10)
    with pytest.raises(BadSetting, match="name fewer --layers"):
        record_texts(llama, [folder / "texts"], tmp_path / "other", "norms", n_ctx=CTX)
