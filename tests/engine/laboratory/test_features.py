"""Features of a text; lenses from files."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from engine.arrays.autoencoder import open_autoencoder
from engine.arrays.safetensors import packed
from engine.errors import BadFile
from engine.inside.token.library import look
from engine.laboratory.library import features
from engine.runner import Model, load
from tests.goldens.make_patches import prompts

E, N = 64, 50
AUTOENCODERS = Path(__file__).parents[2] / "goldens" / "autoencoders.npz"
TEXT = "the hat is on"


@pytest.fixture(scope="module")
def model(tiny_path: Path) -> Iterator[Model]:
    with load(tiny_path, device="host", kv="f32", ctx=64) as opened:
        yield opened


@pytest.fixture(scope="module")
def sae(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random one of what leaves layer 1."""
    folder = tmp_path_factory.mktemp("sae")
    rng = np.random.default_rng(1)
    arrays = {
        "W_enc": rng.standard_normal((E, N)) / 8,
        "b_enc": rng.standard_normal(N) / 8,
        "W_dec": rng.standard_normal((N, E)) / 8,
        "b_dec": rng.standard_normal(E) / 8,
        "threshold": rng.uniform(0, 0.1, N),
    }
    kinds = {name: values.astype(np.float32) for name, values in arrays.items()}
    (folder / "sae_weights.safetensors").write_bytes(packed(kinds, {}))
    config = {"architecture": "jumprelu", "hook_name": "blocks.1.hook_resid_post"}
    (folder / "cfg.json").write_text(json.dumps(config))
    return folder


def test_features_are_those_of_the_rows(model: Model, sae: Path, tmp_path: Path) -> None:
    rows = model.dump(TEXT, "l_out-1")["l_out-1#0@0"]
    a = open_autoencoder(sae).encode(rows)
    batch = "\n".join(json.dumps({"index": i, "description": f"it is {i}"}) for i in range(0, N, 2))
    with gzip.open(tmp_path / "batch-0.jsonl.gz", "wt") as file:
        file.write(batch)
    found = features(model, sae, TEXT, top=4, names=str(tmp_path))
    assert found.site == "residual-1"
    assert len(found.features) == len(rows) == len(found.tokens)
    for row, listed in zip(a, found.features, strict=True):
        best = [int(i) for i in np.argsort(-row)[:4] if row[i] > 0]
        assert [one.index for one in listed] == best
        for one in listed:
            assert one.activation == pytest.approx(row[one.index], rel=1e-5)
            wanted = f"it is {one.index}" if one.index % 2 == 0 else None
            assert found.names.get(one.index) == wanted
    assert found.l0 == pytest.approx((a[1:] > 0).sum() / (len(rows) - 1))
    made = open_autoencoder(sae).decode(a, rows)[1:].astype(np.float64)
    spread = ((rows[1:] - rows[1:].mean(0)) ** 2).sum()
    assert found.explained == pytest.approx(1 - ((rows[1:] - made) ** 2).sum() / spread, rel=1e-4)
    assert "explained variance" in found.notes[0]
    promoted = features(model, sae, TEXT, top=1)
    assert all(promoted.names[one.index] for each in promoted.features for one in each)


@pytest.mark.parametrize("site", ["heads-1", "ffn_norm-2", "attention-0"])
def test_other_sites_are_read(model: Model, sae: Path, site: str) -> None:
    name, _, layer = site.partition("-")
    own = {"heads": "kqv_out", "attention": "attn_out"}.get(name, name)
    found = features(model, sae, TEXT, site=site, top=3)
    rows = next(iter(model.dump(TEXT, f"{own}-{layer}").values()))
    a = open_autoencoder(sae, site).encode(rows.reshape(len(rows), -1))
    assert [one.index for one in found.features[-1]] == [
        int(i) for i in np.argsort(-a[-1])[:3] if a[-1][i] > 0
    ]


KINDS = ("standard", "standard-untied", "standard-layer_norm", "standard-constant", "jumprelu")
KINDS += ("topk", "gated", "gated-layer_norm", "transcoder", "transcoder-layer_norm")
KINDS += ("skip_transcoder", "jumprelu_transcoder", "jumprelu_skip_transcoder")


