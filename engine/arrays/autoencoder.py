"""Sparse autoencoders: features of a result, by the files of Gemma Scope and SAELens.

    x~ = norm(x) - b_dec;  z = x~ W_enc + b_enc;  a = f(z);  x^ = undo norm(a W_dec + b_dec)

Gemma Scope takes no b_dec off; a transcoder reconstructs another result than it reads, undoes no
norm, and may have a skip connection. Sources: google-deepmind/gemma-scope, google/gemma-scope-2,
SAELens (sae.py).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from engine.arrays.open import ArrayFile, json_object, open_arrays
from engine.errors import BadFile, NotSupported

Floats = NDArray[np.float32]
Activation = Literal["standard", "jumprelu", "topk", "gated"]
Norm = Literal["none", "constant_norm_rescale", "layer_norm"]
_ROWS = 64
_HOOKS = (
    (r"model\.layers\.(\d+)\.output", "residual", 0),
    (r"blocks\.(\d+)\.hook_resid_post", "residual", 0),
    (r"blocks\.(\d+)\.hook_resid_pre", "residual", -1),
    (r"blocks\.(\d+)\.(?:attn\.)?hook_z", "heads", 0),
    (r"blocks\.(\d+)\.attn\.hook_z", "heads", 0),
    (r"model\.layers\.(\d+)\.self_attn\.o_proj\.input", "heads", 0),
    (r"blocks\.(\d+)\.hook_attn_out", "attention", 0),
    (r"blocks\.(\d+)\.hook_mlp_out", "feed_forward", 0),
    (r"model\.layers\.(\d+)\.pre_feedforward_layernorm\.output", "ffn_norm", 0),
    (r"model\.layers\.(\d+)\.post_feedforward_layernorm\.output", "ffn_post_norm", 0),
)
AFTER_ATTENTION = re.compile(r"model\.layers\.(\d+)\.post_attention_layernorm\.output", re.ASCII)
"""The output of a norm after attention in Gemma, of the feed-forward's norm in Llama and Qwen."""
_SITE = re.compile(r"([A-Za-z_]\w*?)-(\d{1,6})", re.ASCII)
REFUSED = (
    *("expected_average_only_in", "temporal", "crosscoder", "clt", "matryoshka"),
    *("rescale_acts_by_decoder_norm", "finetuning_scaling_factor"),
)


@dataclass(frozen=True)
class Hook:
    """A result by its site and layer; -1 if it belongs to none."""

    site: str
    layer: int


@dataclass(frozen=True)
class Autoencoder:
    """Weights as in the files: `w_enc` [d, n], `w_dec` [n, d_out]."""

    path: Path
    kind: Activation
    reads: Hook
    writes: Hook
    w_enc: Floats
    b_enc: Floats
    w_dec: Floats
    b_dec: Floats
    threshold: Floats | None = None
    k: int = 0
    norm: Norm = "none"
    subtracts: bool = False
    """Whether b_dec is taken off first."""
    gate: tuple[Floats, Floats, Floats] | None = None
    """Of a gated one b_gate, b_mag, r_mag [n]."""
    skip: Floats | None = None
    """[d_out, d]"""

    @property
    def d(self) -> int:
        """Numbers that it reads."""
        return int(self.w_enc.shape[0])

    @property
    def n(self) -> int:
        """Features."""
        return int(self.w_enc.shape[1])

    @property
    def is_transcoder(self) -> bool:
        """True if it reconstructs another result than it reads."""
        return self.reads != self.writes

    def encode(self, rows: Floats) -> Floats:
        """Activations [T, n] of rows [T, d]."""
        parts = [self._encoded(rows[i : i + _ROWS]) for i in range(0, len(rows), _ROWS)]
        return np.concatenate(parts) if parts else np.zeros((0, self.n), np.float32)

    def _encoded(self, rows: Floats) -> Floats:
        x = self._normalised(rows)[0]
        if self.subtracts:
            x = x - self.b_dec
        if self.gate is not None:
            b_gate, b_mag, r_mag = self.gate
            z = x @ self.w_enc
            on = z + b_gate > 0
            return np.where(on, np.maximum(z * np.exp(r_mag) + b_mag, 0), 0).astype(np.float32)
        z = x @ self.w_enc + self.b_enc
        positive: Floats = np.maximum(z, 0)
        if self.kind == "jumprelu":
            return np.where(z > self._threshold, positive, np.float32(0))
        if self.kind == "topk" and self.k < self.n:
            least = np.partition(z, self.n - self.k, axis=1)[:, self.n - self.k, None]
            return np.where(z >= least, positive, np.float32(0))
        return positive

    @cached_property
    def _threshold(self) -> Floats:
        return np.zeros(self.n, np.float32) if self.threshold is None else self.threshold

    def decode(self, activations: Floats, rows: Floats) -> Floats:
        """The reconstruction [T, d_out], of activations of these rows."""
        made: Floats = activations @ self.w_dec + self.b_dec
        if self.norm != "none" and not self.is_transcoder:
            _, scale, mean = self._normalised(rows)
            made = (made * scale + mean).astype(np.float32)
        if self.skip is not None:
            made = made + rows @ self.skip.T
        return made

    def _normalised(self, rows: Floats) -> tuple[Floats, Floats, Floats]:
        """Rows with their scale [T, 1] and mean [T, 1], which undo it."""
        zero = np.zeros((len(rows), 1), np.float32)
        if self.norm == "constant_norm_rescale":
            size = np.linalg.norm(rows, axis=1, keepdims=True) / np.sqrt(np.float32(self.d))
            scale: Floats = np.where(size > 0, size, 1).astype(np.float32)
            return (rows / scale).astype(np.float32), scale, zero
        if self.norm == "layer_norm":
            mean = rows.mean(axis=1, keepdims=True)
            std = rows.std(axis=1, ddof=1, keepdims=True)
            return (rows - mean) / (std + np.float32(1e-5)), std, mean
        return rows, zero + 1, zero

    def held(self, feature: int) -> tuple[Floats, Floats, float, float]:
        """Encoder column [d], decoder row, bias and threshold with which a feature's activation is
        computed of a row alone. Raises `NotSupported` where that cannot be.
        """
        if self.kind in ("topk", "gated") or self.norm != "none" or self.is_transcoder:
            what = "a transcoder" if self.is_transcoder else f"{self.kind}, {self.norm}"
            raise NotSupported(f"holding a feature of {self.path} ({what}; it can be added)")
        u = np.ascontiguousarray(self.w_enc[:, feature])
        bias = float(self.b_enc[feature])
        if self.subtracts:
            bias -= float(self.b_dec @ u)
        return u, self.w_dec[feature], bias, float(self._threshold[feature])


