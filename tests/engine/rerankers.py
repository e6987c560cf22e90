"""A tiny Llama with a head: a reranker that computes on every device in milliseconds."""

from pathlib import Path

import gguf
import numpy as np

from tests.goldens.tiny import E, Value, write_tiny

FORM = "Query: {query}\nDocument: {document}<|im_end|>"


def write_reranker(
    path: Path, form: str = "", labels: int = 1, ends: bool = True, head: bool = True
) -> Path:
    """With scores of some size; `ends` puts EOS between and after the texts."""
    kinds = gguf.GGUFValueType
    metadata: dict[str, Value] = {
        "llama.pooling_type": (4, kinds.UINT32),
        "tokenizer.ggml.add_eos_token": (ends, kinds.BOOL),
    }
    if form:
        metadata["tokenizer.chat_template.rerank"] = (form, kinds.STRING)
    if labels > 1:
        names = [f"label {i}" for i in range(labels)]
        metadata["llama.classifier.output_labels"] = (names, kinds.ARRAY)
    weight = np.random.default_rng(3).normal(size=(labels, E)).astype("f4")
    tensors = {"cls.output.weight": weight} if head else {}
    return write_tiny(path, "llama", metadata=metadata, tensors=tensors)