@pytest.mark.parametrize("kind", KINDS)
def test_features_are_those_of_saelens(
    kind: str, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that SAELens wrote; its activations of transformers' results in float32."""
    with np.load(AUTOENCODERS) as file:
        for key, name in (("cfg", "cfg.json"), ("weights", "sae_weights.safetensors")):
            (tmp_path / name).write_bytes(file[f"{kind}/{key}"].tobytes())
        wanted, made = file[f"{kind}/activations"], file[f"{kind}/made"]
        target = file["feed_forward-1" if "transcoder" in kind else "residual-1"]
        rows = file["residual-0" if "transcoder" in kind else "residual-1"]
    sae = open_autoencoder(tmp_path)
    np.testing.assert_allclose(sae.encode(rows), wanted, atol=1e-5)
    np.testing.assert_allclose(sae.decode(wanted, rows), made, atol=1e-5)
    monkeypatch.setattr(
        "engine.laboratory.features.text_tokens", lambda model, sequence, text: prompts()[0]
    )
    found = features(model, tmp_path, TEXT, top=sae.n)
    ours = np.zeros_like(wanted)
    for row, listed in zip(ours, found.features, strict=True):
        for one in listed:
            row[one.index] = one.activation
    both, either = (f(ours > 0, wanted > 0).sum() for f in (np.logical_and, np.logical_or))
    assert both / either >= 0.99
    np.testing.assert_allclose(ours, wanted, atol=1e-3)
    spread = ((target[1:] - target[1:].mean(0)) ** 2).sum()
    explained = 1 - ((target[1:] - made[1:]) ** 2).sum() / spread
    assert found.explained == pytest.approx(explained, rel=1e-3)


def test_wrong_features_say_what_is_wrong(model: Model, sae: Path, tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="use --site"):
        features(model, sae, TEXT, site="residual-9")
    with pytest.raises(BadFile, match="for 64 numbers, ffn_swiglu has 96"):
        features(model, sae, TEXT, site="ffn_swiglu-1")
    with pytest.raises(BadFile, match="no batch-N"):
        features(model, sae, TEXT, names=str(tmp_path))


def lens_file(folder: Path, arrays: dict[str, np.ndarray], **metadata: str) -> str:
    path = folder / "lens.safetensors"
    kinds = {name: values.astype(np.float32) for name, values in arrays.items()}
    path.write_bytes(packed(kinds, metadata))
    return str(path)


def test_the_identity_lens_is_the_logit_lens_to_the_bit(model: Model, tmp_path: Path) -> None:
    plain = look(model, TEXT, lens=True).lens
    path = lens_file(tmp_path, {f"J.{i}": np.eye(E) for i in (0, 1)}, n_prompts="12")
    found = look(model, TEXT, lens=True, lens_file=path).lens
    assert (found.kind, found.n_prompts) == ("jacobian", 12)
    assert msgspec.structs.replace(found, kind="logit", n_prompts=0) == plain
    tuned = {f"{i}.weight": np.zeros((E, E)) for i in range(3)}
    path = lens_file(tmp_path, tuned | {f"{i}.bias": np.zeros(E) for i in range(3)})
    found = look(model, TEXT, lens=True, lens_file=path).lens
    assert msgspec.structs.replace(found, kind="logit") == plain


def test_a_lens_is_its_product_before_norm_and_output(model: Model, tmp_path: Path) -> None:
    """Only of the layers that it has; against the model's own tensors in float64."""
    j = np.random.default_rng(2).standard_normal((E, E)) / 8
    path = lens_file(tmp_path, {"J.1": j})
    found = look(model, TEXT, lens=True, lens_file=path, top_k=3).lens
    assert found.layers == [1, 2]
    h = j @ model.dump(TEXT, "l_out-1")["l_out-1#0@0"][-1].astype(np.float64)
    norm, output = (
        model.tensor(f"{one}.weight").astype(np.float64) for one in ("output_norm", "output")
    )
    h = h / np.sqrt((h * h).mean() + 1e-5) * norm
    best = np.argsort(-(output @ h))[:3]
    assert np.frombuffer(found.ids, "<i4")[:3].tolist() == best.tolist()


def test_a_lens_of_another_model_is_refused(model: Model, tmp_path: Path) -> None:
    path = lens_file(tmp_path, {"J.0": np.eye(8)})
    with pytest.raises(BadFile, match="the lens is for 8, the model has 64"):
        look(model, TEXT, lens=True, lens_file=path)
    path = lens_file(tmp_path, {"J.7": np.eye(E)})
    with pytest.raises(BadFile, match="reads layer 7, the model has 3"):
        look(model, TEXT, lens=True, lens_file=path)
