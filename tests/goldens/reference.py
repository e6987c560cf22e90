"""The independent reference: a GGUF file's weights, dequantised to float32, in transformers' model.

Nothing of the engine is used: `gguf` reads and dequantises, transformers computes (eager attention,
float32). Two conversions undo what the writers of GGUF files do to the weights:

- llama, mistral3: the rows of q and k are stored so that rotation pairs are neighbours (2i, 2i+1);
  transformers rotates halves (i, i + d/2), so the rows of every head are put back.
- gemma3: norm weights are stored with their + 1; transformers adds it again, so it is taken off.

Needs torch and transformers, which the tests themselves do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf.quants import dequantize
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    Ministral3Config,
    Ministral3ForCausalLM,
    PreTrainedModel,
)

OUTSIDE = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
IN_BLOCK = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
}
NORMS = {
    "llama": {"ffn_norm": "post_attention_layernorm"},
    "mistral3": {"ffn_norm": "post_attention_layernorm"},
    "gemma3": {
        "post_attention_norm": "post_attention_layernorm",
        "ffn_norm": "pre_feedforward_layernorm",
        "post_ffw_norm": "post_feedforward_layernorm",
    },
}


class Metadata:
    """The file's key-value pairs, looked up below its architecture."""

    def __init__(self, reader: gguf.GGUFReader) -> None:
        self._fields = reader.fields
        self.architecture: str = self._fields["general.architecture"].contents()

    def __call__(self, key: str, default: Any = None) -> Any:
        field = self._fields.get(f"{self.architecture}.{key}")
        if field is None:
            if default is None:
                raise KeyError(f"{self.architecture}.{key}")
            return default
        return field.contents()


def load_reference(path: Path) -> PreTrainedModel:
    """The file as a float32 transformers model; every tensor must be used and every weight set."""
    reader = gguf.GGUFReader(path)
    meta = Metadata(reader)
    tensors = {t.name: dequantize(t.data, t.tensor_type) for t in reader.tensors}
    tensors = {name: np.array(data, np.float32) for name, data in tensors.items()}
    factors = tensors.pop("rope_freqs.weight", None)
    tied = "output.weight" not in tensors
    vocabulary = tensors["token_embd.weight"].shape[0]
    build = {"llama": _llama, "gemma3": _gemma3, "mistral3": _mistral3}[meta.architecture]
    model = build(meta, vocabulary, tied)
    if factors is not None:
        _divide_frequencies(model, factors)
    weights = {
        _their_name(n, meta.architecture): _their_weight(n, d, meta) for n, d in tensors.items()
    }
    missing, unexpected = model.load_state_dict(weights, strict=False)
    if unexpected or set(missing) - ({"lm_head.weight"} if tied else set()):
        raise ValueError(f"{path}: missing {missing}, unexpected {unexpected}")
    model.tie_weights()
    return model.eval()


def logit_blocks(
    model: PreTrainedModel, tokens: Sequence[int], rows: range | None = None, block: int = 256
) -> Iterator[tuple[int, np.ndarray]]:
    """Logits of one context in blocks of positions: (first position, float32 [t, V])."""
    rows = range(len(tokens)) if rows is None else rows
    cap = getattr(model.config, "final_logit_softcapping", None)
    with torch.no_grad():
        ids = torch.tensor([list(tokens)])
        hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state[0]
        for start in range(rows.start, rows.stop, block):
            logits = model.lm_head(hidden[start : min(start + block, rows.stop)])
            if cap:
                logits = cap * torch.tanh(logits / cap)
            yield start, logits.numpy()


def _llama(meta: Metadata, vocabulary: int, tied: bool) -> PreTrainedModel:
    config = LlamaConfig(
        **_sizes(meta, vocabulary, tied),
        rope_parameters={"rope_type": "default", "rope_theta": meta("rope.freq_base", 10000.0)},
        attention_bias=False,
    )
    return _empty(LlamaForCausalLM, config)