def open_autoencoder(path: str | PathLike[str], site: str = "") -> Autoencoder:
    """Open a folder of Gemma Scope or SAELens; `site` is RESULT-LAYER in place of the file's hook.
    Raises `BadFile`, `NotSupported`.
    """
    folder = Path(path).expanduser()
    if not folder.is_dir():
        folder = folder.parent
    for config, weights, read in (
        ("cfg.json", "sae_weights.safetensors", _saelens),
        ("config.json", "params.safetensors", _scope_2),
    ):
        if (folder / config).is_file() and (folder / weights).is_file():
            return _checked(read(json_object(folder / config), open_arrays(folder / weights), site))
    if (folder / "params.npz").is_file():
        return _checked(_scope_1(open_arrays(folder / "params.npz"), site))
    for one in sorted(folder.glob("*.pt")):
        open_arrays(one)
    expected = "cfg.json and sae_weights.safetensors, config.json and params.safetensors"
    raise BadFile(path, f"holds no autoencoder: {expected}, or params.npz")


def _scope_1(file: ArrayFile, site: str) -> Autoencoder:
    if not site:
        raise BadFile(file.path, "does not name its result; name it with --site, residual-20")
    hook = _hook(file, "", site)
    names = ("W_enc", "b_enc", "W_dec", "b_dec", "threshold")
    w_enc, b_enc, w_dec, b_dec, threshold = (file.array(name) for name in names)
    return Autoencoder(file.path, "jumprelu", hook, hook, w_enc, b_enc, w_dec, b_dec, threshold)


def _scope_2(config: dict[str, Any], file: ArrayFile, site: str) -> Autoencoder:
    kind = config.get("architecture", "jump_relu")
    if kind != "jump_relu" or config.get("type", "sae") not in ("sae", "transcoder"):
        named = config.get("type", kind) if kind == "jump_relu" else kind
        raise NotSupported(f"an autoencoder of type {str(named)[:40]!r} ({file.path})")
    reads = _hook(file, config.get("hf_hook_point_in"), site)
    writes = reads if site else _hook(file, config.get("hf_hook_point_out"), "")
    if config.get("type", "sae") == "sae":
        writes = reads
    names = ("w_enc", "b_enc", "w_dec", "b_dec", "threshold")
    w_enc, b_enc, w_dec, b_dec, threshold = (file.array(name) for name in names)
    skip = None
    if config.get("affine_connection") and "affine_skip_connection" in file.shapes:
        skip = file.array("affine_skip_connection")
    return Autoencoder(
        file.path, "jumprelu", reads, writes, w_enc, b_enc, w_dec, b_dec, threshold, skip=skip
    )


