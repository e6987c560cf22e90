"""Nomic BERT with experts, against its definition in NumPy: transformers has no such class."""

from math import erf
from pathlib import Path

import gguf
import numpy as np
import pytest

from engine.models.base import Output
from engine.runner import load
from tests.engine.models.text.test_rows import first_driver
from tests.truth.compare import nmse

L, E, F, H, X, U, V, EPS, BASE = 4, 32, 64, 4, 6, 2, 96, 1e-5, 1e4
Tensors = dict[str, np.ndarray]


def tensors() -> Tensors:
    draws = np.random.default_rng(3)

    def matrix(*shape: int, gain: float = 0.6) -> np.ndarray:
        return (gain / np.sqrt(shape[-1]) * draws.normal(size=shape)).astype(np.float32)

    def vector(size: int, middle: float = 0.0) -> np.ndarray:
        return (middle + 0.3 * draws.normal(size=size)).astype(np.float32)

    made = {"token_embd.weight": matrix(V, E, gain=6), "token_types.weight": matrix(1, E)}
    norms = ["token_embd_norm"]
    for i in range(L):
        at = f"blk.{i}."
        norms += [f"{at}attn_output_norm", f"{at}layer_output_norm"]
        made |= {f"{at}attn_qkv.weight": matrix(3 * E, E, gain=2)}
        made |= {f"{at}attn_qkv.bias": vector(3 * E), f"{at}attn_output.weight": matrix(E, E)}
        made |= {f"{at}attn_output.bias": vector(E)}
        if i % 2:
            made |= {f"{at}ffn_gate_inp.weight": matrix(X, E, gain=2)}
            made |= {f"{at}ffn_up_exps.weight": matrix(X, F, E)}
            made |= {f"{at}ffn_down_exps.weight": matrix(X, E, F)}
        else:
            made |= {f"{at}ffn_up.weight": matrix(F, E), f"{at}ffn_up.bias": vector(F)}
            made |= {f"{at}ffn_down.weight": matrix(E, F), f"{at}ffn_down.bias": vector(E)}
    for name in norms:
        made |= {f"{name}.weight": vector(E, 1.0), f"{name}.bias": vector(E)}
    return made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "nomic.gguf"
    writer = gguf.GGUFWriter(path, "nomic-bert-moe")
    writer.add_block_count(L)
    writer.add_context_length(128)
    writer.add_embedding_length(E)
    writer.add_feed_forward_length(F)
    writer.add_head_count(H)
    writer.add_layer_norm_eps(EPS)
    writer.add_rope_freq_base(BASE)
    writer.add_causal_attention(False)
    writer.add_expert_count(X)
    writer.add_expert_used_count(U)
    writer.add_moe_every_n_layers(2)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([chr(33 + i) for i in range(94)] + ["Ġ", "Ċ"])
    writer.add_token_types([gguf.TokenType.NORMAL] * V)
    writer.add_token_merges(["! !"])
    writer.add_token_type_count(1)
    for name, values in tensors().items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def by_definition(ids: np.ndarray) -> np.ndarray:
    """Float64 [T, E]."""
    w = {name: values.astype(np.float64) for name, values in tensors().items()}
    gelu = np.vectorize(lambda x: x / 2 * (1 + erf(x / np.sqrt(2))))

    def normed(x: np.ndarray, name: str) -> np.ndarray:
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS)
        return x * w[f"{name}.weight"] + w[f"{name}.bias"]

    def turned(x: np.ndarray) -> np.ndarray:
        half = E // H // 2
        angles = np.arange(len(ids))[:, None] * BASE ** (-np.arange(half) / half)
        cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
        a, b = x[..., :half], x[..., half:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    def soft(x: np.ndarray) -> np.ndarray:
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    x = normed(w["token_embd.weight"][ids] + w["token_types.weight"][0], "token_embd_norm")
    for i in range(L):
        at, n = f"blk.{i}.", len(ids)
        qkv = x @ w[f"{at}attn_qkv.weight"].T + w[f"{at}attn_qkv.bias"]
        q, k, v = (part.reshape(n, H, E // H) for part in np.split(qkv, 3, -1))
        weights = soft(np.einsum("thd,shd->hts", turned(q), turned(k)) / np.sqrt(E // H))
        mixed = np.einsum("hts,shd->thd", weights, v).reshape(n, E)
        out = mixed @ w[f"{at}attn_output.weight"].T + w[f"{at}attn_output.bias"]
        x = normed(x + out, f"{at}attn_output_norm")
        if i % 2:
            probabilities = soft(x @ w[f"{at}ffn_gate_inp.weight"].T)
            out = np.zeros_like(x)
            for t in range(n):
                for e in np.argsort(-probabilities[t])[:U]:
                    up = gelu(w[f"{at}ffn_up_exps.weight"][e] @ x[t])
                    out[t] += probabilities[t, e] * (w[f"{at}ffn_down_exps.weight"][e] @ up)
        else:
            up = gelu(x @ w[f"{at}ffn_up.weight"].T + w[f"{at}ffn_up.bias"])
            out = up @ w[f"{at}ffn_down.weight"].T + w[f"{at}ffn_down.bias"]
        x = normed(x + out, f"{at}layer_output_norm")
    return x


IDS = np.random.default_rng(9).integers(0, V, 40)


def test_it_computes_its_definition(path: Path) -> None:
    wanted = by_definition(IDS)
    with load(path, device="host") as model:
        step = model.loaded.stepper.step
        found = step(IDS.tolist(), 0, range(40), output=Output.EMBEDDINGS)
        assert nmse(found, wanted) < 1e-10


@pytest.mark.device
def test_on_a_device(path: Path) -> None:
    wanted = by_definition(IDS)
    with load(path, device=first_driver()) as model:
        step = model.loaded.stepper.step
        assert nmse(step(IDS.tolist(), 0, range(40), output=Output.EMBEDDINGS), wanted) < 1e-5
