"""Layers, heads and windows of a model from its file's header, before it runs."""

from dataclasses import dataclass

from engine.protocol import FileContent


@dataclass(frozen=True)
class ModelParts:
    """Layers, query heads, key-value heads, the window in tokens (0: none), the vocabulary."""

    n_layer: int
    n_head: int
    n_kv_head: int
    window: int
    n_vocab: int


def parts_of(content: FileContent | None) -> ModelParts | None:
    """From the header; None where it names no layers or no heads."""
    if content is None:
        return None
    known = {row.key.removeprefix(f"{content.architecture}."): row for row in content.metadata}

    def number(key: str) -> int:
        row = known.get(key)
        text = row.value if row is not None else ""
        if row is not None and row.count is not None:  # one for each layer: the most
            found = [int(part) for part in text.strip("[]…. ").split(", ") if part.isdecimal()]
            return max(found, default=0)
        return int(text) if text.isdecimal() else 0

    n_layer, n_head = number("block_count"), number("attention.head_count")
    if not n_layer or not n_head:
        return None
    vocabulary = known.get("tokenizer.ggml.tokens")
    n_vocab = (vocabulary.count if vocabulary is not None else None) or number("vocab_size")
    n_kv_head = number("attention.head_count_kv") or n_head
    return ModelParts(n_layer, n_head, n_kv_head, number("attention.sliding_window"), n_vocab)