_SAELENS: Mapping[str, Activation] = {
    "standard": "standard",
    "jumprelu": "jumprelu",
    "topk": "topk",
    "gated": "gated",
    "transcoder": "standard",
    "skip_transcoder": "standard",
    "jumprelu_transcoder": "jumprelu",
    "jumprelu_skip_transcoder": "jumprelu",
}


def _saelens(config: dict[str, Any], file: ArrayFile, site: str) -> Autoencoder:
    more = config.get("metadata")
    config = (more if isinstance(more, dict) else {}) | config
    named = str(config.get("architecture", "standard"))
    if config.get("activation_fn", config.get("activation_fn_str")) == "topk":
        named = "topk"
    kind = _SAELENS.get(named)
    norm: Any = config.get("normalize_activations", "none") or "none"
    for refused in REFUSED:
        if refused in (named, norm) or config.get(refused) not in (None, False, "none"):
            raise NotSupported(f"an autoencoder with {refused} ({file.path})")
    if kind is None or norm not in ("none", "constant_norm_rescale", "layer_norm"):
        raise NotSupported(f"an autoencoder with {named[:40]}, {str(norm)[:40]} ({file.path})")
    reads = _hook(file, config.get("hook_name", config.get("hook_point")), site)
    out = config.get("hook_name_out")
    writes = _hook(file, out, "") if out and "transcoder" in named else reads
    arguments = config.get("activation_fn_kwargs")
    k: Any = config.get("k", arguments.get("k", 0) if isinstance(arguments, dict) else 0)
    if kind == "topk" and not (isinstance(k, int) and k >= 1):
        raise NotSupported(f"an autoencoder with k {str(k)[:20]} ({file.path})")
    gate = None
    if kind == "gated":
        b_gate, b_mag, r_mag = (file.array(name) for name in ("b_gate", "b_mag", "r_mag"))
        gate = (b_gate, b_mag, r_mag)
    w_enc = file.array("W_enc")
    b_enc = file.array("b_enc") if kind != "gated" else np.zeros(w_enc.shape[-1], np.float32)
    return Autoencoder(
        file.path,
        kind,
        reads,
        writes,
        w_enc,
        b_enc,
        file.array("W_dec"),
        file.array("b_dec"),
        file.array("threshold") if kind == "jumprelu" else None,
        int(k) if kind == "topk" else 0,
        norm,
        bool(config.get("apply_b_dec_to_input", True)) and "transcoder" not in named,
        gate,
        file.array("W_skip") if "W_skip" in file.shapes else None,
    )


def _hook(file: ArrayFile, name: object, site: str) -> Hook:
    """The result of a hook's name. Raises `BadFile`."""
    if site:
        parts = _SITE.fullmatch(site)
        if parts is None:
            raise BadFile(file.path, f"--site {site!r} is not RESULT-LAYER, as residual-20")
        return Hook(parts[1], int(parts[2]))
    text = str(name)
    for pattern, ours, offset in _HOOKS:
        found = re.fullmatch(pattern, text, re.ASCII)
        if found is not None:
            layer = int(found[1]) + offset
            return Hook(ours, layer) if layer >= 0 else Hook("embd", -1)
    if found := AFTER_ATTENTION.fullmatch(text):
        return Hook("after_attention", int(found[1]))
    raise BadFile(file.path, f"its hook {text[:80]!r} is not known; name the result with --site")


def _checked(one: Autoencoder) -> Autoencoder:
    """Raise `BadFile` unless shapes fit together."""
    if one.w_enc.ndim != 2 or one.w_dec.ndim != 2 or not one.w_enc.size:
        raise BadFile(one.path, "its matrices do not have two dimensions")
    d, n, out = one.d, one.n, one.w_dec.shape[1]
    wanted: list[tuple[str, Floats | None, tuple[int, ...]]] = [
        ("b_enc", one.b_enc, (n,)),
        ("W_dec", one.w_dec, (n, out)),
        ("b_dec", one.b_dec, (out,)),
        ("threshold", one.threshold, (n,)),
        ("the skip connection", one.skip, (out, d)),
    ]
    wanted += [("a gate's vector", each, (n,)) for each in one.gate or ()]
    for name, values, shape in wanted:
        if values is not None and values.shape != shape:
            raise BadFile(one.path, f"{name} is {list(values.shape)}, expected {list(shape)}")
    if not one.is_transcoder and out != d:
        raise BadFile(one.path, f"it reads {d} numbers and gives {out}")
    return one
