"""Autoencoders of every kind and format against the formulas in float64."""

import json
from pathlib import Path

import numpy as np
import pytest

from engine.arrays.autoencoder import Hook, open_autoencoder
from engine.arrays.safetensors import packed
from engine.errors import BadFile, NotSupported

D, N, T = 12, 40, 9


def weights(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    made = {
        "W_enc": rng.standard_normal((D, N)),
        "b_enc": rng.standard_normal(N) / 3,
        "W_dec": rng.standard_normal((N, D)) / 4,
        "b_dec": rng.standard_normal(D) / 3,
        "threshold": rng.uniform(0, 1.5, N),
        "b_gate": rng.standard_normal(N) / 3,
        "b_mag": rng.standard_normal(N) / 3,
        "r_mag": rng.standard_normal(N) / 3,
        "W_skip": rng.standard_normal((D, D)) / 4,
    }
    return {name: values.astype(np.float32) for name, values in made.items()}


ROWS = (np.random.default_rng(9).standard_normal((T, D)) * 1.5 + 0.3).astype(np.float32)


def saelens(folder: Path, config: dict, *names: str) -> Path:
    """A folder as SAELens writes it."""
    folder.mkdir(exist_ok=True)
    own = weights()
    arrays = {name: own[name] for name in ("W_enc", "b_enc", "W_dec", "b_dec", *names)}
    if config.get("architecture") == "gated":
        del arrays["b_enc"]
    (folder / "sae_weights.safetensors").write_bytes(packed(arrays, {}))
    whole = {"hook_name": "blocks.1.hook_resid_post"} | config
    (folder / "cfg.json").write_text(json.dumps(whole))
    return folder


def by_formula(config: dict) -> tuple[np.ndarray, np.ndarray]:
    """Activations and reconstruction, written once more in float64."""
    w = {name: values.astype(np.float64) for name, values in weights().items()}
    x = ROWS.astype(np.float64)
    norm, kind = config.get("normalize_activations", "none"), config.get("architecture", "standard")
    scale, mean = np.ones((T, 1)), np.zeros((T, 1))
    if norm == "constant_norm_rescale":
        scale = np.sqrt((x * x).sum(1, keepdims=True)) / np.sqrt(D)
    if norm == "layer_norm":
        mean = x.sum(1, keepdims=True) / D
        scale = np.sqrt(((x - mean) ** 2).sum(1, keepdims=True) / (D - 1))
    x = (x - mean) / (scale + (1e-5 if norm == "layer_norm" else 0))
    if config.get("apply_b_dec_to_input", True) and "transcoder" not in kind:
        x = x - w["b_dec"]
    z = x @ w["W_enc"] + (0 if kind == "gated" else w["b_enc"])
    if kind == "gated":
        magnitude = x @ (w["W_enc"] * np.exp(w["r_mag"])) + w["b_mag"]
        a = (z + w["b_gate"] > 0) * np.maximum(magnitude, 0)
    elif "jumprelu" in kind:
        a = np.maximum(z, 0) * (z > w["threshold"])
    elif kind == "topk":
        a = np.zeros_like(z)
        for row, best in enumerate(np.argsort(-z, axis=1)[:, : config["k"]]):
            a[row, best] = np.maximum(z[row, best], 0)
    else:
        a = np.maximum(z, 0)
    made = (a @ w["W_dec"] + w["b_dec"]) * scale + mean
    if kind == "skip_transcoder":
        made = made + ROWS.astype(np.float64) @ w["W_skip"].T
    return a, made


OUT = {"hook_name_out": "blocks.1.hook_mlp_out"}


@pytest.mark.parametrize(
    ("config", "names"),
    [
        ({}, ()),
        ({"apply_b_dec_to_input": False}, ()),
        ({"architecture": "jumprelu"}, ("threshold",)),
        ({"architecture": "topk", "k": 5}, ()),
        ({"architecture": "gated"}, ("b_gate", "b_mag", "r_mag")),
        ({"normalize_activations": "constant_norm_rescale"}, ()),
        ({"normalize_activations": "layer_norm"}, ()),
        ({"architecture": "transcoder", **OUT}, ()),
        ({"architecture": "skip_transcoder", **OUT}, ("W_skip",)),
        ({"architecture": "jumprelu_transcoder", **OUT}, ("threshold",)),
    ],
)
def test_each_kind_of_saelens(tmp_path: Path, config: dict, names: tuple[str, ...]) -> None:
    sae = open_autoencoder(saelens(tmp_path / "sae", config, *names))
    a, made = by_formula(config)
    found = sae.encode(ROWS)
    np.testing.assert_allclose(found, a, atol=1e-5)
    assert 0.05 < (a > 0).mean() < 0.95
    np.testing.assert_allclose(sae.decode(found, ROWS), made, atol=1e-5)
    assert sae.reads == Hook("residual", 1)
    wanted = Hook("feed_forward", 1) if "hook_name_out" in config else sae.reads
    assert sae.writes == wanted


def test_old_and_new_places_of_keys(tmp_path: Path) -> None:
    old = {"hook_name": None, "hook_point": "blocks.2.hook_resid_pre", "activation_fn": "topk"}
    old["activation_fn_kwargs"] = {"k": 3}
    sae = open_autoencoder(saelens(tmp_path / "old", {k: v for k, v in old.items() if v}))
    assert (sae.kind, sae.k) == ("topk", 3)
    new = {"metadata": {"hook_name": "blocks.0.hook_resid_pre"}}
    folder = saelens(tmp_path / "new", new)
    (folder / "cfg.json").write_text(json.dumps(new))
    assert open_autoencoder(folder).reads == Hook("embd", -1)


def test_gemma_scope(tmp_path: Path) -> None:
    """Both formats: no b_dec is taken off first."""
    w = weights()
    first, second = tmp_path / "one", tmp_path / "two"
    for folder in (first, second):
        folder.mkdir()
    np.savez(first / "params.npz", **{k: w[k] for k in ("W_enc", "b_enc", "W_dec", "b_dec")},
             threshold=w["threshold"])  # fmt: skip
    names = {"w_enc": "W_enc", "b_enc": "b_enc", "w_dec": "W_dec", "b_dec": "b_dec"}
    arrays = {name: w[own] for name, own in names.items()} | {"threshold": w["threshold"]}
    arrays["affine_skip_connection"] = w["W_skip"]
    (second / "params.safetensors").write_bytes(packed(arrays, {}))
    config = {
        "architecture": "jump_relu",
        "type": "transcoder",
        "hf_hook_point_in": "model.layers.1.pre_feedforward_layernorm.output",
        "hf_hook_point_out": "model.layers.1.post_feedforward_layernorm.output",
        "affine_connection": True,
    }
    (second / "config.json").write_text(json.dumps(config))
    kind = {"architecture": "jumprelu", "apply_b_dec_to_input": False}
    a, made = by_formula(kind)
    for folder, site, skip in ((first, "residual-1", 0), (second, "", 1)):
        sae = open_autoencoder(folder, site)
        found = sae.encode(ROWS)
        np.testing.assert_allclose(found, a, atol=1e-5)
        wanted = made + skip * (ROWS.astype(np.float64) @ w["W_skip"].T.astype(np.float64))
        np.testing.assert_allclose(sae.decode(found, ROWS), wanted, atol=1e-5)
    assert sae.reads == Hook("ffn_norm", 1)
    assert sae.writes == Hook("ffn_post_norm", 1)
    with pytest.raises(BadFile, match="--site"):
        open_autoencoder(first)


@pytest.mark.parametrize("config", [{}, {"architecture": "jumprelu"}])
def test_a_feature_alone_is_as_among_all(tmp_path: Path, config: dict) -> None:
    names = ("threshold",) if config else ()
    sae = open_autoencoder(saelens(tmp_path / "sae", config, *names))
    for feature in (0, 17):
        u, w, bias, threshold = sae.held(feature)
        z = ROWS @ u + bias
        alone = np.where((z > threshold) & (z > 0), z, 0)
        np.testing.assert_allclose(alone, sae.encode(ROWS)[:, feature], atol=1e-5)
        np.testing.assert_array_equal(w, weights()["W_dec"][feature])


@pytest.mark.parametrize(
    ("config", "error", "problem"),
    [
        ({"architecture": "topk", "k": 0}, NotSupported, "k 0"),
        ({"architecture": "temporal"}, NotSupported, "temporal"),
        ({"architecture": "crosscoder"}, NotSupported, "crosscoder"),
        ({"architecture": "other"}, NotSupported, "other"),
        ({"normalize_activations": "expected_average_only_in"}, NotSupported, "expected_average"),
        ({"rescale_acts_by_decoder_norm": True}, NotSupported, "rescale_acts_by_decoder_norm"),
        ({"finetuning_scaling_factor": True}, NotSupported, "finetuning_scaling_factor"),
        ({"hook_name": "blocks.1.hook_other"}, BadFile, "blocks.1.hook_other.*--site"),
        ({"architecture": "jumprelu"}, BadFile, "no array 'threshold'"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(
    tmp_path: Path, config: dict, error: type, problem: str
) -> None:
    with pytest.raises(error, match=problem):
        open_autoencoder(saelens(tmp_path / "sae", config))


def test_shapes_that_do_not_fit_and_missing_files(tmp_path: Path) -> None:
    folder = saelens(tmp_path / "sae", {})
    arrays = {k: weights()[k] for k in ("W_enc", "b_enc", "W_dec", "b_dec")}
    arrays["b_enc"] = arrays["b_enc"][:-1]
    (folder / "sae_weights.safetensors").write_bytes(packed(arrays, {}))
    with pytest.raises(BadFile, match=r"b_enc is \[39\], expected \[40\]"):
        open_autoencoder(folder)
    (folder / "cfg.json").write_text("{")
    with pytest.raises(BadFile, match="cfg.json: cannot be read"):
        open_autoencoder(folder)
    with pytest.raises(BadFile, match="holds no autoencoder"):
        open_autoencoder(tmp_path)
    (tmp_path / "ae.pt").write_bytes(b"")
    with pytest.raises(BadFile, match="pickle"):
        open_autoencoder(tmp_path)
