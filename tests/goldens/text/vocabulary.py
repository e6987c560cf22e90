"""The vocabulary of the table's files."""

from __future__ import annotations

import gguf

from tests.goldens.text.recipe import V


def write_vocabulary(writer: gguf.GGUFWriter) -> None:
    """Byte-level BPE without merges: printed characters, none with a meaning of its own."""
    tokens = [chr(33 + i) for i in range(94)] + ["Ġ", "Ċ"]
    assert len(tokens) == V
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.NORMAL] * V)
    writer.add_token_merges(["! !"])
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)
