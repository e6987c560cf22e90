"""Vocabularies of some 330 tokens with a family's special ones, and its chat template in short."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gguf

NORMAL, UNKNOWN, CONTROL = gguf.TokenType.NORMAL, gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL
PAIRS = [a + b for a in "Ġtheao" for b in "thaeionsrl" if a + b != "tt"]
MERGES = [f"{p[0]} {p[1]}" for p in PAIRS[:57]] + ["th e", "Ġ the", "Ġt o", "Ċ Ċ"]
WORDS = [
    "▁the",
    "▁t",
    "he",
    "th",
    "▁a",
    "an",
    "in",
    "▁to",
    "er",
    "on",
    "re",
    "▁of",
    "\n\n\n",
    "\n\n",
]
LETTERS = [*"▁etaoinshrdlucmfwypvbgkjqxz", *"0123456789", *".,!?'-:;()\n"]


@dataclass(frozen=True)
class Vocabulary:
    """`special` tokens stand behind the ordinary ones; `bos` and `eos` are among them.

    `pre` is llama.cpp's name of the rule that cuts text before byte pairs are merged; with
    "default" it is a SentencePiece vocabulary.
    """

    pre: str
    special: tuple[str, ...]
    bos: str
    eos: str
    template: str
    add_bos: bool = False
    space_prefix: bool = False

    @property
    def sentencepiece(self) -> bool:
        return self.pre == "default"

    @property
    def tokens(self) -> list[str]:
        """All tokens, by id."""
        if self.sentencepiece:
            return ["<unk>", *(f"<0x{b:02X}>" for b in range(256)), *WORDS, *LETTERS, *self.special]
        return [*shown_bytes(), *(merge.replace(" ", "") for merge in MERGES), *self.special]

    def __len__(self) -> int:
        return len(self.tokens)

    def id(self, token: str) -> int:
        return self.tokens.index(token)

    def metadata(self) -> dict[str, Any]:
        """The tokenizer.* keys of the file."""
        ordinary = len(self) - len(self.special)
        kinds = [NORMAL] * ordinary + [CONTROL] * len(self.special)
        keys: dict[str, Any] = {
            "pre": self.pre,
            "model": "llama" if self.sentencepiece else "gpt2",
            "tokens": self.tokens,
            "bos_token_id": self.id(self.bos),
            "eos_token_id": self.id(self.eos),
            "add_bos_token": self.add_bos,
        }
        if self.sentencepiece:
            kinds[:257] = [UNKNOWN] + [gguf.TokenType.BYTE] * 256
            keys["unknown_token_id"] = 0
            keys["add_space_prefix"] = self.space_prefix
            keys["scores"] = self.scores()
        else:
            keys["merges"] = MERGES
        keys["token_type"] = [int(kind) for kind in kinds]
        named = {f"tokenizer.ggml.{key}": value for key, value in keys.items()}
        return named | {"tokenizer.chat_template": self.template}

    def scores(self) -> list[float]:
        """Of a SentencePiece vocabulary: the earlier a piece, the sooner it is made."""
        pieces = len(WORDS) + len(LETTERS)
        return [0.0] * 257 + [-float(i) for i in range(pieces)] + [0.0] * len(self.special)


def shown_bytes() -> list[str]:
    """The character that stands for each byte in a byte-level vocabulary."""
    printed = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [b for b in range(256) if b not in printed]
    shown = {b: chr(b) for b in printed} | {b: chr(256 + i) for i, b in enumerate(hidden)}
    return [shown[b] for b in range(256)]