def _mistral3(meta: Metadata, vocabulary: int, tied: bool) -> PreTrainedModel:
    rope = {
        "rope_type": "yarn",
        "rope_theta": meta("rope.freq_base"),
        "factor": meta("rope.scaling.factor"),
        "original_max_position_embeddings": meta("rope.scaling.original_context_length"),
        "beta_fast": meta("rope.scaling.yarn_beta_fast"),
        "beta_slow": meta("rope.scaling.yarn_beta_slow"),
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
        "llama_4_scaling_beta": meta("attention.temperature_scale"),
    }
    config = Ministral3Config(**_sizes(meta, vocabulary, tied), rope_parameters=rope)
    return _empty(Ministral3ForCausalLM, config)


def _gemma3(meta: Metadata, vocabulary: int, tied: bool) -> PreTrainedModel:
    config = Gemma3TextConfig(
        **_sizes(meta, vocabulary, tied),
        rope_parameters={
            "full_attention": {"rope_type": "default", "rope_theta": meta("rope.freq_base")},
            "sliding_attention": {
                "rope_type": "default",
                "rope_theta": meta("rope.local.freq_base", 10000.0),
            },
        },
        query_pre_attn_scalar=meta("attention.key_length"),
        sliding_window=meta("attention.sliding_window"),
        sliding_window_pattern=6,
        final_logit_softcapping=meta("final_logit_softcapping", 0.0) or None,
        hidden_activation="gelu_pytorch_tanh",
    )
    return _empty(Gemma3ForCausalLM, config)


def _sizes(meta: Metadata, vocabulary: int, tied: bool) -> dict[str, Any]:
    heads = meta("attention.head_count")
    return {
        "vocab_size": vocabulary,
        "hidden_size": meta("embedding_length"),
        "intermediate_size": meta("feed_forward_length"),
        "num_hidden_layers": meta("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": meta("attention.head_count_kv", heads),
        "head_dim": meta("attention.key_length", meta("embedding_length") // heads),
        "max_position_embeddings": meta("context_length"),
        "rms_norm_eps": meta("attention.layer_norm_rms_epsilon"),
        "tie_word_embeddings": tied,
        "pad_token_id": None,
        "attn_implementation": "eager",
    }


def _empty(kind: type[PreTrainedModel], config: Any) -> PreTrainedModel:
    torch.set_default_dtype(torch.float32)
    with torch.no_grad():
        return kind(config)


def _divide_frequencies(model: PreTrainedModel, factors: np.ndarray) -> None:
    # rope_freqs holds one divisor a rotation pair; transformers computes the same for "llama3".
    rotary = model.model.rotary_emb
    rotary.inv_freq = rotary.inv_freq / torch.from_numpy(factors)


def _their_name(name: str, architecture: str) -> str:
    base = name.removesuffix(".weight")
    if base in OUTSIDE:
        return f"{OUTSIDE[base]}.weight"
    _, layer, part = base.split(".")
    return f"model.layers.{layer}.{(IN_BLOCK | NORMS[architecture])[part]}.weight"


def _their_weight(name: str, data: np.ndarray, meta: Metadata) -> torch.Tensor:
    if meta.architecture == "gemma3" and name.endswith("_norm.weight"):
        data = data - 1
    if meta.architecture in ("llama", "mistral3") and name.endswith(
        ("attn_q.weight", "attn_k.weight")
    ):
        key = "attention.head_count" if "attn_q" in name else "attention.head_count_kv"
        data = _halves(data, meta(key))
    return torch.from_numpy(np.ascontiguousarray(data))


def _halves(data: np.ndarray, heads: int) -> np.ndarray:
    """Rows of each head from neighbouring pairs (i, half) to (half, i). [out, in] -> [out, in]."""
    rows, columns = data.shape
    pairs = data.reshape(heads, rows // heads // 2, 2, columns)
    return pairs.swapaxes(1, 2).reshape(rows, columns)
