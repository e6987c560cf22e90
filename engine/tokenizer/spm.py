"""SentencePiece BPE, `tokenizer.ggml.model` = "llama": the best-scored neighbours merge first."""

import re
from array import array
from functools import cached_property

import numpy as np

from engine.errors import BadFile
from engine.tokenizer.merge import merge
from engine.tokenizer.vocab import Vocab
from engine.tokenizer.words import SPACE, Pause, WordCache, no_pause, space_cutter

# Looking through the vocabulary for safe cuts pays from this many characters on.
_SHORT = 256


class SentencePiece:
    """Tokens of text without special tokens; spaces are U+2581 within."""

    def __init__(self, vocab: Vocab) -> None:
        if not len(vocab.scores):
            raise BadFile(
                vocab.path, "metadata has no 'tokenizer.ggml.scores'; a llama one needs it"
            )
        self._vocab = vocab
        # The best score first; equal ones are equal.
        ranks = np.unique(-np.asarray(vocab.scores, np.float64), return_inverse=True)[1]
        self._ranks = array("I", ranks.astype(np.uint32).tobytes())
        self._words = WordCache(self._word)

    def encode(self, text: str, pause: Pause = no_pause) -> list[int]:
        """The ids of `text`; characters without a token become bytes `<0xHH>`."""
        text = text.replace(" ", SPACE)
        if len(text) < _SHORT:
            return self._word(text, pause)
        return self._words.ids(self._cuts.split(text), pause)

    def spelt(self, text: str) -> bytes:
        """The text in the letters of the vocabulary; every token stands for some of them."""
        return text.replace(" ", SPACE).encode()

    @property
    def left_out(self) -> bytes | None:
        """Letters, as `spelt`, that may have no token; None where any may be left out."""
        return None if None in self._vocab.byte_ids else b""

    def text_bytes(self, text: str) -> bytes:
        """Return the bytes of a normal token."""
        return text.replace(SPACE, " ").encode()

    @cached_property
    def _cuts(self) -> "re.Pattern[str]":
        return space_cutter(self._vocab.texts.holding(SPACE))

    def _word(self, word: str, pause: Pause) -> list[int]:
        ids: list[int] = []
        for piece in merge(word, self._priority, pause):
            token = self._vocab.id(piece)
            if token is not None:
                ids.append(token)
            else:
                byte_ids = (self._vocab.byte_ids[byte] for byte in piece.encode())
                ids += [token for token in byte_ids if token is not None]
        return ids

    def _priority(self, left: str, right: str) -> int | None:
        token = self._vocab.texts.find(left + right)
        return None if token is None else self._ranks[token]
